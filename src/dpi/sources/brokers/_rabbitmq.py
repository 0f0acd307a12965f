"""RabbitMQ streams, by AMQP 0-9-1, for which no plugin is needed: each message has its offset in a header.

How far a stream has got is not told by that protocol. So a second consumer stands at the stream's end: a look asks the
server something on its channel, and what was delivered before the answer had arrived. After a flood the consumer does
not take what lies in between, which would delay the next look: a new one is put at the end. Offsets that were removed
unread lie below the first one that is delivered, and are lost.
"""

from __future__ import annotations

import socket
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import suppress
from operator import itemgetter
from typing import Any, ClassVar

from dpi.sources.brokers._address import Address
from dpi.sources.brokers.log import LOOK, MESSAGES, End, Log, Piece, Span

OFFSET = "x-stream-offset"
_UNACKNOWLEDGED, _AT_END = 1 << 14, 1 << 9
"""Messages that the server sends ahead, to the reader and to the consumer at the end."""
_QUIET = 10.0
"""Seconds without a message after which the connection is made anew."""


class RabbitStream(Log):
    """One stream."""

    named: ClassVar[str] = "stream"
    options: ClassVar[tuple[str, ...]] = ("tls", "vhost")

    client: ClassVar[tuple[str, str]] = ("amqp", "rabbitmq")
    failures: ClassVar[tuple[str, ...]] = ("AMQPError",)
    _at: int | None = None
    """What the reader is sent next."""
    _told = 0
    """How many messages there were at the last look."""

    def _consume(self, offset: int | str, ahead: int = _AT_END) -> _Consumer:
        return _Consumer(self._library, self.address, offset, ahead)

    def _ends(self, last: Mapping[str, int]) -> dict[str, End]:
        if self._look is None:
            self._look = self._stand(last.get("", 0))
        before, self._told = self._told, self._look.count()
        if self._told - before > _AT_END:
            self._look.close()
            self._look = self._stand(0)
        while self._look.messages:
            self._look.end = self._look.messages[-1][0] + 1
            self._look.messages.clear()
            self._look.count()
        return {"": End(self._look.end)}

    def _stand(self, known: int) -> _Consumer:
        """Return a consumer at the end: by the last offset that is known, or where a stream that was made anew is."""
        if known:
            consumer = self._consume(known - 1)
            try:
                consumer.wait(LOOK)
                return consumer
            except TimeoutError:
                consumer.close()
        consumer = self._consume("last")
        if consumer.count():
            consumer.wait(_QUIET)
        return consumer

    def _pieces(self, spans: Mapping[str, Span]) -> Iterator[Piece]:
        for part, (at, end) in spans.items():
            if self._reader is None or self._at != at:
                self._hang_up()
                self._reader = self._consume(at, _UNACKNOWLEDGED)
            while at < end:
                self._reader.wait(_QUIET, end)
                fresh = [each for each in self._reader.messages[:MESSAGES] if each[0] >= at]
                if fresh and fresh[0][0] > at:
                    self.lost = True
                taken = [body for offset, body in fresh if offset < end]
                following = min(fresh[-1][0] + 1, end) if fresh else at
                passed = bisect_left(self._reader.messages, end, key=itemgetter(0))
                del self._reader.messages[: MESSAGES if following < end else passed]
                at = self._at = following
                if fresh:
                    yield Piece(part, self._parse(taken), at)


class _Consumer:
    """A connection with one consumer, and what has been delivered."""

    def __init__(self, amqp: Any, address: Address, offset: int | str, ahead: int) -> None:
        self.messages: list[tuple[int, bytes]] = []
        self.end = self._taken = 0
        self._stream = address.name
        host, port = address.host(5672)
        self._connection = amqp.Connection(
            f"{host}:{port}",
            userid=address.user or "guest",
            password=address.password or "guest",
            virtual_host=address.options.get("vhost", "/"),
            ssl=address.flag("tls"),
            connect_timeout=2.0,
            read_timeout=60.0,
        )
        try:
            self._connection.connect()
            self._channel = self._connection.channel()
            self._channel.basic_qos(0, ahead, False)
            self._channel.basic_consume(self._stream, callback=self._take, arguments={OFFSET: offset})
        except BaseException:
            self.close()
            raise

    def _take(self, message: Any) -> None:
        body = message.body
        self.messages.append((message.headers[OFFSET], body if isinstance(body, bytes) else body.encode()))
        self._taken += 1
        if self._taken % 256 == 0:
            self._channel.basic_ack(message.delivery_tag, multiple=True)

    def count(self) -> int:
        """Return how many messages the server says there are; what it had sent before is taken."""
        answer = self._channel.queue_declare(self._stream, passive=True)
        return int(answer.message_count)

    def wait(self, seconds: float, end: int = 0) -> None:
        """Wait until something is delivered: what lies before `end`, or as much as is taken at once."""
        deadline = time.monotonic() + seconds
        while not self.messages or (self.messages[-1][0] < end - 1 and len(self.messages) < MESSAGES):
            rest = deadline - time.monotonic()
            if rest <= 0:
                raise TimeoutError
            self._connection.drain_events(timeout=rest)

    def close(self) -> None:
        """Let go of it."""
        if self._connection.connected:
            with suppress(OSError):  # it was lost before
                self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._connection.collect()
