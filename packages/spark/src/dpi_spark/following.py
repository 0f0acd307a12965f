"""Following a streaming DataFrame: micro-batches become listed sections, and slots close by the public clock.

The query runs in rounds. A round notes the moment, and has Spark read everything that is there when the round begins
(the trigger `availableNow`, which notes positions before it reads, and reads no further). When it is done, everything
that had come by the noted moment is listed, so that the slots which close by then are closed. Watermarks play no part
in it: they follow the largest time that anybody sent.

**Which events count.** One that had arrived, by its own arrival column, before its slot closed, and whose time is not
after that arrival; however late Spark reads it, as long as the slot is open. The moment at which Spark happens to
process a batch is a matter of how much others have sent, so that it decides nothing, and a DataFrame without such a
column is refused. *So* an event changes no other event's fate, whatever time it states.

**Once.** A micro-batch may come twice (`foreachBatch` promises at least once). It is listed in one transaction under
the query's id and the batch's number, and a second time it is refused. The query's id is in its checkpoint: with
another checkpoint Spark would read from the beginning, or leave out what another query has read. Both are refused.

Sees sections on the driver; events are seen by tasks alone.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, cast

from dpi.errors import OptionError, StateError
from dpi.release import Release
from dpi.sources import Columns
from dpi.store.sql import SQLStore
from dpi.stream import Stream
from dpi.stream.input_positions import LISTENING, system_clock
from dpi.stream.options import need_clock
from dpi_spark.reading import Reader, buckets_of, check_columns, quoted, read
from dpi_spark.tasks import failed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

PRODUCER = "spark "
"""What the producers of Spark's queries begin with; the query's id follows."""
LONGEST = 10_000_000
"""Microseconds between two rounds at most; a slot has four at least."""
LOST = (
    "the checkpoint is not the one that this stream was followed with: with another one, events would count twice or "
    "be left out. Give that one or, where it is lost and the source still has all events of open slots, say "
    "`anew=True`: what was kept of them is dropped, and read again."
)
FOREIGN = (
    "the checkpoint belongs to another query, which has read events that this stream has never seen: give the one that "
    "the stream was followed with, or a new folder."
)
NO_ARRIVAL = (
    "`arrived` must name the column that says when an event reached the source: the moment at which Spark reads it is "
    "a matter of how much others have sent, and cannot decide what counts."
)


def follow(
    stream: Stream,
    events: DataFrame,
    *,
    checkpoint: str,
    arrived: str | None = None,
    user: str = "user",
    time: str = "time",
    value: str | Mapping[str, str] = "value",
    unit: str | None = None,
    end: str | datetime | None = None,
    stop: threading.Event | None = None,
    anew: bool = False,
) -> Generator[Release, None, None]:
    """Keep events of a streaming DataFrame, and release every slot when the system's clock has closed it.

    `checkpoint` is where Spark notes how far it has read: private, and the same from one run to the next. `arrived`
    names the column that says when an event reached the source. Goes on up to the slot that begins at `end`, until
    `stop` is set, or for ever.
    """
    columns = Columns(user, time, value, unit, arrived)
    follower = Follower(stream, events, columns, checkpoint, anew=anew)
    slots = follower.slots
    last = None if end is None else slots.boundary(end, "end")
    step = min(LONGEST, max(slots.about // 4, 1))
    try:
        while stop is None or not stop.is_set():
            yield from follower.reach(system_clock(), last)
            if last is not None and stream.next_slot >= last:
                return
            now = system_clock()
            due = min(slots.closing(slots.first_open(now)), (now // step + 1) * step)
            (threading.Event() if stop is None else stop).wait((due - now) / 1e6)
    finally:
        stream.leave()  # others of its ledger would wait for a slot that nobody closes


class _Batch(NamedTuple):
    """A micro-batch on its way from Spark's thread to the one that has the store."""

    number: int
    frame: DataFrame
    kept: threading.Event


class _Round:
    """Micro-batches of one run of the query, handed from Spark's thread to ours, each until it is kept."""

    def __init__(self) -> None:
        self._batches: queue.SimpleQueue[_Batch | None] = queue.SimpleQueue()
        self._over = threading.Event()

    def __call__(self, frame: DataFrame, number: int) -> None:
        """In Spark's thread: wait until a micro-batch is kept; if it is not, Spark must not go on."""
        batch = _Batch(number, frame, threading.Event())
        self._batches.put(batch)
        while not batch.kept.wait(LISTENING):
            if self._over.is_set():
                raise RuntimeError("a micro-batch was not kept; the driver says why.")

    def watch(self, query: StreamingQuery) -> None:
        """In a thread of its own: tell when the query has ended."""
        try:
            query.awaitTermination()
        except Exception:  # noqa: S110 - `query.exception` says what it was
            pass
        finally:
            self._batches.put(None)

    def __iter__(self) -> Iterator[_Batch]:
        return iter(self._batches.get, None)

    def end(self) -> None:
        """Let go of Spark's thread."""
        self._over.set()


class Follower:
    """One query of Spark's, round after round, and the slots that close behind it."""

    def __init__(
        self,
        stream: Stream,
        events: DataFrame,
        columns: Columns,
        checkpoint: str,
        *,
        anew: bool = False,
        clock: Callable[[], int] = system_clock,
    ) -> None:
        self._stream, self._driver, self._clock = stream, buckets_of(stream), clock
        self.slots = need_clock(stream.slots, "follow")
        if not events.isStreaming:
            raise OptionError("`events` is no streaming DataFrame: use `replay`, which takes a public period.")
        if columns.arrived is None:
            raise OptionError(NO_ARRIVAL)
        stream.open_at()  # refuses a stream without a public beginning
        check_columns(events, columns, self._driver.admission(self.slots))
        self._events = events.select(*map(quoted, columns.names))
        self._columns, self._checkpoint = columns, checkpoint
        self._check(anew)

    def reach(self, moment: int, last: int | None = None) -> Iterator[Release]:
        """Keep everything that is there, and release the slots that had closed at a moment before, up to `last`."""
        self._read()
        end = self.slots.first_open(moment)
        yield from self._stream.close_before(end if last is None else min(end, last))

    # Whose the checkpoint is.

    def _check(self, anew: bool) -> None:
        """Refuse a checkpoint that is not this stream's; with `anew` and a new one, forget what another query kept."""
        store, name, checkpoint = cast("SQLStore", self._stream.store), self._stream.name, self._found()
        known = {producer for producer in store.producers(name) if producer.startswith(PRODUCER)}
        if checkpoint is not None and PRODUCER + checkpoint in known:
            return
        if checkpoint is not None and self._lines("commits"):
            raise StateError(FOREIGN)
        if known and not anew:
            raise StateError(LOST, options=("anew",))
        if known:
            with self._driver.session.writing():
                store.forget_producers(name, known)

    def _found(self) -> str | None:
        """Return the id in the checkpoint; None if it is new."""
        lines = self._lines("metadata")
        try:
            return str(json.loads(lines[0])["id"]) if lines else None
        except (ValueError, KeyError, TypeError):
            raise StateError("the checkpoint cannot be read: it is damaged, or no checkpoint of Spark's.") from None

    def _lines(self, name: str) -> list[str]:
        """Lines of a file, or of files in a folder, of the checkpoint, wherever that is; none if it is not there."""
        from pyspark.errors import AnalysisException

        try:
            rows = self._events.sparkSession.read.text(f"{self._checkpoint}/{name}").limit(8).collect()
        except AnalysisException:
            return []
        except Exception as error:
            raise failed(error) from None
        return [str(row[0]) for row in rows]

    # Rounds.

    def _read(self) -> None:
        """Read everything that is there, and list it."""
        batches = _Round()
        query = self._started(batches)
        watching = threading.Thread(target=batches.watch, args=(query,), name="dpi spark", daemon=True)
        watching.start()
        try:
            for batch in batches:
                self._keep(batch, PRODUCER + str(query.id))
                batch.kept.set()
        finally:
            batches.end()
            query.stop()
            watching.join()
        problem = query.exception()
        if problem is not None:
            raise failed(problem)

    def _started(self, batches: _Round) -> StreamingQuery:
        writer = self._events.writeStream.foreachBatch(batches).option("checkpointLocation", self._checkpoint)
        try:
            return writer.trigger(availableNow=True).start()
        except Exception as error:
            raise failed(error) from None

    def _keep(self, batch: _Batch, producer: str) -> None:
        driver, stream = self._driver, self._stream
        if batch.number <= stream.store.sequence(stream.name, producer):
            return  # it was listed, and Spark was not told
        with driver.folder.attempt() as attempt:
            reader = Reader(self._columns, driver.ingest(self.slots, attempt), self._clock())
            driver.keep_sections(read(batch.frame, reader), producer, batch.number)
