"""Which budget a slot gets: elements of a converging series in order or at random, or a constant.

An allocation is public: it never sees data, and what it draws is printed in every release. It has a life (what was
drawn is gone), so it can be saved and restored exactly; a restart must not refill it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Self, TypeVar

from dpi.budget.classes import GroupBudget
from dpi.budget.epsilon import AS_UNITS, UNITS, Amount, Epsilon, rational
from dpi.budget.series import Series
from dpi.errors import OptionError, StateError
from dpi.noise import RandomSource, geometric, uniform_below
from dpi.options import RATIONAL, Family, Option

_Position = TypeVar("_Position", int, float)
DAMAGED = "the saved allocation is damaged."
OLDER = "the saved allocation is older than this one, or of other draws: restoring it would refill the series."
SPREAD = Fraction(3, 10)
"""The part of a concentrated budget that every slot gets."""


class Allocation(ABC):
    """Hands out the budget of one slot after the other."""

    description: str
    """The rule with all its digits: a snapshot is restored onto the same rule only."""
    share: Fraction = Fraction(1)
    """The part of what is left on a user's account that the slot just drawn may take."""
    groups: tuple[GroupBudget, ...] = ()
    """The budgets of the classes that are due in the slot just drawn, if users are measured by class."""

    @abstractmethod
    def draw(self, source: RandomSource) -> Epsilon:
        """Return the next slot's budget."""

    def observe(self, users: float, bins: float, drift: float | None = None) -> None:  # noqa: B027 - most do not listen
        """Hear what the last release said: the estimated users, the number of bins that matter (e^entropy), the drift.

        The drift is the step by which log-probabilities move in a slot, as far as a mechanism tracks it.
        """

    @abstractmethod
    def _state(self) -> object:
        """Return all that was drawn, as a JSON value."""

    @abstractmethod
    def _resume(self, state: object) -> None:
        """Continue from `_state`; raises `StateError` if it is damaged or older, and then changes nothing."""

    def snapshot(self) -> str:
        """Return all that was drawn, as text for `restore`."""
        return json.dumps({"rule": self.description, "state": self._state()})

    def restore(self, text: str) -> None:
        """Continue where `snapshot` was taken; refuses what another rule, or nobody, has written.

        Refuses as well a snapshot that lacks something drawn here: it would be drawn a second time, and the sum of
        the draws would no longer be bounded by the series.
        """
        try:
            saved = json.loads(text)
        except ValueError:
            saved = None
        if not isinstance(saved, dict) or set(saved) != {"rule", "state"} or saved["rule"] != self.description:
            raise StateError("the saved allocation is damaged or belongs to other options.")
        self._resume(saved["state"])

    def succeed(self, text: str) -> None:
        """Go on where a snapshot of an allocation that came before this one was taken; one of another rule is left."""
        rule = json.loads(text)["rule"] if text else None
        if rule is not None and self._follows(str(rule)):
            self.restore(json.dumps({**json.loads(text), "rule": self.description}))

    def _follows(self, rule: str) -> bool:
        """Return whether what was drawn by a rule means the same to this one."""
        return rule == self.description


class Constant(Allocation):
    """The same budget in every slot: for a ledger, where accounts and not the series bound the loss.

    >>> from dpi.noise import SystemSource
    >>> Constant(0.05).draw(SystemSource())
    Epsilon(0.05)
    """

    def __init__(self, per_slot: Amount) -> None:
        self.per_slot = Epsilon.at_most(per_slot, "per_slot")
        self.description = f"constant {self.per_slot.units}"

    def draw(self, source: RandomSource) -> Epsilon:
        """Return the constant."""
        return self.per_slot

    def _state(self) -> object:
        return None

    def _resume(self, state: object) -> None:
        if state is not None:
            raise StateError(DAMAGED)


class Counted(Allocation):
    """What each slot gets follows from how many came before it."""

    _drawn = 0

    def _state(self) -> object:
        return self._drawn

    def _resume(self, state: object) -> None:
        self._drawn = not_before(_whole(state), self._drawn)


class Concentrated(Counted):
    """The same budget on average, most of it in every `every`-th slot: the rest is spread evenly.

    Budgets add up, but the precision of a measurement grows with the square of its budget: on a stream that moves
    slowly, few precise slots say more than many vague ones.

    >>> from dpi.noise import SystemSource
    >>> pulses = Concentrated(0.05, every=5)
    >>> [round(float(pulses.draw(SystemSource())), 6) for _ in range(6)]
    [0.19, 0.015, 0.015, 0.015, 0.015, 0.19]
    """

    def __init__(self, per_slot: Amount, every: int) -> None:
        mean, high = Epsilon.at_most(per_slot, "per_slot").fraction, SPREAD + every * (1 - SPREAD)
        self._high, self._low = (Epsilon.at_most(mean * share, "per_slot") for share in (high, SPREAD))
        self._every = every
        self.description = f"concentrated {self._high.units} {self._low.units} {every}"

    def draw(self, source: RandomSource) -> Epsilon:
        """Return the high budget in slots 0, every, 2·every, …; the low one in the others."""
        drawn, self._drawn = self._drawn, self._drawn + 1
        return self._low if drawn % self._every else self._high


class InOrder(Counted):
    """Elements 1, 2, 3, … of the series.

    >>> from dpi.budget.series import Geometric
    >>> from dpi.noise import SystemSource
    >>> order = InOrder(Geometric(0.5), Epsilon.at_most(1))
    >>> [float(order.draw(SystemSource())) for _ in range(3)]
    [0.5, 0.25, 0.125]
    """

    def __init__(self, series: Series, epsilon: Epsilon) -> None:
        self._series = series.of(epsilon)
        self.description = f"in order {series.description} of {epsilon.units}"

    def draw(self, source: RandomSource) -> Epsilon:
        """Return the next element."""
        self._drawn += 1
        return Epsilon(self._series.element(self._drawn))


class IndexSet:
    """A set of positive integers as runs of consecutive ones, which finds the nearest *absent* one by bisection.

    >>> s = IndexSet()
    >>> for i in (1, 2, 4): s.add(i)
    >>> s.free_from(1), s.free_until(2), s.free_until(4), s.runs()
    (3, 0, 3, [[1, 2], [4, 4]])
    """

    def __init__(self, runs: Sequence[Sequence[int]] = ()) -> None:
        self._first, self._last = [first for first, _ in runs], [last for _, last in runs]

    def _run(self, index: int) -> int | None:
        """Return the run that holds an index."""
        at = bisect_right(self._first, index) - 1
        return at if at >= 0 and index <= self._last[at] else None

    def add(self, index: int) -> None:
        """Put an index in; it may join the run before, the run after, or both."""
        if self._run(index) is not None:
            return
        at = bisect_right(self._first, index)
        self._first.insert(at, index)
        self._last.insert(at, index)
        for left in (at, at - 1):
            if 0 <= left < len(self._first) - 1 and self._last[left] + 1 == self._first[left + 1]:
                del self._last[left], self._first[left + 1]

    def free_from(self, index: int) -> int:
        """Return the smallest absent integer that is at least `index`, and at least 1."""
        at = self._run(max(index, 1))
        return max(index, 1) if at is None else self._last[at] + 1

    def free_until(self, index: int) -> int:
        """Return the largest absent integer in 1 … index, or 0 if there is none."""
        at = self._run(index)
        return index if at is None else self._first[at] - 1

    def runs(self) -> list[list[int]]:
        """Return the integers in the set, as first and last of each run."""
        return [list(run) for run in zip(self._first, self._last, strict=True)]


class NearestUnused(Allocation):
    """Published random allocation: the unused element nearest to S, with S exponential of rate Λ.

    Every element is drawn at most once, so any number of draws sums to at most the series. S is drawn as a whole number
    of units (a geometric variable), from the same exact source as the noise. Of two elements at the same distance the
    smaller is taken; which of equal elements is all the same.
    """

    def __init__(self, series: Series, epsilon: Epsilon, rate: Fraction) -> None:
        self._series, self._scale, self._used = series.of(epsilon), UNITS / rate, IndexSet()
        self.description = f"nearest unused {series.description} of {epsilon.units} at {rate}"

    def draw(self, source: RandomSource) -> Epsilon:
        """Return the unused element nearest to a fresh S."""
        target = self._target(source)
        first = self._series.first_at_most(target)
        # Elements do not increase: the nearest unused one is the last above `first` or the first from there on.
        chosen, before = self._used.free_from(first), self._used.free_until(first - 1)
        if before and self._series.element(before) - target < target - self._series.element(chosen):
            chosen = before
        self._used.add(chosen)
        return Epsilon(self._series.element(chosen))

    def _target(self, source: RandomSource) -> int:
        high, low, bits = geometric(1, self._scale, source)
        return (int(high[0]) << bits) + int(low[0])

    def _state(self) -> object:
        return self._used.runs()

    def _resume(self, state: object) -> None:
        runs = [[_whole(x) for x in _list(run)] for run in _list(state)]
        end = -1
        for run in runs:
            if len(run) != 2 or not end + 1 < run[0] <= run[1]:
                raise StateError("the saved allocation is damaged: its runs overlap or are none.")
            end = run[1]
        used = IndexSet(runs)
        if any(used.free_from(first) <= last for first, last in self._used.runs()):
            raise StateError(OLDER)
        self._used = used


class Ranges(Allocation):
    """Published alternative: a large, medium or small element, whichever of the queues a fair die says.

    Large are the elements of at least `large`, medium those of at least `small`, small is the infinite tail. Thresholds
    are public. An empty queue is not asked again, so a draw always ends.
    """

    def __init__(self, series: Series, epsilon: Epsilon, large: Epsilon, small: Epsilon) -> None:
        if small >= large:
            raise OptionError("`small` must be below `large`.")
        self._series = series.of(epsilon)
        self.description = f"ranges {series.description} of {epsilon.units} at {large.units}, {small.units}"
        borders = [self._series.first_at_most(threshold.units - 1) for threshold in (large, small)]
        self._first, self._next, self._end = [1, *borders], [1, *borders], [*borders, None]

    def draw(self, source: RandomSource) -> Epsilon:
        """Return the first element of a random queue that is not empty."""
        open_ = [q for q, (at, end) in enumerate(zip(self._next, self._end, strict=True)) if end is None or at < end]
        queue = open_[uniform_below(len(open_), source)]
        index = self._next[queue]
        self._next[queue] += 1
        return Epsilon(self._series.element(index))

    def _state(self) -> object:
        return self._next

    def _resume(self, state: object) -> None:
        queues = [_whole(x) for x in _list(state)]
        borders = zip(self._first, queues, self._end, strict=False)
        if len(queues) != 3 or not all(first <= at and (end is None or at <= end) for first, at, end in borders):
            raise StateError("the saved allocation is damaged: a queue is out of its range.")
        self._next = [not_before(at, here) for at, here in zip(queues, self._next, strict=True)]


class Draw(Option, ABC):
    """The order in which elements of a series are drawn, as an option."""

    @abstractmethod
    def open(self, series: Series, epsilon: Epsilon) -> Allocation:
        """Return a fresh allocation."""


DRAWS: Family[Draw] = Family("draw")


@DRAWS.member
@dataclass(frozen=True, init=False)
class RBA(Draw):
    """The published random budget allocation, as an option: `RBA(1e8)`, or `RBA.ranges(large, small)`.

    The published default Λ = 10⁸ draws elements near 10⁻⁸: it spends next to nothing, and a release says next to
    nothing.

    >>> RBA(1e8)
    RBA(1e+08)
    """

    rate: Fraction

    codecs = MappingProxyType({"rate": RATIONAL})

    def __init__(self, Lambda: Amount = 10**8) -> None:
        rate = rational(Lambda, "Lambda")
        if not Fraction(1, 1 << 10) <= rate <= UNITS:
            raise OptionError(f"`Lambda` must lie between 2^-10 and 2^40. Got {Lambda}.")
        object.__setattr__(self, "rate", rate)

    @classmethod
    def _made(cls, values: dict[str, object]) -> Self:
        return cls(Lambda=values.pop("rate"), **values)  # type: ignore[arg-type]

    @staticmethod
    def ranges(large: Amount, small: Amount) -> RBARanges:
        """Return the alternative by ranges, with public thresholds."""
        return RBARanges(Epsilon.at_most(large, "large"), Epsilon.at_most(small, "small"))

    def open(self, series: Series, epsilon: Epsilon) -> Allocation:
        """Return a fresh allocation."""
        return NearestUnused(series, epsilon, self.rate)

    def __repr__(self) -> str:
        return f"RBA({float(self.rate):g})"


@DRAWS.member
@dataclass(frozen=True)
class RBARanges(Draw):
    """Random allocation by ranges, as an option; made by `RBA.ranges`."""

    large: Epsilon
    small: Epsilon

    kind = "rba_ranges"
    codecs = MappingProxyType({"large": AS_UNITS, "small": AS_UNITS})

    def open(self, series: Series, epsilon: Epsilon) -> Allocation:
        """Return a fresh allocation."""
        return Ranges(series, epsilon, self.large, self.small)


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise StateError("the saved allocation is damaged: a position is not a whole number.")
    return value


def not_before(saved: _Position, here: _Position) -> _Position:
    """Return a saved position, unless it is behind the present one."""
    if saved < here:
        raise StateError(OLDER)
    return saved


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise StateError("the saved allocation is damaged: a list is missing.")
    return value
