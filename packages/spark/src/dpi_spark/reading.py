"""From a DataFrame to rows, or to releases: events are named, encoded and pre-summed where they are, never shuffled.

A task reads its partition in pieces, makes rows of each (`dpi.sources.admission`), and writes them to a file of
its own, a section for each slot and in it a segment for each bucket (`dpi.store.arrival_files`). What goes to the
driver is the list of sections. So no event passes through Spark's shuffle, and neither a giant user nor a giant slot
makes a giant task: equal events of a piece are one row, and a slot's rows are cut by account.

**Guarantee.** Which rows there are does not depend on partitions, on how often a task was tried, or on which attempt
was taken. *Why:* admission is a function of rows by themselves, a file has a name that nobody else has, and a file
whose section was not handed back is listed by nobody.

Sees events, on the workers; the driver sees sections.
"""

from __future__ import annotations

import pickle
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import polars as pl

from dpi.engine.bucket_slot_closer import BucketSlotCloser
from dpi.engine.tasks import Ingest, ingest
from dpi.errors import OptionError, SchemaError
from dpi.events.slots import FOR_EVER
from dpi.release import Release
from dpi.sources import Admission, Columns
from dpi.store.arrival_files import Section
from dpi.stream import Stream
from dpi.stream.options import need_clock
from dpi_spark.session import without_pandas
from dpi_spark.tasks import Guarded, Refused, failed, group, told

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

RESULT = "result"
PIECE = 1 << 20
"""Rows of a partition that are worked on at once."""


@dataclass(frozen=True, repr=False)
class Reader:
    """What a task does with its partition. Holds the key of the accounts' names: private."""

    columns: Columns
    how: Ingest
    until: int | None = None
    """Of events with an arrival: the moment at which they were read. None where a public period is played."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All of a partition, piece by piece; one result for each."""
        import pyarrow as pa

        run = Guarded(self._piece)
        for piece in group(batches, lambda batch: batch.num_rows, PIECE):
            yield pa.record_batch({RESULT: pa.array([pickle.dumps(run(piece))], pa.binary())})

    def _piece(self, batches: list[pa.RecordBatch]) -> list[Section]:
        """Return some events, in a file."""
        import pyarrow as pa

        frame = pl.from_arrow(pa.Table.from_batches(batches), rechunk=True)
        assert isinstance(frame, pl.DataFrame)  # noqa: S101 - a table is no series
        window = FOR_EVER
        if self.until is not None:
            window = self.columns.narrow(window, frame, self.how.admission.slots, self.until)
        return ingest(self.how, (self.columns.events(frame), window))


def check_columns(frame: DataFrame, columns: Columns, admission: Admission) -> None:
    """Refuse a DataFrame that lacks a column, or has one of a type that cannot be read: by its schema alone."""
    missing = [name for name in columns.names if name not in frame.columns]
    if missing:
        raise SchemaError(
            f"the DataFrame must have a column {missing[0]!r}. Its columns are: {', '.join(frame.columns)}."
        )
    kinds = frame.select(*map(quoted, columns.names)).schema
    with without_pandas():
        empty = pl.from_arrow(frame.sparkSession.createDataFrame([], kinds).toArrow())
    assert isinstance(empty, pl.DataFrame)  # noqa: S101 - a table is no series
    admission.admit(columns.events(empty))
    columns.narrow(FOR_EVER, empty, admission.slots, 0)


def read(frame: DataFrame, reader: Reader) -> list[Section]:
    """Read a DataFrame once; what a store lists of it. Nothing is paid, and nothing is listed yet."""
    with without_pandas():
        mapped = frame.select(*map(quoted, reader.columns.names)).mapInArrow(reader, f"{RESULT} binary")
    try:
        rows = mapped.collect()
    except Exception as error:
        raise failed(error) from None
    results: list[list[Section] | Refused] = [pickle.loads(row[0]) for row in rows]  # noqa: S301 - by our own tasks
    return [section for sections in told(results) for section in sections]


def quoted(name: str) -> str:
    """Return a column's name, which may have a dot."""
    return "`" + name.replace("`", "``") + "`"


def replay(
    stream: Stream,
    events: DataFrame,
    *,
    start: str | datetime,
    end: str | datetime,
    user: str = "user",
    time: str = "time",
    value: str | Mapping[str, str] = "value",
    unit: str | None = None,
) -> Generator[Release, None, None]:
    """Release every slot of the public period [start, end) of a batch DataFrame, empty ones too: as `Stream.replay`.

    Rows that cannot be read, without user or value, or of another time are dropped, each by itself. What was read lies
    encrypted in the store's folder, and the keys in this process alone: after a stop the same call reads again what is
    needed, and goes on.
    """
    driver, slots = buckets_of(stream), need_clock(stream.slots, "replay")
    if events.isStreaming:
        raise OptionError("`events` is a streaming DataFrame: use `follow`, which closes slots by the clock.")
    first, last = stream.period(start, end)
    driver.next_slot(first)
    columns = Columns(user, time, value, unit)
    check_columns(events, columns, driver.admission(slots, first, last))

    def sections(attempt: str) -> list[list[Section]]:
        return [read(events, Reader(columns, driver.ingest(slots, attempt, first, last, durable=False)))]

    with closing(driver.play_sections(sections, first, last)) as played:
        for number, rows in played:
            yield driver.close(driver.resolve_slot(number), rows)


def buckets_of(stream: Stream) -> BucketSlotCloser:
    """Return what drives a stream on Spark; refuse a stream without an engine."""
    driver = stream.driver
    if not isinstance(driver, BucketSlotCloser):
        raise OptionError("the stream holds its accounts in this process: give it `engine=dpi_spark.spark()`.")
    return driver
