"""The tasks of a slot on Spark: a job for each round of tasks, and what comes back in their order.

A task is tried again by Spark when its worker is lost, or twice at the same time when it is slow. Each attempt writes
files of its own, and one result is taken, so that nothing counts twice (`dpi.engine.executor`).

Sees tasks and results as bytes.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, cast

from dpi.engine.engine import BucketEngine
from dpi.engine.executor import Result, Task
from dpi.store.folder import BITS
from dpi_spark.session import active, check_protected, session
from dpi_spark.tasks import Guarded, Refused, failed, group, told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUND = 1 << 26
"""Bytes of tasks that are handed to Spark at once: what the driver holds of them."""
TURNS = 4
"""Tasks of Spark's for each one that runs at a time, at most: ours are divided among them.

Each costs Spark about 0.05 processor seconds, however little it does. With four, those who are done early take over
what is left of others.
"""


class SparkExecutor:
    """Runs tasks on the workers of a Spark session: one that is made, unless given."""

    def __init__(self, running: SparkSession | None = None, *, unencrypted: bool = False) -> None:
        self._owned = running is None and active() is None
        self.session = session() if running is None else running
        if not unencrypted:
            check_protected(self.session)

    @property
    def workers(self) -> int:
        """How many tasks Spark runs at a time."""
        return int(self.session.sparkContext.defaultParallelism)

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Yield the result of each task once, in the order of the tasks."""
        guarded: Callable[[Task], Result | Refused] = Guarded(function)
        for part in group(map(pickle.dumps, tasks), len, ROUND):
            yield from told(self._job(guarded, part))

    def _job(self, guarded: Callable[[Task], Result | Refused], tasks: list[bytes]) -> list[Result | Refused]:
        def run(task: bytes) -> bytes:
            return pickle.dumps(guarded(pickle.loads(task)))  # noqa: S301 - written by our own driver

        parts = min(len(tasks), TURNS * self.workers)
        try:
            results = self.session.sparkContext.parallelize(tasks, parts).map(run).collect()
        except Exception as error:
            raise failed(error) from None
        return [cast("Result | Refused", pickle.loads(result)) for result in results]  # noqa: S301 - by our own tasks

    def close(self) -> None:
        """Stop the session, if it was made here."""
        if self._owned:
            self.session.stop()

    def __repr__(self) -> str:
        return "SparkExecutor()"


def spark(
    running: SparkSession | None = None,
    path: str | os.PathLike[str] | None = None,
    *,
    bits: int = BITS,
    unencrypted: bool = False,
) -> BucketEngine:
    """Return the tasks of a stream on the workers of a Spark session, one that is made (`session`) unless given.

    `path` is the folder of bucket files, which driver and workers must see under the same name. A session that keeps or
    sends events in the clear is refused, unless `unencrypted` says that disks and network are encrypted otherwise.
    """
    return BucketEngine(SparkExecutor(running, unencrypted=unencrypted), path, bits)
