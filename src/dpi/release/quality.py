"""Which numbers of a release are shown: rules that a publisher declares before the data. It sees releases alone.

A rule looks at released numbers and their 95 % intervals, whatever level is asked for. So it is post-processing: it
costs no privacy, and it protects nobody. Whole releases stay in the store, for those who check them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from dpi.errors import OptionError
from dpi.events.slots import Slots, duration
from dpi.release.choice import Floats
from dpi.release.release import Release

Band = Sequence[npt.ArrayLike] | Floats
"""Values, and the lower and upper ends of their intervals."""
Unit = Literal["points", "%"]
"""How wide the interval of a share is, in percentage points, or that of a number of users, in per cent of it."""
WEEK, SMALL = -1.0, -2.0
"""What a code says beside the width of an interval that is too wide: a week's mean is shown; too few users."""
WIDEST = 999.0


@dataclass(frozen=True, kw_only=True)
class Quality:
    """What a number must be to be shown.

    >>> rule = Quality(points=10, percent=50)
    >>> shown = rule.show(([0.5, 0.5], [0.45, 0.36], [0.55, 0.62]), unit="points")
    >>> shown[0].tolist(), [note(code, "points") for code in shown[3]]
    ([0.5, nan], ['', 'not shown: ± 14 points'])
    """

    points: float | None = None
    """No share whose 95 % interval is wider than ± this many percentage points …"""
    percent: float | None = None
    """… and no number of users whose interval is wider than ± this per cent of it."""
    size: float | None = None
    """Values of fewer users are counted as one value."""
    week: bool = False
    """Show the mean of seven days where a slot alone is too noisy."""

    def __post_init__(self) -> None:
        for name in ("points", "percent", "size"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise OptionError(f"`{name}` must be a number above 0: with {value!r} nothing would be shown.")
        if self.week and self.points is None and self.percent is None:
            raise OptionError("`week` replaces what is too noisy: give `points` or `percent` with it.")

    def __str__(self) -> str:
        """Return the rules in words.

        >>> str(Quality(points=10, size=20, week=True))
        'shares within ± 10 points, values of fewer than 20 users as one, a week where a slot is too noisy'
        """
        parts = {
            "shares within ± {:g} points": self.points,
            "numbers of users within ± {:g} %": self.percent,
            "values of fewer than {:g} users as one": self.size,
            "a week where a slot is too noisy": self.week,
        }
        return ", ".join(text.format(given) for text, given in parts.items() if given)

    def show(
        self,
        slot: Band,
        week: Band | None = None,
        *,
        unit: Unit,
        users: Floats | None = None,
    ) -> Floats:
        """Return values, lower and upper ends as they are shown, NaN for what is not, and a code that says why.

        `slot` are values and the ends of their 95 % intervals, `week` the same of the week. `users` are how many users
        have each value, where these are not counted together.
        """
        limit = self.points if unit == "points" else self.percent
        shown = np.stack([*(np.asarray(part, dtype=np.float64) for part in slot), np.zeros(np.shape(slot[0]))])
        if limit is not None:
            wide = _width(shown, unit)
            hidden = wide > limit
            if week is not None:
                other = np.stack([*week, np.full_like(wide, WEEK)])
                use = hidden & (_width(other, unit) <= limit)
                shown, hidden = np.where(use, other, shown), hidden & ~use
            shown[:3, hidden], shown[3, hidden] = np.nan, wide[hidden]
        if users is not None:
            few = self.small(users)
            shown[:3, few], shown[3, few] = np.nan, SMALL
        return shown

    def small(self, users: Floats) -> npt.NDArray[np.bool_]:
        """Return which values have too few users, by their released numbers."""
        if self.size is None:
            return np.zeros(np.shape(users), dtype=np.bool_)
        if np.isnan(users).any():
            raise OptionError("`size` needs numbers of users, and this stream did not measure them.")
        return np.asarray(users < self.size)

    def label(self, number: int) -> str:
        """Return what so many values of too few users are called together."""
        return f"{number} value{'' if number == 1 else 's'} of fewer than {self.size:g} users"


def note(code: float, unit: Unit) -> str:
    """Say why a number is not shown, or that it is a week's; nothing of one that is the slot's.

    >>> note(14.2, "points"), note(170, "%"), note(math.inf, "%")
    ('not shown: ± 14 points', 'not shown: ± 170 %', 'not shown: above ± 999 %')
    >>> note(SMALL, "%"), note(WEEK, "%"), note(0, "%")
    ('not shown: too few users', 'of a week', '')
    """
    if code > 0:
        width = f"± {width_text(code)}" if code <= WIDEST else f"above ± {WIDEST:.0f}"
        return f"not shown: {width} {unit}"
    return {WEEK: "of a week", SMALL: "not shown: too few users"}.get(code, "")


def width_text(code: float) -> str:
    """Return how wide an interval is, as it is told.

    >>> width_text(14.2), width_text(4.26)
    ('14', '4.3')
    """
    return f"{code:.{0 if code >= 9.95 else 1}f}"


def _width(band: Floats, unit: Unit) -> Floats:
    """Return how far the farther end of an interval lies from the value; infinite for an interval without an end."""
    value, lower, upper = band[:3]
    wide = 100 * np.maximum(value - lower, np.where(np.isnan(upper), math.inf, upper) - value)
    if unit == "points":
        return np.asarray(wide)
    return np.asarray(np.divide(wide, value, out=np.full_like(wide, math.inf), where=value > 0))


def slots_of_week(slots: Slots | None) -> int:
    """Return how many slots seven days have; refuse a stream without a clock, and slots that are too long or short."""
    if slots is None:
        raise OptionError("`week` needs a stream with a clock and a time zone, and this one has none.")
    hour = duration("1h")
    count = {"day": 7, "": 168 * hour // (slots.width or hour)}.get(slots.calendar, 1)
    if not 2 <= count <= 168:
        raise OptionError("`week` is for slots from an hour to three days.")
    return count


def with_weeks(releases: Iterable[Release], count: int) -> Iterator[tuple[Release, Release | None]]:
    """Give each release, and the mean of the `count` slots that end with it.

    There is no mean where one of the slots is missing, or has another domain.
    """
    held = deque[Release](maxlen=count)
    for release in releases:
        held.append(release)
        whole = len(held) == count and held[0].slot == release.slot - count + 1
        same = whole and all(each.domain == release.domain for each in held)
        yield release, _mean(held) if same else None


def _mean(held: Iterable[Release]) -> Release:
    """Return the mean of some slots as a picture of its own.

    Errors of neighbouring slots have much in common, since a release carries estimates forward. So deviations are
    averaged as if all of an error were common: the interval holds whatever slots share, and is hardly narrower.
    """
    slots = list(held)

    def mean(name: str) -> Floats:
        return np.asarray(np.mean([getattr(each, name) for each in slots], axis=0))

    def spread(name: str) -> Floats:
        return np.asarray(np.mean([np.sqrt(getattr(each, name)) for each in slots], axis=0) ** 2)

    numbers = {"total": float(mean("total")), "total_variance": float(spread("total_variance"))}
    payers = any(each.payers for each in slots)
    vectors = {"pdf": mean("pdf"), "variance": spread("variance"), "skew": mean("skew")}
    return replace(slots[-1], **vectors, **numbers, people=None, payers=payers)  # type: ignore[arg-type] # by name
