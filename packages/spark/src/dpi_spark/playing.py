"""Playing a DataFrame: all events of a public period are read once, and slot after slot is released.

Sees sections on the driver; events are seen by tasks alone (`dpi_spark.reading`).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING

from dpi.engine.driver import BucketDriver
from dpi.errors import OptionError
from dpi.release import Release
from dpi.sources import Columns
from dpi.store.arrival_files import Section
from dpi.stream import Stream
from dpi.stream.options import need_clock
from dpi_spark.reading import Reader, check_columns, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
    driver.following(first)
    columns = Columns(user, time, value, unit)
    check_columns(events, columns, driver.admission(slots, first, last))

    def sections(attempt: str) -> list[list[Section]]:
        return [read(events, Reader(columns, driver.ingest(slots, attempt, first, last, durable=False)))]

    with closing(driver.play_sections(sections, first, last)) as played:
        for number, rows in played:
            yield driver.close(driver.meant(number), rows)


def buckets_of(stream: Stream) -> BucketDriver:
    """What drives a stream on Spark; refuses a stream without an engine."""
    driver = stream.driver
    if not isinstance(driver, BucketDriver):
        raise OptionError("the stream holds its accounts in this process: give it `engine=dpi_spark.spark()`.")
    return driver
