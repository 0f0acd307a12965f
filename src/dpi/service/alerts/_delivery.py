"""Delivery of alerts: a message, the webhook that takes it, and the outbox in which it waits until it was taken.

**Guarantee.** A message that was put is delivered at least once, also over a crash, unless so many wait already that
it is left out, which is logged. *Why:* its file is durable before `put` returns, and removed after the receiver has
said yes. A receiver that is away delays its own messages alone: every outbox has a thread and a folder of its own.

Knows texts, addresses and times; logs say that something was not delivered, never what. Shows no secret.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import httpx

from dpi.errors import StoreError
from dpi.files import write_file
from dpi.service import logs

SECONDS = 10.0  # how long a receiver may take to answer
MOST = 1000  # messages that wait at most
FIRST, LONGEST = 1.0, 300.0  # seconds before the second try, and between two tries at most
LEAVING = 1.0  # seconds that a delivery may still take when the service stops; it is tried again by the next one
Fact = str | int | float | None


@dataclass(frozen=True)
class Message:
    """An alert on its way; knows nothing of where its facts come from."""

    id: str  # the same for the same alert, however often it is sent: receivers drop repeats by it
    kind: str
    stream: str
    slot: int | None
    sentence: str
    facts: Mapping[str, Fact]

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), ensure_ascii=False, sort_keys=True).encode()


def make_id(*parts: object) -> str:
    """Return the id of an alert: a digest of what it is about.

    >>> make_id("anomaly", "visits", 7, "DE") == make_id("anomaly", "visits", 7, "DE") != make_id("lag", "visits", 7)
    True
    """
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Webhook:
    """POSTs the document to an address; taken if the answer is of 2xx. Redirections are not followed."""

    url: str
    secret: bytes = field(repr=False)

    def send(self, message: Message) -> None:
        body, at = message.to_json(), str(int(time.time()))
        headers = {
            "content-type": "application/json",
            "dpi-alert": message.id,
            "dpi-timestamp": at,
            "dpi-signature": sign(self.secret, at, body),
        }
        httpx.post(self.url, content=body, headers=headers, timeout=SECONDS).raise_for_status()


def sign(secret: bytes, timestamp: str, body: bytes) -> str:
    """Return the signature that a receiver compares (`hmac.compare_digest`), and refuses if the timestamp is old.

    >>> sign(b"secret", "1767225600", b"{}")[:16]
    'sha256=fa7eaa06b'
    """
    return "sha256=" + hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


class Outbox(threading.Thread):
    """The messages for one hook, from `start` to `stop`; `send` raises if the receiver has not said yes."""

    def __init__(self, folder: Path, send: Callable[[Message], None], audience: str, *, first: float = FIRST) -> None:
        super().__init__(name=f"dpi alerts {audience}", daemon=True)
        self.folder, self._send, self._audience, self._first = folder, send, audience, first
        self._wake, self._stopped = threading.Event(), threading.Event()
        self._full = False
        self._turn = threading.Lock()
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StoreError(f"the folder of alerts {folder} cannot be made: {error.strerror}.") from None

    def put(self, message: Message) -> None:
        """Keep a message durably; one of the same id that still waits is not kept twice."""
        with self._turn:
            waiting = self._list()
            if any(path.stem.endswith(message.id) for path in waiting):
                return
            if len(waiting) >= MOST:
                if not self._full:
                    logs.tell("alerts are left out", logging.ERROR, role=self._audience)
                self._full = True
                return
            self._full = False
            write_file(self.folder / f"{time.time_ns():020d}-{message.id}.json", message.to_json())
        self._wake.set()

    def stop(self) -> None:
        """End soon; what waits is there for the next one."""
        self._stopped.set()
        self._wake.set()
        if self.is_alive():
            self.join(LEAVING)

    def _list(self) -> list[Path]:
        return sorted(self.folder.glob("*-*.json"))

    def run(self) -> None:
        """Deliver, beginning with what was left by another process."""
        attempt = 0
        while not self._stopped.is_set():
            self._wake.clear()
            try:
                for path in self._list():
                    if self._stopped.is_set():
                        return
                    self._deliver(path)
                    if attempt:
                        logs.tell("alerts are delivered again", role=self._audience)
                    attempt = 0
            except Exception as error:
                attempt += 1
                pause = min(LONGEST, self._first * 2.0 ** min(attempt - 1, 20)) * (1 + random.random() / 4)  # noqa: S311
                if attempt == 1:  # its text may hold an address, or what a receiver has said
                    kind = type(error).__name__
                    logs.tell("an alert is not delivered", logging.WARNING, role=self._audience, kind=kind)
                self._stopped.wait(pause)
                continue
            self._wake.wait()

    def _deliver(self, path: Path) -> None:
        try:
            message = Message(**json.loads(path.read_bytes()))
        except (ValueError, TypeError):  # not one of ours
            path.rename(path.with_suffix(".damaged"))
            return
        self._send(message)
        with suppress(FileNotFoundError):
            path.unlink()
