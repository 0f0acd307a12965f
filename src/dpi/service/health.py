"""Routes for those who watch the process: that it answers, and that it can do its work. They say nothing of events."""

from __future__ import annotations

from starlette.responses import Response

from dpi.service.endpoints import Call, document
from dpi.service.problems import Problem


async def get_health(call: Call) -> Response:
    """The process answers."""
    return document({"status": "ok"})


async def get_ready(call: Call) -> Response:
    """The store can be read, and slots can be closed: those of one stream at least, as none waits for another."""

    def read() -> None:
        with call.service.reading.store() as store:
            store.head()

    if call.service.closing.all_failing:
        raise Problem(503, "slots cannot be closed at the moment.", retry=1)
    await call.read(read)
    return document({"status": "ready"})
