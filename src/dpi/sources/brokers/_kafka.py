"""Kafka: a topic's partitions are parts, their offsets positions.

Partitions are assigned by hand, from what is stored: there is no group that commits or rebalances. Offsets that hold no
message (ends of transactions, what was compacted) are passed: a partition is read to its end when the library says so.
New partitions are found at the next look. What retention took unread lies below the first offset, and is lost.

**Transactions.** How far a partition has got is its high watermark, and a message belongs to the first mark above its
offset. Both follow from when messages were produced, so no user's open transaction moves another user's message. The
last stable offset would: it stands still for everybody while one transaction is open. The reader takes committed
messages alone, and the broker gives it none beyond the stable offset; so reading up to a mark waits for the
transactions that were open there, at most as long as the broker lets a transaction last. What was aborted is passed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from dpi.sources.brokers._address import load_client
from dpi.sources.brokers.log import LOOK, MESSAGES, End, Log, Piece, Span

QUIET = 10.0
"""Seconds without a word after which the connection is made anew."""
TRANSACTION = 900.0
"""Seconds that a broker lets a transaction last, unless it is set up otherwise."""
_HELD = 1 << 14
"""KiB that the library fetches ahead."""


class KafkaTopic(Log):
    """All partitions of one topic."""

    named: ClassVar[str] = "topic"
    options: ClassVar[tuple[str, ...]] = ("tls", "sasl", "ca")

    client: ClassVar[tuple[str, str]] = ("confluent_kafka", "kafka")
    failures: ClassVar[tuple[str, ...]] = ("KafkaException",)

    def _config(self, **more: object) -> dict[str, object]:
        address, tls = self.address, self.address.flag("tls")
        config: dict[str, object] = {
            "bootstrap.servers": address.hosts or "localhost:9092",
            "log_level": 0,
            "socket.connection.setup.timeout.ms": 2000,
            "reconnect.backoff.max.ms": 1000,
        }
        if address.user is not None:
            config |= {
                "sasl.mechanism": address.options.get("sasl", "PLAIN"),
                "sasl.username": address.user,
                "sasl.password": address.password or "",
            }
        config["security.protocol"] = ("SASL_" if address.user else "") + ("SSL" if tls else "PLAINTEXT")
        if "ca" in address.options:
            config["ssl.ca.location"] = address.options["ca"]
        return config | more

    def _partition(self, part: str, offset: int = 0) -> Any:
        return self._library.TopicPartition(self.address.name, int(part), offset)

    def _ends(self, last: Mapping[str, int]) -> dict[str, End]:
        admin = load_client("confluent_kafka.admin", "kafka")
        if self._look is None:
            self._look = admin.AdminClient(self._config())
        topic = self._look.list_topics(self.address.name, timeout=LOOK).topics[self.address.name]
        if topic.error is not None:
            raise self._library.KafkaException(topic.error)
        asked = {
            self._partition(str(part)): self._library.admin.OffsetSpec.latest() for part in sorted(topic.partitions)
        }
        high = self._library.IsolationLevel.READ_UNCOMMITTED
        told = self._look.list_offsets(asked, isolation_level=high, request_timeout=LOOK)
        return {str(each.partition): End(answer.result(2 * LOOK).offset) for each, answer in told.items()}

    def _pieces(self, spans: Mapping[str, Span]) -> Iterator[Piece]:
        if self._reader is None:
            self._reader = self._library.Consumer(
                self._config(**{
                    "group.id": "dpi",  # the library wants a name; nothing is committed under it
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "enable.partition.eof": True,
                    "auto.offset.reset": "error",
                    "isolation.level": "read_committed",
                    "queued.max.messages.kbytes": _HELD,
                    "fetch.wait.max.ms": 100,
                    "fetch.queue.backoff.ms": 5,  # a second, unless said: longer than reading what is held takes
                })
            )  # fmt: skip
        open_spans = {part: span for part, span in self._kept(spans).items() if span.at < span.end}
        self._reader.assign([self._partition(part, span.at) for part, span in open_spans.items()])
        heard, ended = time.monotonic(), set[str]()
        while open_spans:
            batch = self._reader.consume(MESSAGES, 0.2)
            if batch:
                heard = time.monotonic()
            elif time.monotonic() - heard > (TRANSACTION if open_spans.keys() <= ended else QUIET):
                raise TimeoutError
            # The end of what may be read, below a mark: a transaction is open there.
            ended |= {str(each.partition()) for each in batch if each.error() is not None}
            ended -= {str(each.partition()) for each in batch if each.error() is None}
            yield from self._sorted(batch, open_spans)
        self._reader.unassign()

    def _kept(self, spans: Mapping[str, Span]) -> dict[str, Span]:
        """Return what of some spans is still there."""
        remaining = {}
        for part, (at, end) in spans.items():
            first, _ = self._reader.get_watermark_offsets(self._partition(part), timeout=LOOK)
            self.lost = self.lost or first > at
            remaining[part] = Span(max(first, at), end)
        return remaining

    def _sorted(self, batch: list[Any], spans: dict[str, Span]) -> Iterator[Piece]:
        """Return the messages of a batch by partition; a span that is read to its end is taken out."""
        bounds = {int(part): span for part, span in spans.items()}
        by_partition: dict[int, list[Any]] = {number: [] for number in bounds}
        following: dict[int, int] = {}
        for each in batch:
            number, error = each.partition(), each.error()
            if error is None:
                if number in by_partition:
                    by_partition[number].append(each)
            elif error.code() != self._library.KafkaError._PARTITION_EOF:
                raise self._library.KafkaException(error)
            elif number in bounds and each.offset() >= bounds[number].end:
                following[number] = bounds[number].end
        for number, messages in by_partition.items():
            part, (at, end) = str(number), bounds[number]
            if messages and not at <= messages[0].offset() <= messages[-1].offset() < end:
                following[number] = min(max(at, messages[-1].offset() + 1), end)
                messages = [each for each in messages if at <= each.offset() < end]
            elif messages:
                following.setdefault(number, messages[-1].offset() + 1)
            if number not in following:
                continue
            yield Piece(part, self._parse([each.value() or b"" for each in messages]), following[number])
            spans[part] = Span(following[number], end)
            if following[number] >= end:
                del spans[part]
                self._reader.incremental_unassign([self._partition(part)])

    def _hang_up_look(self) -> None:
        self._look = None  # it cannot be closed
