"""The public clock: which slots have closed at a moment, and which events then still count.

Sees times of events and public moments, no value and no user.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import numpy.typing as npt

from dpi.errors import ClockError
from dpi.events.slots import UNREADABLE, Slots
from dpi.exact.integers import Integers


@dataclass(frozen=True)
class Window:
    """What counts of events that arrived together: slots from `first` on, and times up to `until`.

    Both are microseconds or slot numbers that the public clock gave when the events arrived, one for all of them or one
    for each. So an event counts by its own time and by moments that no other event decides.

    >>> slots = Slots("1h")
    >>> Window(first=1, until=2 * slots.width).admits(slots, slots.moments([0, 5400, 9000], "s")).tolist()
    [False, True, False]
    """

    first: int | Integers
    until: int | Integers

    def admits(self, slots: Slots, moments: Integers) -> npt.NDArray[np.bool_]:
        """Which of some moments count: readable, in a slot that was open, and not from the future."""
        late, future = self.late(slots, moments), self.future(moments)
        admitted: npt.NDArray[np.bool_] = (moments != UNREADABLE) & ~late & ~future
        return admitted

    def late(self, slots: Slots, moments: Integers) -> npt.NDArray[np.bool_]:
        """Which of the moments that can be read lie in slots that had closed."""
        readable = moments != UNREADABLE
        late: npt.NDArray[np.bool_] = readable & (slots.at(np.where(readable, moments, 0)) < self.first)
        return late

    def future(self, moments: Integers) -> npt.NDArray[np.bool_]:
        """Which of the moments that can be read had not come yet."""
        future: npt.NDArray[np.bool_] = (moments != UNREADABLE) & (moments > self.until)
        return future


FOR_EVER = Window(np.iinfo(np.int64).min, np.iinfo(np.int64).max)
"""What is played admits an event by its slot alone."""


@dataclass
class Clock:
    """The public clock of a stream: it only moves forward, and says which events still count.

    >>> clock = Clock(Slots("1h", origin="2026-01-01"), "2026-01-01T05:10:00")
    >>> clock.admit(["2026-01-01T05:05:00", "2026-01-01T04:59:59", "2026-01-01T05:20:00"]).tolist()
    [True, False, False]
    """

    slots: Slots
    now: str | datetime
    dropped: dict[str, int] = field(default_factory=lambda: {"late": 0, "future": 0, "unreadable": 0}, repr=False)
    """How many events were dropped, and why. Private: for the curator alone."""

    def __post_init__(self) -> None:
        self._now = self.slots.instant(self.now, "now")

    def advance(self, now: str | datetime) -> None:
        """Move the clock forward."""
        moment = self.slots.instant(now, "now")
        if moment < self._now:
            raise ClockError("the clock went backwards; a slot that has closed stays closed.")
        self.now, self._now = now, moment

    @property
    def moment(self) -> int:
        """What the clock shows, in microseconds since 1970."""
        return self._now

    @property
    def first_open(self) -> int:
        """The first slot that has not closed."""
        return self.slots.first_open(self._now)

    @property
    def window(self) -> Window:
        """What counts of events that arrive now."""
        return Window(self.first_open, self._now)

    def admit(self, column: object, unit: str | None = None) -> npt.NDArray[np.bool_]:
        """Which events count: readable, in a slot that is still open, and not later than the clock."""
        moments, window = self.slots.moments(column, unit), self.window
        self.dropped["late"] += int(window.late(self.slots, moments).sum())
        self.dropped["future"] += int(window.future(moments).sum())
        self.dropped["unreadable"] += int((moments == UNREADABLE).sum())
        return window.admits(self.slots, moments)
