"""Events that can be followed, wherever they come from: which columns are what, and the inputs that grow.

Sees columns of events on their way; keeps none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from dpi.errors import OptionError
from dpi.sources.live import Done, Known, LiveInput

if TYPE_CHECKING:
    import polars as pl

UNITS = ("s", "ms", "us", "ns")


class Batch(NamedTuple):
    """Some events: columns of users, times and values, or of each part of a value by its name.

    >>> Batch(users=["ada"], times=["2026-01-01T10:00"], values=["DE"]).values
    ['DE']
    """

    users: pl.Series
    times: pl.Series
    values: pl.Series | dict[str, pl.Series]


class FollowedEvents(ABC):
    """Events of files or of a broker, with the columns in which they are told. Holds no event itself."""

    user: str
    time: str
    value: str | Mapping[str, str]
    unit: str | None
    arrived: str | None

    @property
    def _parts(self) -> dict[str, str]:
        """The column of each part of a value; the part of a plain value has no name."""
        return dict(self.value) if isinstance(self.value, Mapping) else {"": self.value}

    @property
    def _names(self) -> list[str]:
        arrived = () if self.arrived is None else (self.arrived,)
        return list(dict.fromkeys([self.user, self.time, *self._parts.values(), *arrived]))

    def _values(self, frame: pl.DataFrame) -> pl.Series | dict[str, pl.Series]:
        values = {part: frame[name] for part, name in self._parts.items()}
        return values.get("", values)

    def batch(self, frame: pl.DataFrame) -> Batch:
        """The columns of some events."""
        return Batch(frame[self.user], frame[self.time], self._values(frame))

    @abstractmethod
    def live(self, done: Done, known: Known) -> list[LiveInput]:
        """The inputs that grow.

        `done` tells what is stored of a producer, `known` how far each input had got when that was noted last.
        """


def check_unit(unit: str | None) -> None:
    """Refuse a unit that no clock has."""
    if unit not in (None, *UNITS):
        raise OptionError(f'`unit` must be one of "s", "ms", "us", "ns". Got {unit!r}.')
