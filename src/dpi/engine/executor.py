"""Who runs tasks: the one thing in which engines differ.

A task is a function of small arguments that reads and writes files of the store's folder. It may be run twice: what it
writes has a name of its own, and is nobody's until the driver lists it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Protocol, TypeVar

from dpi.errors import OptionError, StoreError
from dpi.processes import start_pool

Task = TypeVar("Task")
Result = TypeVar("Result")
MODULES = ("polars", "cryptography.hazmat.primitives.ciphers.aead", "dpi.engine.tasks")  # what tasks need
TRIES = 3
"""So often the processes may end by themselves before a call of `map` gives up."""


class Executor(Protocol):
    """Runs a function on every task, here or elsewhere."""

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Yield the result of each task once, in the order of the tasks; some of them are taken at a time.

        Function, tasks and results can be pickled. An error of a task is raised here.
        """
        ...

    def close(self) -> None:
        """Let go of processes."""
        ...


class Local:
    """Runs tasks in this process, one after the other."""

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """One after the other."""
        return map(function, tasks)

    def close(self) -> None:
        """Nothing to let go of."""

    def __repr__(self) -> str:
        return "Local()"


class Pool:
    """Runs tasks in `workers` processes of this machine: one for each core, unless said.

    Processes are started anew (not forked: threads of this one may hold locks), each with one thread, and end with the
    process that started them, however that ends. What goes between them is pickled. So many tasks are under way at a
    time that every process has one to begin with when it is done, and no more: memory is bounded by the tasks of a few
    batches or buckets. A process that is killed breaks the pool of Python's library. It is made anew, and the tasks
    whose results are missing run again; what the lost ones have written is named by nobody.
    """

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and (type(workers) is not int or workers < 1):
            raise OptionError(f"`workers` must be a whole number above 0. Got {workers!r}.")
        self.workers = workers or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else workers or 1
        self._pool: ProcessPoolExecutor | None = None

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Yield the result of each task in order; twice as many as there are processes are under way."""
        source, under_way, left = iter(tasks), deque[tuple[Task, Future[Result]]](), TRIES
        try:
            while True:
                try:
                    while len(under_way) < 2 * self.workers:
                        task = next(source)
                        under_way.append((task, self._submit(function, task)))
                except StopIteration:
                    if not under_way:
                        return
                try:
                    result = under_way[0][1].result()
                except BrokenProcessPool:
                    left -= 1
                    if left == 0:
                        raise StoreError(
                            "processes of the pool were ended from outside again and again (is there enough memory?): "
                            "nothing was paid, and the slot is open."
                        ) from None
                    self.close()
                    under_way = deque((task, self._submit(function, task)) for task, _ in under_way)
                    continue
                under_way.popleft()
                yield result
        finally:
            for _, future in under_way:
                future.cancel()

    def _submit(self, function: Callable[[Task], Result], task: Task) -> Future[Result]:
        """Hand a task to a process; a pool that is broken by now says so where results are awaited."""
        if self._pool is None:
            self._pool = start_pool(self.workers, *MODULES)
        try:
            return self._pool.submit(function, task)
        except BrokenProcessPool as error:
            broken = Future[Result]()
            broken.set_exception(error)
            return broken

    @property
    def processes(self) -> list[int]:
        """The ids of the processes that are there."""
        return [] if self._pool is None else list(self._pool._processes or ())

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def __repr__(self) -> str:
        return f"Pool({self.workers})"
