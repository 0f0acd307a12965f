"""Redis Streams as a source of Spark's: positions that go up, and the moment at which each event arrived.

    session.dataSource.register(RedisStreams)
    events = session.readStream.format("dpi_redis").option("keys", "visits").load()

Spark has no reader of its own for Redis. An entry's id is two numbers, the milliseconds at which the server received it
and a number within them, so that it is a position and an arrival in one: the column `arrived` is made of it. Producers
must let the server choose the ids (`XADD key * …`).

A query that is asked for what is there now reads up to the last id of that moment, and no further. Entries that were
removed before they were read are gone: that is refused, unless `failOnDataLoss` is "false".

Sees events on their way, as texts by field; no account.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from dpi.errors import OptionError, StateError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType
    from redis import Redis

FORMAT = "dpi_redis"
ARRIVED = "arrived"
BEGINNING = "0-0"
_PAGE = 1 << 13
"""Entries that are asked for at once."""
_LATEST = (1 << 63) // 1000
Positions = dict[str, dict[str, object]]
"""Of each stream: the last `id`, and how many entries had been `added` by then. Private."""


def numbers(position: str) -> tuple[int, int]:
    """Return the two numbers of an id, by which ids are ordered: as texts, 10-0 would come before 9-0.

    >>> numbers("10-0") > numbers("9-12")
    True
    """
    moment, _, within = position.partition("-")
    return int(moment), int(within or 0)


class Entries(InputPartition):
    """What one task reads: the entries of a stream after one id, up to another."""

    def __init__(self, key: str, after: str, upto: str) -> None:
        super().__init__(key)
        self.key, self.after, self.upto = key, after, upto


class RedisStreams(DataSource):
    """Entries of one or more Redis streams, a column for each field.

    Options: `keys` (names of streams, with commas; needed), `fields` ("user,time,value"), `host` ("127.0.0.1"), `port`
    ("6379"), `passwordFile` (a file that holds it, on every machine: options are shown on pages), `failOnDataLoss`.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.keys = [key for key in options.get("keys", "").split(",") if key]
        self.fields = [field for field in options.get("fields", "user,time,value").split(",") if field]
        if not self.keys:
            raise OptionError("`keys` must name the Redis streams to read, with commas between them.")
        if ARRIVED in self.fields:
            raise OptionError(f"`fields` must not have {ARRIVED!r}: that column is made of the entries' ids.")

    @classmethod
    def name(cls) -> str:
        """Return what the format is called."""
        return FORMAT

    def schema(self) -> str:
        """Texts, whatever they hold: what they mean is for the stream's own rules to say."""
        fields = ", ".join(f"`{field.replace('`', '``')}` string" for field in self.fields)
        return f"{fields}, {ARRIVED} timestamp"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return what reads what has come since a position."""
        return _Reader(self.keys, self.fields, dict(self.options.items()))


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, keys: Sequence[str], fields: Sequence[str], options: dict[str, str]) -> None:
        self.keys, self.fields, self.options = list(keys), list(fields), options
        self.target: Positions | None = None

    def _client(self) -> Redis:
        from redis import Redis

        file = self._option("passwordFile", "")
        password = Path(file).read_text().strip() if file else None
        return Redis(host=self._option("host", "127.0.0.1"), port=int(self._option("port", "6379")), password=password)

    def _option(self, name: str, default: str) -> str:
        return {key.lower(): value for key, value in self.options.items()}.get(name.lower(), default)

    def initialOffset(self) -> Positions:  # noqa: N802 - Spark's name
        """Before the first entry."""
        return {key: {"id": BEGINNING, "added": 0} for key in self.keys}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note how far the streams have got: this run of the query reads no further."""
        self.target = self._reached()

    def latestOffset(self, start: Positions, limit: ReadLimit) -> Positions:  # noqa: N802 - Spark's name
        """How far the streams have got, or had got when that was noted."""
        reached, before = self._reached() if self.target is None else self.target, self.initialOffset() | start
        return {key: max(before[key], reached[key], key=lambda at: numbers(str(at["id"]))) for key in self.keys}

    def _reached(self) -> Positions:
        with self._client() as client:
            told = {key: self._info(client, key) for key in self.keys}
        return {
            key: {"id": _text(info.get("last-generated-id", BEGINNING)), "added": info.get("entries-added", 0)}
            for key, info in told.items()
        }

    @staticmethod
    def _info(client: Redis, key: str) -> dict[str, object]:
        return cast("dict[str, object]", client.xinfo_stream(key)) if client.exists(key) else {}

    def partitions(self, start: Positions, end: Positions) -> Sequence[InputPartition]:
        """Return a task for each stream; refuse what was removed unread."""
        before, strict = self.initialOffset() | start, self._option("failOnDataLoss", "true").lower() != "false"
        ranges = [
            Entries(key, str(before[key]["id"]), str(end[key]["id"]))
            for key in self.keys
            if key in end and numbers(str(before[key]["id"])) < numbers(str(end[key]["id"]))
        ]
        with self._client() as client:
            if strict and any(self._lost(self._info(client, each.key), before[each.key]) for each in ranges):
                raise StateError(
                    "entries of a Redis stream were removed before they were read: say failOnDataLoss=false to go on "
                    "without them."
                )
        return ranges

    @staticmethod
    def _lost(info: dict[str, object], before: dict[str, object]) -> bool:
        """Whether entries after a position were deleted, or trimmed: more were added since than are there."""
        after, first = numbers(str(before["id"])), info.get("first-entry")
        if not info or numbers(_text(info["max-deleted-entry-id"])) > after:
            return True
        if isinstance(first, (list, tuple)) and numbers(_text(first[0])) <= after:
            return False  # what is trimmed is what is oldest, and that was read
        return int(str(info["entries-added"])) - int(str(before["added"])) > int(str(info["length"]))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the entries of one stream, some at a time."""
        import pyarrow as pa

        entries = cast("Entries", partition)
        kinds = pa.schema([*((field, pa.string()) for field in self.fields), (ARRIVED, pa.timestamp("us", "UTC"))])
        after = entries.after
        with self._client() as client:
            while page := client.xrange(entries.key, f"({after}", entries.upto, count=_PAGE):
                after = _text(page[-1][0])
                columns: list[list[object]] = [[_field(entry, field) for _, entry in page] for field in self.fields]
                columns.append([_moment(_text(position)) for position, _ in page])
                yield pa.record_batch([pa.array(c, k.type) for c, k in zip(columns, kinds, strict=True)], schema=kinds)


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _field(entry: dict[bytes, bytes] | None, name: str) -> str | None:
    """Return a field's text; none, if the entry lacks it or it is no text: the row is then dropped by itself."""
    try:
        value = (entry or {}).get(name.encode())
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _moment(position: str) -> int | None:
    """Microseconds of an id; none for one that no server makes."""
    moment = numbers(position)[0]
    return moment * 1000 if moment < _LATEST else None
