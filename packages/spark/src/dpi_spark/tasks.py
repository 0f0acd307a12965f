"""Tasks on Spark's workers: what they say when something is wrong, on both sides of the wire.

Spark prints the text of every exception of a task in its logs, on its pages and in the driver's own exception. So none
leaves a task with a text that another library wrote, which may quote a row. A refusal, which trying again would not
change, is no exception at all: it is handed back as a result, and raised by the driver.

Sees what went wrong; its words hold no event, no id and no number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from dpi._version import DISTRIBUTION, __version__
from dpi.engine.executor import Result, Task
from dpi.errors import OptionError, SchemaError, StateError, StoreError

Item = TypeVar("Item")
KINDS = {kind.__name__: kind for kind in (OptionError, SchemaError, StateError, StoreError)}
"""Refusals: their texts are ours, and hold nothing private."""


@dataclass(frozen=True)
class Refused:
    """A task that was refused, and why."""

    kind: str
    text: str


@dataclass(frozen=True, repr=False)
class Guarded(Generic[Task, Result]):
    """A function as a task runs it: on the same version of this program, and silent about what it was given."""

    function: Callable[[Task], Result]
    version: str = __version__

    def __call__(self, task: Task) -> Result | Refused:
        """Return the result, or the refusal; name anything else that goes wrong by its kind, to be tried again."""
        if self.version != __version__:
            return Refused("OptionError", f"Spark's workers have dpi {__version__}, its driver has {self.version}.")
        try:
            return self.function(task)
        except tuple(KINDS.values()) as error:
            return Refused(type(error).__name__ if type(error).__name__ in KINDS else "StoreError", str(error))
        except Exception as error:
            kind = type(error).__name__
        raise RuntimeError(f"a task failed with {kind}; what it was working on is not said here, for that is private.")


def told(results: Iterable[Result | Refused]) -> list[Result]:
    """Return the results of tasks, if none was refused."""
    made: list[Result] = []
    for result in results:
        if isinstance(result, Refused):
            raise KINDS[result.kind](result.text)
        made.append(result)
    return made


def group(items: Iterable[Item], size_of: Callable[[Item], int], most: int) -> Iterator[list[Item]]:
    """Yield items in lists, each of about `most` in size."""
    held, size = list[Item](), 0
    for item in items:
        held.append(item)
        size += size_of(item)
        if size >= most:
            yield held
            held, size = [], 0
    if held:
        yield held


def failed(error: BaseException) -> BaseException:
    """Return what the driver says of an exception of Spark's: one sentence, and nothing of its text."""
    text = str(error)
    if "PYTHON_VERSION_MISMATCH" in text or "Python in worker has different version" in text:
        return OptionError(
            "Spark's workers run another Python than the driver: set PYSPARK_PYTHON to one that is the same."
        )
    if "Cannot run program" in text:
        return OptionError("Spark's workers have no Python at PYSPARK_PYTHON: set it to one that is on every machine.")
    if "No module named" in text:
        return OptionError(
            "Spark's workers lack dpi or what it needs. For the Python they run, install this program and "
            f"{DISTRIBUTION}-spark."
        )
    return StoreError(
        "Spark gave up on a job; nothing was paid, and the same call goes on. Its own logs, which are private, say why."
    )
