"""Routes for whoever runs the service, and for whoever asks what it costs: metrics, acts, budgets."""

from __future__ import annotations

from itertools import islice

from starlette.responses import Response

from dpi.errors import StateError
from dpi.service import metrics
from dpi.service.budgets import budget_of
from dpi.service.endpoints import Call, document

MOST_ACTS = 1000


async def get_metrics(call: Call) -> Response:
    """Numbers for Prometheus. They are made from events: the operator's alone."""
    return Response(await call.read(call.service.metrics.text), media_type=metrics.CONTENT_TYPE)


async def get_operations(call: Call) -> Response:
    """Lag, arrivals, accounts, next closings and budgets of all streams. Private: the curator's alone."""
    return document((await call.read(call.service.overview.now)).document())


async def get_acts(call: Call) -> Response:
    """Administrative acts after a number, and whether the log is whole."""
    after = call.whole("after", -1, -1) or 0
    acts = call.service.acts

    def read() -> dict[str, object]:
        try:
            head, whole = acts.check().sequence, True
        except StateError:
            head, whole = -1, False
        found = (entry for entry in acts.entries() if int(str(entry["sequence"])) > after)
        return {"acts": list(islice(found, MOST_ACTS)), "head": head, "whole": whole}

    return document(await call.read(read))


async def get_budget(call: Call) -> Response:
    """What is promised, spent at most, and due next."""
    name = call.stream

    def read() -> dict[str, object]:
        reading = call.service.reading
        by_store = reading.spent()
        with reading.releases(name) as releases:
            return budget_of(releases, name, call.service.guarantees[name], by_store).document()

    return document(await call.read(read))
