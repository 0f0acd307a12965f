"""Days, weeks and months of a zone's calendar: where each begins, and which one a moment lies in. Sees public clocks.

They are numbered from 1970: day 0 is 1 January 1970, week 0 begins on Monday 29 December 1969, month 0 is January 1970.
Each begins at the first midnight of its first day; where a change of clocks leaves that out, when the clocks go on. So
they follow each other without a gap, and each moment lies in one. A day that a zone has left out is empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpi.exact.integers import Integers

if TYPE_CHECKING:
    import polars as pl

UNITS = ("day", "week", "month")
_DAY = 86_400_000_000
_MONDAY = 3
"""Days from the Monday of week 0 to 1 January 1970."""


@dataclass(frozen=True)
class Calendar:
    """The days, weeks or months of a zone.

    >>> months = Calendar("month", "Europe/Berlin")
    >>> begins = months.begins(np.array([2, 3])) // 3_600_000_000  # in hours since 1970, an hour before that in UTC
    >>> begins.tolist(), months.numbers(begins * 3_600_000_000).tolist()
    ([1415, 2159], [2, 3])
    """

    unit: str
    zone: str

    def begins(self, numbers: Integers) -> Integers:
        """When they begin, in microseconds since 1970."""
        import polars as pl

        midnights = self._first_days(numbers) * _DAY
        local = pl.Series(midnights).cast(pl.Datetime("us"))
        starts = local.dt.replace_time_zone(self.zone, ambiguous="earliest", non_existent="null").dt.epoch("us")
        missing = starts.is_null().to_numpy()
        begins: Integers = starts.fill_null(0).to_numpy().copy()
        if missing.any():
            begins[missing] = self._after_gap(midnights[missing])
        return begins

    def numbers(self, moments: Integers) -> Integers:
        """Return the one that each moment, in microseconds since 1970, lies in: the last that has begun by then."""
        # By the date on the wall, which may be that of the day before again after clocks were put back at midnight.
        candidates, where = np.unique(self._of_days(self._wall(moments) // _DAY), return_inverse=True)
        begun, over = self.begins(candidates)[where] <= moments, self.begins(candidates + 1)[where] <= moments
        numbers: Integers = candidates[where] - ~begun + over
        return numbers

    def _first_days(self, numbers: Integers) -> Integers:
        """Days from 1970 to the first of each."""
        if self.unit == "month":
            days: Integers = numbers.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
            return days
        return numbers if self.unit == "day" else 7 * numbers - _MONDAY

    def _of_days(self, days: Integers) -> Integers:
        """Return the one that each day is in."""
        if self.unit == "month":
            months: Integers = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
            return months
        return days if self.unit == "day" else (days + _MONDAY) // 7

    def _wall(self, moments: Integers) -> Integers:
        """Return what clocks on the wall show, in microseconds since 1970."""
        import polars as pl

        times: pl.Series = pl.Series(moments).cast(pl.Datetime("us", "UTC"))
        return times.dt.convert_time_zone(self.zone).dt.replace_time_zone(None).dt.epoch("us").to_numpy()

    def _after_gap(self, midnights: Integers) -> Integers:
        """Return the first moment at which a clock on the wall shows a skipped time, or a later one: by halving."""
        low, high = midnights - 2 * _DAY, midnights + 2 * _DAY  # no zone is a day from UTC
        while (high - low > 1).any():
            middle = (low + high) // 2
            reached = self._wall(middle) >= midnights
            low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        return high
