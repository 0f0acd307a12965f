"""What all sources of events have in common: which columns are what, files by their format, inputs that grow.

Sees columns of events on their way; keeps none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Union

import numpy as np

from dpi.errors import OptionError, SchemaError
from dpi.events.rows import Rows
from dpi.events.slots import Slots, Window
from dpi.sources.admission import Events, stamp_window
from dpi.sources.live import Done, Known, LiveInput

if TYPE_CHECKING:
    import polars as pl

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
Progress = Callable[[int], None]
"""Is told how many bytes have been read. Bytes only: a number of rows would be a private one."""
Frame = Union["pl.DataFrame", Mapping[str, object]]
"""Columns by name."""
PlayedSlots = Generator[tuple[int, Rows], None, None]
"""Number and rows of one slot after the other."""


class EventFile(ABC):
    """One file, whatever its format."""

    path: str
    size: int
    """Bytes of the file; 0 for standard input."""

    @abstractmethod
    def kinds(self) -> dict[str, pl.DataType] | None:
        """Return the declared type of each column, or None if the format declares no columns."""

    @abstractmethod
    def check(self, names: Sequence[str]) -> None:
        """Refuse a file that lacks a column."""

    def pieces(self) -> Sequence[EventFile]:
        """Return the file in pieces that are read at the same time; none, if it is read from its beginning."""
        return ()

    @abstractmethod
    def frames(self, names: Sequence[str], progress: Progress) -> Iterator[pl.DataFrame]:
        """Return the columns `names`, some rows at a time, in the order of the file; the first one holds ids."""


@dataclass(frozen=True)
class Columns:
    """Which columns of a table of events are what."""

    user: str = "user"
    time: str = "time"
    value: str | Mapping[str, str] = "value"
    """The column of values or, for a Product domain, a column for each part."""
    unit: str | None = None
    """Of times that are numbers."""
    arrived: str | None = None
    """The column that says when an event reached the input, if there is one."""

    def __post_init__(self) -> None:
        if self.unit not in (None, "s", "ms", "us", "ns"):
            raise OptionError(f'`unit` must be one of "s", "ms", "us", "ns". Got {self.unit!r}.')

    @property
    def parts(self) -> dict[str, str]:
        """The column of each part of a value; the part of a plain value has no name."""
        return dict(self.value) if isinstance(self.value, Mapping) else {"": self.value}

    @property
    def names(self) -> list[str]:
        """All of them, each once; the first one holds ids."""
        arrived = () if self.arrived is None else (self.arrived,)
        return list(dict.fromkeys([self.user, self.time, *self.parts.values(), *arrived]))

    def values(self, frame: Frame) -> object:
        """Return the column of values, or one for each part."""
        values = {part: frame[name] for part, name in self.parts.items()}
        return values.get("", values)

    def events(self, frame: Frame) -> Events:
        """Return the columns of some events."""
        return Events(frame[self.user], frame[self.time], self.values(frame), self.unit)

    def narrow(self, window: Window, frame: pl.DataFrame, slots: Slots, now: int) -> Window:
        """Return the window of some events: if their arrival was recorded with each, that decides within it."""
        if self.arrived is None:
            return window
        received = stamp_window(frame[self.arrived], self.unit, slots, now)
        return Window(np.maximum(received.first, window.first), received.until)


class FollowedEvents(Columns, ABC):
    """Events of files or of a broker, with the columns in which they are told. Holds no event itself."""

    @abstractmethod
    def live(self, done: Done, known: Known) -> list[LiveInput]:
        """Return the inputs that grow.

        `done` tells what is stored of a producer, `known` how far each input had got when that was noted last.
        """


def missing(path: str, name: str, columns: Iterable[str]) -> SchemaError:
    """Return the error of a file that lacks a column. Names of columns are public."""
    return SchemaError(f"{path!r} must have a column {name!r}. Its columns are: {', '.join(map(repr, columns))}.")
