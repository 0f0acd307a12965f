"""Server-sent events: each release of a stream, when it is seen.

An event names a slot; whoever wants the release asks for it. Slots are released one after the other, so that a reader
who comes back with `Last-Event-ID` misses none: what is said follows from the number of the last slot that is seen.

Sees numbers of slots.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from starlette.responses import Response, StreamingResponse

from dpi.events.slots import Slots
from dpi.reader import Releases
from dpi.service._endpoints import Call, read_whole
from dpi.service._problems import Problem
from dpi.service._publication import Publication, Published

ALIVE = 15.0  # seconds after which a comment says that the connection is
STREAM = "text/event-stream"


class News:
    """Wakes those who wait, at the moments at which releases are seen. Lives in one event loop."""

    def __init__(self, publication: Publication) -> None:
        self._publication = publication
        self._loop = asyncio.get_running_loop()
        self._next = asyncio.Event()
        self.closed = False
        publication.listen(self._ready)

    def _ready(self, published: Published) -> None:
        """Said by another thread: a release will be seen when it is due."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._await, published.due)

    def _await(self, due: int) -> None:
        rest = (due - self._publication.now()) / 1e6
        if rest > 0:
            self._loop.call_later(rest, self._await, due)
        else:
            self._wake()

    def _wake(self) -> None:
        self._next.set()
        self._next = asyncio.Event()

    def close(self) -> None:
        self.closed = True
        self._wake()

    async def wait(self, seconds: float) -> None:
        """Until something may be seen, or so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._next.wait()
        except TimeoutError:
            pass


async def follow(call: Call) -> Response:
    name, service, news = call.stream, call.service, call.request.app.state.news
    said = call.request.headers.get("last-event-id") or call.text("since")
    since = None if said is None else read_whole(said)
    if said is not None and since is None:
        raise Problem(422, "`Last-Event-ID` and `since` must be the number of a slot.")
    slots = service.admissions[name].slots
    if since is None:
        since = service.publication.upto(name)

    def find_first(releases: Releases) -> int:
        found = releases.store.extent(name)
        return service.admissions[name].first if found is None else found[1]

    since = max(-(1 << 62) if since is None else since, await call.read_releases(find_first) - 1)
    return StreamingResponse(_write_events(service.publication, name, slots, news, since), media_type=STREAM)


async def _write_events(
    publication: Publication, name: str, slots: Slots, news: News, since: int
) -> AsyncIterator[bytes]:
    yield b"retry: 1000\n\n"
    while not news.closed:
        upto = publication.upto(name)
        while upto is not None and since < upto and not news.closed:
            since += 1
            data = json.dumps({"stream": name, "slot": since, "start": slots.start(since).isoformat()})
            yield f"id: {since}\nevent: release\ndata: {data}\n\n".encode()
        await news.wait(ALIVE)
        if publication.upto(name) in (None, since):
            yield b": alive\n\n"
