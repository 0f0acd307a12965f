"""NATS JetStream: a stream is a part, named by the moment at which it was made; its sequences are positions.

Messages are pulled in large batches by a consumer that the server forgets when nobody asks, from the position that is
stored; nothing is acknowledged. A stream that was removed and made again is another part. What was removed unread lies
below the first sequence, and is lost.

The protocol is spoken by hand, for it is a dozen words: lines, and the bytes that they announce. The library in Python
takes messages one by one through an event loop, at a tenth of the speed at which a block that has arrived can be cut
here (`benchmarks/brokers.py` has both).
"""

from __future__ import annotations

import json
import secrets
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from dpi.errors import StateError
from dpi.sources.brokers._address import Address
from dpi.sources.brokers.log import LOOK, MESSAGES, End, Log, Piece, Span

PULL = 5.0
"""Seconds that a pull may last."""
_AT_ONCE = 16 << 20
"""Bytes of one pull."""
_RECEIVED = 1 << 18
_NOT_FOUND, _TOO_LARGE = 404, 409
_NO_STREAM = 10059
"""JetStream's own number for a stream that is not there."""


class NatsError(OSError):
    """The server is away, or has refused something."""


class JetStream(Log):
    """One stream."""

    start_at: ClassVar[int] = 1
    named: ClassVar[str] = "stream"
    options: ClassVar[tuple[str, ...]] = ("tls", "ca")

    _missing = False
    _consumer: tuple[str, int] | None = None
    """Its name, and the position that it gives next."""

    def _state(self, connection: _Connection) -> tuple[str, int, int]:
        """Return when the stream was made, its first sequence, and the one after the last."""
        told = connection.request(f"$JS.API.STREAM.INFO.{self.address.name}")
        self._missing = told.get("error", {}).get("err_code") == _NO_STREAM
        if "error" in told:
            raise NatsError("there is no such stream.")
        return str(told["created"]), int(told["state"]["first_seq"]), int(told["state"]["last_seq"]) + 1

    def unreachable(self) -> StateError:
        """Return what is said of a server that is away, or of a stream that is not there."""
        if not self._missing:
            return super().unreachable()
        name = self.address.name
        return StateError(
            f"{self.address.shown!r} answers, and has no stream {name!r}: create it (`nats stream add {name}`), or "
            "name another one. The same command goes on where it stopped."
        )

    def _ends(self, last: Mapping[str, int]) -> dict[str, End]:
        self._missing = False
        self._look = self._look or _Connection(self.address, LOOK)
        created, _, end = self._state(self._look)
        return {created: End(end)}

    def _pieces(self, spans: Mapping[str, Span]) -> Iterator[Piece]:
        self._missing = False
        if self._reader is None:
            self._reader, self._consumer = _Connection(self.address, PULL), None
        created, first, _ = self._state(self._reader)
        for part, (at, end) in spans.items():
            if part != created:
                self.lost = True
                continue
            self.lost = self.lost or first > at
            at = max(at, first)
            while at < end:
                messages = self._pull(self._reader, at, min(end - at, MESSAGES))
                if not messages:  # the rest was removed
                    self.lost = True
                    break
                at = messages[-1].sequence + 1
                self._consumer = (self._consumer[0], at) if self._consumer and at <= end else None
                if at > end:
                    messages = [message for message in messages if message.sequence < end]
                at = min(at, end)
                yield Piece(part, self._parse([message.payload for message in messages]), at)

    def _pull(self, connection: _Connection, at: int, count: int) -> list[_Message]:
        """Return up to `count` messages from a position on; none if there are none."""
        if self._consumer is None or self._consumer[1] != at:
            self._consumer = (self._make_consumer(connection, at), at)
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self.address.name}.{self._consumer[0]}"
        connection.ask(subject, {"batch": count, "max_bytes": _AT_ONCE, "no_wait": True})
        messages: list[_Message] = []
        while len(messages) < count:
            for message in connection.messages(PULL):
                if not message.status:
                    messages.append(message)
                elif messages or message.status == _NOT_FOUND:
                    return messages
                elif message.status == _TOO_LARGE:  # one message is larger than a pull should be
                    connection.ask(subject, {"batch": 1, "no_wait": True})
                    count = 1
                else:
                    raise NatsError("a pull was refused.")
        return messages

    def _make_consumer(self, connection: _Connection, at: int) -> str:
        name, stream = f"dpi-{secrets.token_hex(8)}", self.address.name
        config = {
            "name": name,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": at,
            "ack_policy": "none",
            "replay_policy": "instant",
            "inactive_threshold": 30_000_000_000,
            "num_replicas": 1,
            "mem_storage": True,
        }
        asked = {"stream_name": stream, "config": config}
        if "error" in connection.request(f"$JS.API.CONSUMER.CREATE.{stream}.{name}", asked):
            raise StateError(f"{self.address.shown!r} does not let this reader make a consumer.")
        return name


class _Message(NamedTuple):
    """What came on a subscription."""

    reply: bytes
    status: int
    """0, or what the server says instead of a message."""
    payload: bytes

    @property
    def sequence(self) -> int:
        """The position in the subject to which an acknowledgement would go."""
        words = self.reply.split(b".")
        return int(words[5 if len(words) < 11 else 7])


class _Connection:
    """A connection to one server, with one inbox."""

    def __init__(self, address: Address, timeout: float) -> None:
        self._timeout = timeout
        self._socket = socket.create_connection(address.host(4222), timeout)
        self._rest = b""
        info = json.loads(self._line().partition(b" ")[2])
        if address.flag("tls") or info.get("tls_required"):
            context = ssl.create_default_context(cafile=address.options.get("ca"))
            self._socket = context.wrap_socket(self._socket, server_hostname=address.host(4222)[0])
        told: dict[str, object] = {"verbose": False, "pedantic": False, "headers": True, "lang": "dpi", "protocol": 1}
        if address.user is not None:
            told |= {"user": address.user, "pass": address.password or ""}
        elif address.password is not None:
            told["auth_token"] = address.password
        self._inbox = f"_INBOX.{secrets.token_hex(12)}"
        self._send(f"CONNECT {json.dumps(told)}\r\nSUB {self._inbox} 1\r\nPING\r\n".encode())
        while (line := self._line()) != b"PONG":
            _check(line)

    def request(self, subject: str, content: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Return what JetStream answers to a question."""
        self.ask(subject, content)
        deadline = time.monotonic() + self._timeout
        while True:
            for message in self.messages(deadline - time.monotonic()):
                if message.status:
                    raise NatsError("JetStream does not answer.")
                if message.payload.startswith(b'{"type":"io.nats.jetstream.api.'):
                    answer: dict[str, Any] = json.loads(message.payload)
                    return answer

    def ask(self, subject: str, content: Mapping[str, object] | None = None) -> None:
        """Send a question, whose answers come to the inbox."""
        body = b"" if content is None else json.dumps(content).encode()
        self._send(b"PUB %s %s %d\r\n%s\r\n" % (subject.encode(), self._inbox.encode(), len(body), body))

    def messages(self, timeout: float) -> list[_Message]:
        """Return all messages that have come, at least one; raise an error if none comes in time."""
        messages: list[_Message] = []
        deadline = time.monotonic() + timeout
        while not messages:
            self._receive(deadline - time.monotonic())
            messages = self._cut()
        return messages

    def _cut(self) -> list[_Message]:
        """Return the whole messages in what has come; the rest is kept."""
        data, at, messages = self._rest, 0, []
        while (end := data.find(b"\r\n", at)) >= 0:
            words = data[at:end].split()
            kind = words[0].upper() if words else b""
            if kind in (b"MSG", b"HMSG"):
                start = end + 2
                stop = start + int(words[-1])
                if len(data) < stop + 2:
                    break
                head = int(words[-2]) if kind == b"HMSG" else 0
                reply = words[3] if len(words) == 5 + (head > 0) else b""
                status = _status(data[start : start + head]) if head and not reply else 0
                messages.append(_Message(reply, status, data[start + head : stop]))
                at = stop + 2
                continue
            if kind == b"PING":
                self._send(b"PONG\r\n")
            else:
                _check(data[at:end])
            at = end + 2
        self._rest = data[at:]
        return messages

    def _line(self) -> bytes:
        while b"\r\n" not in self._rest:
            self._receive(self._timeout)
        line, _, self._rest = self._rest.partition(b"\r\n")
        return line

    def _receive(self, timeout: float) -> None:
        self._socket.settimeout(max(timeout, 0.001))
        data = self._socket.recv(_RECEIVED)
        if not data:
            raise NatsError("the server has closed the connection.")
        self._rest += data

    def _send(self, data: bytes) -> None:
        self._socket.settimeout(self._timeout)
        self._socket.sendall(data)

    def close(self) -> None:
        """Let go of it."""
        self._socket.close()


def _check(line: bytes) -> None:
    if line.startswith(b"-ERR"):
        raise NatsError("the server refused the connection.")


def _status(head: bytes) -> int:
    """Return the number in a head such as `NATS/1.0 404 No Messages`; 0 if it has none."""
    words = head.partition(b"\r\n")[0].split()
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
