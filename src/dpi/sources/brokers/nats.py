"""NATS JetStream: a stream is a part, named by the moment at which it was made; its sequences are positions.

Messages are pulled in large batches by a consumer that the server forgets when nobody asks, from the position that is
stored; nothing is acknowledged. A stream that was removed and made again is another part. What was removed unread lies
below the first sequence, and is lost.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from dpi.errors import StateError
from dpi.sources.brokers.address import Address
from dpi.sources.brokers.log import LOOK, MESSAGES, Columns, End, Log, Piece, Span
from dpi.sources.brokers.nats_wire import Connection, Message, NatsError
from dpi.sources.live import Done, Known

PULL = 5.0
"""Seconds that a pull may last."""
_AT_ONCE = 16 << 20
"""Bytes of one pull."""
_NOT_FOUND, _TOO_LARGE = 404, 409
_NO_STREAM = 10059
"""JetStream's own number for a stream that is not there."""


class JetStream(Log):
    """One stream."""

    start_at: ClassVar[int] = 1

    def __init__(self, address: Address, columns: Columns, done: Done, known: Known) -> None:
        address.check("tls", "ca", named="stream")
        super().__init__(address, f"nats:{address.name}", columns, done, known)
        self._missing = False
        self._look: Connection | None = None
        self._reader: Connection | None = None
        self._consumer: tuple[str, int] | None = None  # its name, and the position that it gives next

    def _state(self, connection: Connection) -> tuple[str, int, int]:
        """When the stream was made, its first sequence, and the one after the last."""
        told: Any = connection.request(f"$JS.API.STREAM.INFO.{self.address.name}")
        self._missing = told.get("error", {}).get("err_code") == _NO_STREAM
        if "error" in told:
            raise NatsError("there is no such stream.")
        return str(told["created"]), int(told["state"]["first_seq"]), int(told["state"]["last_seq"]) + 1

    def unreachable(self) -> StateError:
        """What is said of a server that is away, or of a stream that is not there."""
        if not self._missing:
            return super().unreachable()
        name = self.address.name
        return StateError(
            f"{self.address.shown!r} answers, and has no stream {name!r}: create it (`nats stream add {name}`), or "
            "name another one. The same command goes on where it stopped."
        )

    def _ends(self, last: Mapping[str, int]) -> dict[str, End]:
        self._missing = False
        if self._look is None:
            self._look = Connection(self.address, LOOK)
        created, _, end = self._state(self._look)
        return {created: End(end)}

    def _pieces(self, spans: Mapping[str, Span]) -> Iterator[Piece]:
        self._missing = False
        if self._reader is None:
            self._reader = Connection(self.address, PULL)
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
                at, payloads = _before(end, messages)
                self._consumer = (self._consumer[0], at) if self._consumer and at <= end else None
                at = min(at, end)
                yield Piece(part, self.columns.of(payloads), at)

    def _pull(self, connection: Connection, at: int, count: int) -> list[Message]:
        """Up to `count` messages from a position on; none if there are none."""
        if self._consumer is None or self._consumer[1] != at:
            self._consumer = (self._begin(connection, at), at)
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self.address.name}.{self._consumer[0]}"
        connection.ask(subject, {"batch": count, "max_bytes": _AT_ONCE, "no_wait": True})
        found: list[Message] = []
        while len(found) < count:
            for message in connection.messages(PULL):
                if not message.status:
                    found.append(message)
                elif found or message.status == _NOT_FOUND:
                    return found
                elif message.status == _TOO_LARGE:  # one message is larger than a pull should be
                    connection.ask(subject, {"batch": 1, "no_wait": True})
                    count = 1
                else:
                    raise NatsError("a pull was refused.")
        return found

    def _begin(self, connection: Connection, at: int) -> str:
        name = f"dpi-{secrets.token_hex(8)}"
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
        stream = self.address.name
        told = connection.request(
            f"$JS.API.CONSUMER.CREATE.{stream}.{name}", {"stream_name": stream, "config": config}
        )  # fmt: skip
        if "error" in told:
            raise StateError(f"{self.address.shown!r} does not let this reader make a consumer.")
        return name

    def _hang_up(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = self._consumer = None

    def _hang_up_look(self) -> None:
        if self._look is not None:
            self._look.close()
        self._look = None


def _sequence(message: Message) -> int:
    """The position in the subject to which an acknowledgement would go."""
    words = message.reply.split(b".")
    return int(words[5 if len(words) < 11 else 7])


def _before(end: int, messages: list[Message]) -> tuple[int, list[bytes]]:
    """The position after some messages, and what those before `end` hold."""
    after = _sequence(messages[-1]) + 1
    if after > end:
        messages = [message for message in messages if _sequence(message) < end]
    return after, [message.payload for message in messages]
