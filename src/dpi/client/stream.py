"""A stream of a service, to feed and to read."""

from __future__ import annotations

import io
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

from dpi.client.requests import AGAIN, Requests, TooLarge, checked
from dpi.client.store import RemoteStore
from dpi.errors import OptionError
from dpi.events.columns import canonical, read
from dpi.events.columns import times as read_times
from dpi.reader import Releases
from dpi.release import Release

if TYPE_CHECKING:
    import polars as pl

    from dpi.store import Store

ARROW = "application/vnd.apache.arrow.stream"
ROWS = 100_000
"""Events of one batch at most; the service may ask for fewer at a time."""


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

    # As a stream.

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
        frame = _frame(users, times, values)
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
            self._requests.send(
                "POST", f"{self._path}/events", parameters=given, content=body.getvalue(),
                headers={"content-type": ARROW},
            )  # fmt: skip
        except TooLarge:
            if frame.height < 2:
                raise
            half = frame.height // 2
            self._send(frame.slice(0, half), unit)
            self._send(frame.slice(half), unit)
        else:
            self._following += 1

    # As a reader.

    def ask(self, question: str, **parameters: object) -> list[dict[str, object]]:
        """The answers to a question, as the service gives them: `ask("top", k=5)`, `ask("mean", first=10, end=20)`."""
        given = {name.replace("_", "-"): value for name, value in parameters.items()}
        found = self._requests.document(f"{self._path}/answers/{quote(question, safe='')}", **given)
        return cast("list[dict[str, object]]", found["answers"])

    def follow(
        self, *, every: float = 1.0, stop: threading.Event | None = None, since: int | None = None
    ) -> Iterator[Release]:
        """The releases that are there (or those after a slot), and then each new one as soon as it is seen.

        A connection that is lost is made again after `every` seconds, and goes on after the last release.
        """
        import httpx

        if not every > 0:
            raise OptionError(f"`every` must be above 0. Got {every!r}.")
        last = since if since is not None else -(1 << 53)
        while stop is None or not stop.is_set():
            with suppress(httpx.TransportError):
                for slot in self._events(last, stop):
                    yield from self.between(slot, slot + 1)
                    last = slot
            time.sleep(every)

    def _events(self, since: int, stop: threading.Event | None) -> Iterator[int]:
        import httpx

        headers, timeout = {"last-event-id": str(since)}, httpx.Timeout(30.0)
        with self._requests.client.stream("GET", f"{self._path}/follow", headers=headers, timeout=timeout) as answer:
            if answer.status_code in AGAIN:
                return
            if answer.status_code >= 400:
                answer.read()
            checked(answer)
            for line in answer.iter_lines():
                if stop is not None and stop.is_set():
                    return
                if line.startswith("id:"):
                    yield int(line[3:])


def _frame(users: object, times: object, values: object) -> pl.DataFrame:
    """Columns as a table that Arrow can carry."""
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
