"""A process that drives a stream on Spark, of which something is killed.

    python spark_child.py MASTER FOLDER KILL

KILL is "pay" or "publish": the driver ends before it pays for its next slot, or before it publishes that. Or it is
"workers": in the first slot a reading task ends its Python and a closing task its executor, each in its first attempt,
and after the last slot a task fails for good. Ids are `POISON …`: nothing that anybody writes may hold one.
"""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path

import numpy as np

import dpi
from dpi.noise import UnsafeSeededSource
from dpi_spark import SparkExecutor, replay, session
from dpi_spark.session import without_pandas

SLOTS = 2
KINDS = "user string, time string, value string"
DOMAIN = dpi.Categories([f"v{number}" for number in range(6)], other="else")


def rows(slot: int) -> list[dict[str, str]]:
    """The events of a slot."""
    rng = np.random.default_rng(slot)
    users, values, minutes = rng.integers(0, 300, 900), rng.integers(0, 7, 900), rng.integers(0, 60, 900)
    return [
        {"user": f"POISON {user}", "time": f"2026-01-01T{slot:02d}:{minute:02d}", "value": f"v{value}"}
        for user, value, minute in zip(users, values, minutes, strict=True)
    ]


def opened(folder: Path, engine: dpi.engine.BucketEngine | None = None, name: str = "store") -> dpi.Stream:
    """The stream of these tests."""
    return dpi.Stream(
        domain=DOMAIN,
        epsilon=1,
        slot="1h",
        start="2026-01-01",
        budget=dpi.Ledger(per_slot="0.3"),
        store=dpi.open_store(folder / f"{name}.db", key_file=folder / "key", wait=60),
        engine=engine,
        unsafe_source=UnsafeSeededSource(0),
    )


def close(stream: dpi.Stream, play) -> None:
    """Release the slots that are left, each with noise that is a function of its number."""
    first = stream.setting.start
    for slot in range(stream.next_slot - first, SLOTS):
        stream.driver.source = UnsafeSeededSource(slot)
        released = play(rows(slot), start=f"2026-01-01T{slot:02d}:00", end=f"2026-01-01T{slot + 1:02d}:00")
        assert [release.slot for release in released] == [first + slot]


def is_first() -> bool:
    """Whether this is the first attempt of a task."""
    from pyspark import TaskContext

    return TaskContext.get().attemptNumber() == 0


def end_python(batches):
    """A reading task whose Python is gone when it has read everything."""
    yield from batches
    if is_first():
        os.kill(os.getpid(), signal.SIGKILL)


def parent_of(process: int) -> int:
    """Who has started a process."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def end_executor(once: str, function, task):
    """A closing task whose executor is gone when it has written everything: once in all."""
    result = function(task)
    try:
        os.close(os.open(once, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return result
    os.kill(parent_of(os.getppid()), signal.SIGKILL)  # the parent of Python's daemon
    signal.pause()
    return result


def poisoned(function, task):
    """A task that fails with a text that quotes a row."""
    raise ValueError("cannot read 'POISON 7'")


class Wrapped(SparkExecutor):
    """Runs something around every task."""

    around = None

    def map(self, function, tasks):
        """With what is around it."""
        return super().map(function if self.around is None else partial(self.around, function), tasks)


def end_self(*_: object) -> None:
    """As by a power cut."""
    os.kill(os.getpid(), signal.SIGKILL)


def main(master: str, folder: Path, kill: str) -> None:
    """Drive the stream."""
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    settings = {
        "spark.driver.memory": "600m",
        "spark.executor.memory": "600m",
        "spark.driver.extraJavaOptions": quick,
        "spark.executor.extraJavaOptions": quick,
        "spark.sql.shuffle.partitions": "2",
    }
    running = session(master, **settings)
    executor = Wrapped(running)
    stream = opened(folder, dpi.engine.BucketEngine(executor, bits=2))
    if kill == "pay":
        stream.driver._sql.pay_runs = end_self
    if kill == "publish":
        stream.driver._publish = end_self

    def play(table, **period):
        frame = running.createDataFrame(table, KINDS).repartition(2)
        if kill == "workers" and stream.next_slot == stream.setting.start:
            executor.around = partial(end_executor, str(folder / "once"))
            with without_pandas():
                frame = frame.mapInArrow(end_python, KINDS)
        return list(replay(stream, frame, **period))

    close(stream, play)
    executor.around = poisoned
    try:
        list(executor.map(str, [1]))
    except dpi.StoreError as error:
        print("refused:", error, flush=True)
    stream.store.close()
    running.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
