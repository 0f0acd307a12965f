"""Who runs tasks: the one thing in which engines differ.

A task is a function of small arguments that reads and writes files of the store's folder. It may be run twice: what it
writes has a name of its own, and is nobody's until the driver lists it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class Executor(Protocol):
    """Runs a function on every task, here or elsewhere."""

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """The result of each task once, in the order of the tasks; some of them are taken at a time.

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
