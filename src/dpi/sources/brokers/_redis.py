"""Redis Streams: an entry's id is its position.

An id is two numbers, the milliseconds at which the server received an entry and a number within them; together they are
one number of 63 bits. A message is an entry's field `event`, or its only one. Producers let the server choose the ids
(`XADD key * event …`).

Ids leave gaps, so that entries which were trimmed unread are told by the last one that was read: what is trimmed is the
oldest, and as long as that one is there nothing after it is missing. If it is gone, more may be, and is called lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from dpi.errors import StateError
from dpi.sources.brokers.log import LOOK, MESSAGES, End, Log, Piece, Span

WITHIN = 21
"""Bits of the number within a millisecond."""
FIELD = b"event"


def position(entry: bytes) -> int:
    """Return an id as one number, in the order of ids.

    >>> position(b"10-0") > position(b"9-12")
    True
    """
    moment, _, within = entry.partition(b"-")
    high, low = int(moment), int(within or 0)
    if high >> 42 or low >> WITHIN:
        raise StateError("the ids of a Redis stream must be those that the server chooses (`XADD key * …`).")
    return high << WITHIN | low


def entry_id(number: int) -> str:
    """Return the id of a position."""
    return f"{number >> WITHIN}-{number & (1 << WITHIN) - 1}"


class RedisStream(Log):
    """One Redis stream."""

    named: ClassVar[str] = "key"
    options: ClassVar[tuple[str, ...]] = ("tls", "db")

    client: ClassVar[tuple[str, str]] = ("redis", "redis")
    failures: ClassVar[tuple[str, ...]] = ("ConnectionError", "TimeoutError", "AuthenticationError")
    _added = 0
    """How many entries there had been at the last look."""

    def _connect(self, timeout: float) -> Any:
        host, port = self.address.host(6379)
        return self._library.Redis(
            host=host,
            port=port,
            db=int(self.address.options.get("db", "0")),
            username=self.address.user,
            password=self.address.password,
            ssl=self.address.flag("tls"),
            client_name="dpi",
            socket_timeout=timeout,
            socket_connect_timeout=LOOK,
        )

    def _ends(self, last: Mapping[str, int]) -> dict[str, End]:
        self._look = self._look or self._connect(LOOK)
        told = self._look.xinfo_stream(self.address.name) if self._look.exists(self.address.name) else {}
        end = position(told["last-generated-id"]) + 1 if told.get("entries-added", 0) else 0
        added, before = told.get("entries-added", 0), self._added
        self._added = added
        return {"": End(end, anew=added < before)}

    def _pieces(self, spans: Mapping[str, Span]) -> Iterator[Piece]:
        self._reader = self._reader or self._connect(60.0)
        for part, (at, end) in spans.items():
            if at > self.start_at and not self._range(at - 1, at, 1):
                self.lost = True
            while at < end and (entries := self._range(at, end, MESSAGES)):
                at = position(entries[-1][0]) + 1
                yield Piece(part, self._parse([_message(fields) for _, fields in entries]), at)
            self.lost = self.lost or at < end

    def _range(self, at: int, end: int, count: int) -> list[tuple[bytes, dict[bytes, bytes]]]:
        return list(self._reader.xrange(self.address.name, entry_id(at), entry_id(end - 1), count=count))


def _message(fields: dict[bytes, bytes] | None) -> bytes:
    """Return what an entry holds; nothing, if it has no such field."""
    if not fields:
        return b""
    return fields.get(FIELD, next(iter(fields.values())) if len(fields) == 1 else b"")
