"""A service, by its address and a token: its streams as if they were here, to feed and to read.

Whatever is asked of a service can be asked twice. Reading changes nothing, and a batch has a (producer, sequence) by
which it counts once. So after a lost connection, or an answer that says to come again, the same request is sent once
more, until it was answered or patience is over.
"""

from __future__ import annotations

import io
import json
import os
import random
import secrets
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast
from urllib.parse import quote

from dpi._version import how_to_install
from dpi.certificates.chain import Link, link_of
from dpi.certificates.chain import canonical as canonical_text
from dpi.domain import Domain
from dpi.domain.file import describe, from_description
from dpi.errors import OptionError, StoreError
from dpi.events.columns import canonical, read
from dpi.events.columns import times as read_times
from dpi.reader import Releases, stream_named
from dpi.release import Release

if TYPE_CHECKING:
    import httpx
    import polars as pl

    from dpi.store import Store
    from dpi.verification import Verification

__all__ = ["Connection", "RemoteStream", "connect"]

AGAIN = {408, 429, 502, 503, 504}  # answers after which the same request may fare better
TOO_LARGE = 413
LONGEST = 5.0  # seconds between two tries at most
ARROW = "application/vnd.apache.arrow.stream"
ROWS = 100_000  # events of one batch at most; the service may ask for fewer at a time


class _TooLarge(OptionError):
    """A batch must be split."""


class _RemoteStore:
    """A service, with a token: what it is asked, and as much of `dpi.store.Store` as `dpi.reader.Releases` looks at."""

    def __init__(self, url: str, token: str, patience: float) -> None:
        try:
            import httpx
        except ImportError:
            raise OptionError(f"a client needs httpx: {how_to_install('service')}.") from None
        self._patience, self._lost = patience, httpx.TransportError
        headers = {"authorization": f"Bearer {token}"}
        self.client = httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=httpx.Timeout(30.0))
        self._domains: dict[str, str] = {}

    def send(
        self, method: str, path: str, given: Mapping[str, object], content: bytes | None = None, kind: str = ""
    ) -> httpx.Response:
        """Return the answer; raises what the service, or the network, says is wrong."""
        params = {name: str(value) for name, value in given.items() if value is not None}
        headers = {"content-type": kind} if kind else {}
        deadline, pause = time.monotonic() + self._patience, 0.1
        while True:
            wait = pause * (1 + random.random())  # noqa: S311 - so that clients do not come back together
            try:
                answer = self.client.request(method, path, params=params, content=content, headers=headers)
                if answer.status_code not in AGAIN:
                    return _check(answer)
                said = answer.headers.get("retry-after", "")
                wait = max(wait, float(said)) if said.isdecimal() else wait
                problem = f"the service is not ready (HTTP {answer.status_code})"
            except self._lost as error:
                problem = f"the service cannot be reached ({type(error).__name__})"
            if time.monotonic() + wait > deadline:
                raise StoreError(f"{problem}, and it was tried for {self._patience:g} seconds.")
            time.sleep(wait)
            pause = min(2 * pause, LONGEST)

    def document(self, path: str, **parameters: object) -> dict[str, object]:
        answer: dict[str, object] = json.loads(self.send("GET", path, parameters).content)
        return answer

    def streams(self) -> dict[str, str]:
        listed = cast("list[dict[str, dict[str, object]]]", self.document("/v1/streams")["streams"])
        return {str(each["name"]): canonical_text(each["options"]) for each in listed}

    def domain(self, digest: str) -> str:
        if digest not in self._domains:
            self._domains[digest] = self.send("GET", f"/v1/domains/{digest}", {}).text
        return self._domains[digest]

    def releases(self, stream: str, first: int | None = None, last: int | None = None) -> Iterator[tuple[bytes, Link]]:
        """Give content and link of the releases of slots `first` to `last`, in order, some at a time."""
        since = None if first is None else first - 1
        while True:
            end = None if last is None else last + 1
            page = self.document(f"/v1/streams/{stream}/releases", since=since, end=end)
            for record in cast("list[dict[str, object]]", page["releases"]):
                domain = from_description(json.loads(self.domain(str(record["domain"]))))
                release = Release.from_json(json.dumps(record), domain)
                yield release.content(), link_of(release.certificate)
            since = cast("int | None", page["more_since"])
            if since is None:
                return

    def extent(self, stream: str, first: int | None = None, last: int | None = None) -> tuple[int, int, int] | None:
        """Return how many releases of slots `first` to `last` there are, and the first and last slot, if any."""
        facts = self.document(f"/v1/streams/{stream}", first=first, end=None if last is None else last + 1)
        number, *ends = (cast("int", facts[name]) for name in ("number", "first", "newest"))
        return (number, ends[0], ends[1]) if number else None

    def close(self) -> None:
        self.client.close()


def _check(answer: httpx.Response) -> httpx.Response:
    if answer.status_code < 400:
        return answer
    try:
        detail = str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        detail = f"the service refused (HTTP {answer.status_code})."
    raise (_TooLarge if answer.status_code == TOO_LARGE else OptionError)(detail)


class RemoteStream(Releases):
    """The releases of a stream of a service, as `dpi.open` gives those of a store, and what a curator may do with it.

    Batches are numbered, so that one that is sent again counts once. Whoever comes back as the `producer` of before
    goes on where that one was.
    """

    def __init__(self, service: _RemoteStore, name: str, producer: str | None = None) -> None:
        super().__init__(cast("Store", service), name)  # which a reader takes for one
        self._service, self._path = service, f"/v1/streams/{quote(name, safe='')}"
        self.producer = secrets.token_hex(16) if producer is None else producer
        self._following: int | None = 0 if producer is None else None
        self._turn = threading.Lock()

    @property
    def next_slot(self) -> int:
        """The slot that will be seen next."""
        clock = cast("dict[str, int]", self._service.document(self._path)["clock"])
        return clock["next"]

    @property
    def guarantee(self) -> str:
        """What is promised, in words."""
        return str(self._service.document(self._path)["guarantee"])

    def append(self, users: object, times: object, values: object, *, unit: str | None = None) -> tuple[str, ...]:
        """Have events kept, and return the columns that some lack: when this returns, they are durable.

        Each counts in the slot that its own time names, if that slot was open when its batch arrived. They are sent in
        batches, and sent again where that failed. One that is late, from the future, unreadable, or without user or
        value is dropped by itself. The columns are those of `user`, `time` and `value` in which the service could not
        read every row; a value that the domain does not have is none. `time` is also one of them if less than half of a
        batch is in time, as with a wrong `unit`.
        """
        frame, missing = _make_frame(users, times, values), set[str]()
        with self._turn:
            for start in range(0, frame.height, ROWS):
                missing |= self._send(frame.slice(start, ROWS), unit)
        return tuple(name for name in frame.columns if name in missing)

    def _send(self, frame: pl.DataFrame, unit: str | None) -> set[str]:
        if self._following is None:
            known = self._service.document(f"{self._path}/producers/{quote(self.producer, safe='')}")
            self._following = cast("int", known["sequence"]) + 1
        body = io.BytesIO()
        frame.write_ipc_stream(body)
        given = {"producer": self.producer, "sequence": self._following, "unit": unit}
        try:
            answer = self._service.send("POST", f"{self._path}/events", given, body.getvalue(), ARROW)
        except _TooLarge:
            if frame.height < 2:
                raise
            one, other = frame.iter_slices(-(-frame.height // 2))
            return self._send(one, unit) | self._send(other, unit)
        self._following += 1
        told = answer.json()
        return {*told["missing"], *(["time"] if told["in_time"] in ("few", "none") else [])}

    def ask(self, question: str, **parameters: object) -> list[dict[str, object]]:
        """Return the answers to a question: `ask("top", k=5)`, `ask("mean", first=10, end=20)`."""
        given = {name.replace("_", "-"): value for name, value in parameters.items()}
        document = self._service.document(f"{self._path}/answers/{quote(question, safe='')}", **given)
        return cast("list[dict[str, object]]", document["answers"])

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
        with self._service.client.stream("GET", f"{self._path}/follow", headers=headers, timeout=timeout) as answer:
            if answer.status_code in AGAIN:
                return
            if answer.status_code >= 400:
                answer.read()
            _check(answer)
            for line in answer.iter_lines():
                if stop is not None and stop.is_set():
                    return
                if line.startswith("id:"):
                    yield int(line[3:])


def _make_frame(users: object, times: object, values: object) -> pl.DataFrame:
    import polars as pl

    def plain(column: object) -> pl.Series:
        series = read(column, "value")
        return canonical(series, "value", exact=False) if isinstance(series, list) else series

    ids = canonical(users, "user")
    if isinstance(values, Mapping):
        value = pl.DataFrame({str(part): plain(column) for part, column in values.items()}).to_struct("value")
    else:
        value = plain(values)
    when = read_times(times, "time")
    if not ids.len() == when.len() == value.len():
        raise OptionError("`users`, `times` and `values` must have the same number of rows.")
    return pl.DataFrame({"user": ids, "time": when, "value": value})


def connect(url: str, token: str, *, patience: float = 60.0) -> Connection:
    """Return a service at an address such as `https://dpi.example:8321`.

    What is asked is asked again for up to `patience` seconds where the network, or the service, is away.

    >>> connect("http://127.0.0.1:1", "token", patience=0).close()     # nothing is asked before something is wanted
    """
    return Connection(_RemoteStore(url, token, patience))


class Connection:
    """What a token opens of a service."""

    def __init__(self, service: _RemoteStore) -> None:
        self._service = service

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of its streams."""
        return tuple(self._service.streams())

    @property
    def role(self) -> str:
        """What the token is for: "admin", "curator", "analyst" or "auditor"."""
        return str(self._service.document("/v1/streams")["role"])

    def stream(self, name: str | None = None, *, producer: str | None = None) -> RemoteStream:
        """Return a stream, to feed and to read; the name may be left out where there is one alone.

        Batches are sent as `producer`: give a name to go on as the one of before; otherwise it is a new one.
        """
        return RemoteStream(self._service, stream_named(cast("Store", self._service), name), producer)

    def create(self, name: str, *, domain: Domain, **options: object) -> RemoteStream:
        """Open a stream with options by the names that `dpi.toml` has, _ for -: `epsilon=1, slot="1h", per_slot=…`.

        What is `from` there is `begin` here, since Python has another use for it.
        """
        self._declare("POST", "/v1/streams", domain, {"name": name} | options)
        return self.stream(name)

    def change(self, name: str, *, domain: Domain, **options: object) -> None:
        """Go on with other options from a slot on that has not begun; all of them are said, as for a new stream."""
        self._declare("PUT", f"/v1/streams/{name}", domain, options)

    def _declare(self, method: str, path: str, domain: Domain, options: Mapping[str, object]) -> None:
        named = {"from" if key == "begin" else key.replace("_", "-"): value for key, value in options.items()}
        content = json.dumps({"domain": describe(domain)} | named).encode()
        self._service.send(method, path, {}, content, "application/json")

    def operations(self) -> dict[str, object]:
        """Return how the service does, as `dpi serve top` shows it: for a curator alone, for it follows from events."""
        return self._service.document("/v1/operations")

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write the public part of the service's store to a new file, which `dpi.open` and `dpi verify` read."""
        content = self._service.send("GET", "/v1/export", {}).content
        with Path(path).open("xb") as file:
            file.write(content)

    def verify(self) -> Verification:
        """Check the chain of certificates and its sums here, on an export: the service is not believed."""
        from dpi.store import open_store
        from dpi.verification import verify

        with tempfile.TemporaryDirectory() as folder:
            self.export(Path(folder) / "public.db")
            with open_store(Path(folder) / "public.db", read_only=True) as store:
                return verify(store)

    def close(self) -> None:
        """Let go of the connections."""
        self._service.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
