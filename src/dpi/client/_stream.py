"""A stream of a service, to feed and to read, and what a reader needs of the service's store."""

from __future__ import annotations

import io
import json
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

from dpi.certificates.chain import Link, link_of
from dpi.certificates.chain import canonical as canonical_text
from dpi.client._requests import AGAIN, Requests, TooLarge, check
from dpi.domain.file import from_description
from dpi.errors import OptionError
from dpi.events.columns import canonical, read
from dpi.events.columns import times as read_times
from dpi.reader import Releases
from dpi.release import Release

if TYPE_CHECKING:
    import polars as pl

    from dpi.store import Store

ARROW = "application/vnd.apache.arrow.stream"
ROWS = 100_000  # events of one batch at most; the service may ask for fewer at a time


class RemoteStore:
    """The public part of a service's store: as much of `dpi.store.Store` as `dpi.reader.Releases` looks at."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._domains: dict[str, str] = {}

    def streams(self) -> dict[str, str]:
        listed = cast("list[dict[str, dict[str, object]]]", self._requests.document("/v1/streams")["streams"])
        return {str(each["name"]): canonical_text(each["options"]) for each in listed}

    def domain(self, digest: str) -> str:
        if digest not in self._domains:
            self._domains[digest] = self._requests.send("GET", f"/v1/domains/{digest}").text
        return self._domains[digest]

    def releases(self, stream: str, first: int | None = None, last: int | None = None) -> Iterator[tuple[bytes, Link]]:
        """Give content and link of the releases of slots `first` to `last`, in order, some at a time."""
        since = None if first is None else first - 1
        while True:
            end = None if last is None else last + 1
            found = self._requests.document(f"/v1/streams/{stream}/releases", since=since, end=end)
            for record in cast("list[dict[str, object]]", found["releases"]):
                domain = from_description(json.loads(self.domain(str(record["domain"]))))
                release = Release.from_json(json.dumps(record), domain)
                yield release.content(), link_of(release.certificate)
            since = cast("int | None", found["more_since"])
            if since is None:
                return

    def extent(self, stream: str, first: int | None = None, last: int | None = None) -> tuple[int, int, int] | None:
        """Return how many releases of slots `first` to `last` there are, and the first and last slot, if any."""
        found = self._requests.document(f"/v1/streams/{stream}", first=first, end=None if last is None else last + 1)
        number, *ends = (cast("int", found[name]) for name in ("number", "first", "newest"))
        return (number, ends[0], ends[1]) if number else None

    def close(self) -> None:
        self._requests.client.close()


class RemoteStream(Releases):
    """The releases of a stream of a service, as `dpi.open` gives those of a store, and what a curator may do with it.

    Batches are numbered, so that one that is sent again counts once. Whoever comes back as the `producer` of before
    goes on where that one was.
    """

    def __init__(self, requests: Requests, name: str, producer: str | None = None) -> None:
        super().__init__(cast("Store", RemoteStore(requests)), name)  # which a reader takes for one
        self._requests, self._path = requests, f"/v1/streams/{quote(name, safe='')}"
        self.producer = secrets.token_hex(16) if producer is None else producer
        self._following: int | None = 0 if producer is None else None
        self._turn = threading.Lock()

    @property
    def next_slot(self) -> int:
        """The slot that will be seen next."""
        clock = cast("dict[str, int]", self._requests.document(self._path)["clock"])
        return clock["next"]

    @property
    def guarantee(self) -> str:
        """What is promised, in words."""
        return str(self._requests.document(self._path)["guarantee"])

    def append(self, users: object, times: object, values: object, *, unit: str | None = None) -> None:
        """Have events kept: when this returns, they are durable, each in the slot that its own time names.

        They are sent in batches, and sent again where that failed. One that is late, from the future, unreadable, or
        without user or bin is dropped by itself, and nobody is told.
        """
        frame = _make_frame(users, times, values)
        with self._turn:
            for start in range(0, frame.height, ROWS):
                self._send(frame.slice(start, ROWS), unit)

    def _send(self, frame: pl.DataFrame, unit: str | None) -> None:
        if self._following is None:
            known = self._requests.document(f"{self._path}/producers/{quote(self.producer, safe='')}")
            self._following = cast("int", known["sequence"]) + 1
        body = io.BytesIO()
        frame.write_ipc_stream(body)
        given = {"producer": self.producer, "sequence": self._following, "unit": unit}
        try:
            kind, path = {"content-type": ARROW}, f"{self._path}/events"
            self._requests.send("POST", path, parameters=given, content=body.getvalue(), headers=kind)
        except TooLarge:
            if frame.height < 2:
                raise
            for half in frame.iter_slices(-(-frame.height // 2)):
                self._send(half, unit)
        else:
            self._following += 1

    def ask(self, question: str, **parameters: object) -> list[dict[str, object]]:
        """Return the answers to a question: `ask("top", k=5)`, `ask("mean", first=10, end=20)`."""
        given = {name.replace("_", "-"): value for name, value in parameters.items()}
        found = self._requests.document(f"{self._path}/answers/{quote(question, safe='')}", **given)
        return cast("list[dict[str, object]]", found["answers"])

    def follow(
        self, *, every: float = 1.0, stop: threading.Event | None = None, since: int | None = None
    ) -> Iterator[Release]:
        """Give the releases that are there (or those after a slot), and then each new one as soon as it is seen.

        A connection that is lost is made again after `every` seconds, and goes on after the last release.
        """
        import httpx

        if not every > 0:
            raise OptionError(f"`every` must be above 0. Got {every!r}.")
        last = since if since is not None else -(1 << 53)
        while stop is None or not stop.is_set():
            with suppress(httpx.TransportError):
                for slot in self._follow_once(last, stop):
                    yield from self.between(slot, slot + 1)
                    last = slot
            time.sleep(every)

    def _follow_once(self, since: int, stop: threading.Event | None) -> Iterator[int]:
        import httpx

        headers, timeout = {"last-event-id": str(since)}, httpx.Timeout(30.0)
        with self._requests.client.stream("GET", f"{self._path}/follow", headers=headers, timeout=timeout) as answer:
            if answer.status_code in AGAIN:
                return
            if answer.status_code >= 400:
                answer.read()
            check(answer)
            for line in answer.iter_lines():
                if stop is not None and stop.is_set():
                    return
                if line.startswith("id:"):
                    yield int(line[3:])


def _make_frame(users: object, times: object, values: object) -> pl.DataFrame:
    import polars as pl

    def plain(column: object) -> pl.Series:
        found = read(column, "value")
        return canonical(found, "value", exact=False) if isinstance(found, list) else found

    ids = canonical(users, "user")
    if isinstance(values, Mapping):
        value = pl.DataFrame({str(part): plain(column) for part, column in values.items()}).to_struct("value")
    else:
        value = plain(values)
    when = read_times(times, "time")
    if not ids.len() == when.len() == value.len():
        raise OptionError("`users`, `times` and `values` must have the same number of rows.")
    return pl.DataFrame({"user": ids, "time": when, "value": value})
