"""A service that runs in this process, on a port of its own, by a clock that a test may set."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

import dpi
from dpi.service.config import Config
from dpi.service.running import Server, make_server
from dpi.service.service import Service
from dpi.settings.streams import StreamSettings

BEGIN = "2026-01-01T00:00:00+00:00"
MOMENT = 1_767_225_600_000_000
"""The same in microseconds since 1970."""
SECOND = 1_000_000
SLOT = 10 * SECOND
FIRST = MOMENT // SLOT
"""The number of the first slot."""
PAGES = dpi.Categories(["home", "search"])


class SetClock:
    """A clock that shows what a test says; None is the system's."""

    def __init__(self, now: int | None = MOMENT) -> None:
        self.now = now

    def __call__(self) -> int:
        """Microseconds since 1970."""
        return time.time_ns() // 1000 if self.now is None else self.now


@dataclass
class Running:
    """A service with its clock, its address, and a token of each role."""

    service: Service
    clock: SetClock
    url: str
    tokens: dict[str, str]
    server: Server
    clients: dict[str | None, httpx.Client] = field(default_factory=dict)
    turn: threading.Lock = field(default_factory=threading.Lock)

    def client(self, role: str | None = None) -> httpx.Client:
        """A client with the token of a role."""
        with self.turn:
            if role not in self.clients:
                headers = {} if role is None else {"authorization": f"Bearer {self.tokens[role]}"}
                self.clients[role] = httpx.Client(base_url=self.url, headers=headers, timeout=30.0)
            return self.clients[role]

    def connect(self, role: str) -> dpi.client.Connection:
        """The package's own client."""
        return dpi.connect(self.url, self.tokens[role], patience=10.0)

    def unread(self, path: str, token: str) -> socket.socket:
        """A request whose answer has begun, and of which nothing is read."""
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        host, port = self.url.removeprefix("http://").split(":")
        made.settimeout(60)
        made.connect((host, int(port)))
        made.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        made.recv(1, socket.MSG_PEEK)
        return made

    def taken(self, number: int) -> None:
        """Wait until the heads of so many batches are here."""
        deadline = time.monotonic() + 30
        while self.service.arriving.number < number:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def set(self, seconds: float) -> None:
        """Move the clock to so many seconds after the beginning, and have the thread that closes slots look at it."""
        self.clock.now = MOMENT + round(seconds * SECOND)
        self.closed()

    def closed(self) -> None:
        """Wait until every slot that the clock has closed is released."""
        closing, clock = self.service.closing, self.clock
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if closing.call(
                lambda: all(each.stopped or each.upcoming[0] > clock() for each in closing.streams.values())
            ).result(30):
                return
            time.sleep(0.005)
        raise TimeoutError("slots were not closed.")

    def send(self, rows: list[tuple[str, float, str]], sequence: int, producer: str = "p") -> httpx.Response:
        """A batch of (user, seconds after the beginning, value) as columns in JSON."""
        columns = {
            "user": [row[0] for row in rows],
            "time": [MOMENT + round(row[1] * SECOND) for row in rows],
            "value": [row[2] for row in rows],
        }
        given = {"producer": producer, "sequence": sequence, "unit": "us"}
        return self.client("curator").post("/v1/streams/visits/events", params=given, json=columns)


@contextmanager
def held(found: Running, seconds: float) -> Iterator[None]:
    """Keep the thread that moves bytes from doing so."""
    begun = threading.Event()

    def hold() -> None:
        begun.set()
        time.sleep(seconds)

    found.service.receipts._loop.call_soon_threadsafe(hold)
    assert begun.wait(10)
    yield


def read_answer(connection: socket.socket) -> tuple[int, object]:
    """The status of an answer and its document; its head and its body may come one after the other."""
    said = b""
    while not said.endswith(b"}"):
        part = connection.recv(1 << 16)
        assert part
        said += part
    return int(said[9:12]), json.loads(said.partition(b"\r\n\r\n")[2])


def kept(slot: int | None) -> dict[str, object]:
    """The answer to a batch whose rows are all understood and in time; None if it was kept before."""
    return {"kept": True, "slot": slot, "understood": "all", "missing": [], "in_time": None if slot is None else "all"}


def settings(**options: object) -> StreamSettings:
    """A stream with slots of ten seconds."""
    given = {"name": "visits", "domain": PAGES, "epsilon": "1", "slot": "10s", "begin": BEGIN}
    return StreamSettings(**(given | options))  # type: ignore[arg-type]


@contextmanager
def running(
    folder: Path, *streams: StreamSettings, now: int | None = MOMENT, clock: SetClock | None = None, **options: object
) -> Iterator[Running]:
    """A service on a free port until the test ends."""
    given = {"delay": "1s", "streams": {each.name: each for each in streams or (settings(),)}}
    places = {"store": str(folder / "visits.db"), "tokens": folder / "tokens.json", "port": 0}
    config = Config(**(places | given | options))  # type: ignore[arg-type]
    shown = SetClock(now) if clock is None else clock
    service = Service(config, clock=shown)
    tokens = {role: service.tokens.create(role) for role in ("admin", "curator", "analyst", "auditor")}
    tokens["another admin"] = service.tokens.create("admin")
    made = make_server(service)
    thread = threading.Thread(target=made.run, daemon=True)
    thread.start()
    found = Running(service, shown, f"http://127.0.0.1:{port_of(made)}", tokens, made)
    try:
        yield found
    finally:
        for client in found.clients.values():
            client.close()
        service.leave()
        made.should_exit = True
        thread.join(timeout=40)
        assert not thread.is_alive()


def port_of(made: Server) -> int:
    """The port that a server got."""
    deadline = time.monotonic() + 30
    while not (made.started and made.servers):
        if time.monotonic() > deadline:
            raise TimeoutError("the server did not start.")
        time.sleep(0.005)
    return int(made.servers[0].sockets[0].getsockname()[1])
