"""NATS, as much of it as reading JetStream needs: lines, and the bytes that they announce.

Why by hand: the protocol is a dozen words, and the library in Python takes messages one by one through an event loop,
at a tenth of the speed at which a block that has arrived can be cut here (benchmarks/brokers.py has both).

Sees messages on their way; keeps none.
"""

from __future__ import annotations

import json
import secrets
import socket
import ssl
import time
from collections.abc import Mapping
from typing import NamedTuple

from dpi.sources.brokers.address import Address

_RECEIVED = 1 << 18


class NatsError(OSError):
    """The server is away, or has refused something."""


class Message(NamedTuple):
    """What came on a subscription."""

    reply: bytes
    status: int
    """0, or what the server says instead of a message."""
    payload: bytes


class Connection:
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
        self.inbox = f"_INBOX.{secrets.token_hex(12)}"
        self._send(f"CONNECT {json.dumps(told)}\r\nSUB {self.inbox} 1\r\nPING\r\n".encode())
        while (line := self._line()) != b"PONG":
            self._refused(line)

    def request(self, subject: str, content: Mapping[str, object] | None = None) -> dict[str, object]:
        """What JetStream answers to a question."""
        self.ask(subject, content)
        deadline = time.monotonic() + self._timeout
        while True:
            for message in self.messages(deadline - time.monotonic()):
                if message.status:
                    raise NatsError("JetStream does not answer.")
                if message.payload.startswith(b'{"type":"io.nats.jetstream.api.'):
                    found: dict[str, object] = json.loads(message.payload)
                    return found

    def ask(self, subject: str, content: Mapping[str, object] | None = None) -> None:
        """Send a question, whose answers come to the inbox."""
        body = b"" if content is None else json.dumps(content).encode()
        self._send(b"PUB %s %s %d\r\n%s\r\n" % (subject.encode(), self.inbox.encode(), len(body), body))

    def messages(self, timeout: float) -> list[Message]:
        """All messages that have come, at least one; an error if none comes in time."""
        found: list[Message] = []
        deadline = time.monotonic() + timeout
        while not found:
            self._receive(deadline - time.monotonic())
            found = self._cut()
        return found

    def _cut(self) -> list[Message]:
        """The whole messages in what has come; the rest is kept."""
        data, at, found = self._rest, 0, []
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
                found.append(Message(reply, status, data[start + head : stop]))
                at = stop + 2
                continue
            if kind == b"PING":
                self._send(b"PONG\r\n")
            else:
                self._refused(data[at:end])
            at = end + 2
        self._rest = data[at:]
        return found

    def _line(self) -> bytes:
        while b"\r\n" not in self._rest:
            self._receive(self._timeout)
        line, _, self._rest = self._rest.partition(b"\r\n")
        return line

    @staticmethod
    def _refused(line: bytes) -> None:
        if line.startswith(b"-ERR"):
            raise NatsError("the server refused the connection.")

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


def _status(head: bytes) -> int:
    """The number in a head such as `NATS/1.0 404 No Messages`; 0 if it has none."""
    words = head.partition(b"\r\n")[0].split()
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
