"""Which budget a slot gets: elements of a converging series in order or at random, or a constant.

An allocation is public: it never sees data, and what it draws is printed in every release. It has a life (what was
drawn is gone), so it can be saved and restored exactly; a restart must not refill it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Self, TypeVar

from dpi.budget.classes import ClassBudget
from dpi.budget.codecs import UNITS as AS_UNITS
from dpi.budget.epsilon import UNITS, Amount, Epsilon, rational
from dpi.budget.index_set import IndexSet
from dpi.budget.series import Series
from dpi.errors import OptionError, StateError
from dpi.noise import RandomSource, geometric, uniform_below
from dpi.options import RATIONAL, Family, Option

_Position = TypeVar("_Position", int, float)
_LONGEST_RUN = 1 << 27

OLDER = "the saved allocation is older than this one, or of other draws: restoring it would refill the series."

SPREAD = Fraction(3, 10)
"""The part of a concentrated budget that every slot gets."""


class Allocation(ABC):
    """Hands out the budget of one slot after the other."""

    share: Fraction = Fraction(1)
    """The part of what is left on a user's account that the slot just drawn may take."""

    classes: tuple[ClassBudget, ...] = ()
    """The budgets of the classes that are due in the slot just drawn, if users are measured by class."""

    def hear(self, slot: int, shares: Sequence[Fraction]) -> None:  # noqa: B027 - most allocations know no classes
        """Hear which slot is next, and the shares that its classes are asked for."""

    @abstractmethod
    def draw(self, source: RandomSource) -> Epsilon:
        """The next slot's budget."""

    def observe(self, users: float, bins: float, drift: float | None = None) -> None:  # noqa: B027 - most do not listen
        """Hear what the last release said: the estimated users, the number of bins that matter (e^entropy), the drift.

        The drift is the step by which log-probabilities move in a slot, as far as a mechanism tracks it.
        """

    @property
    @abstractmethod
    def description(self) -> str:
        """The rule with all its digits: a snapshot is restored onto the same rule only."""

    @abstractmethod
    def _state(self) -> object:
        """All that was drawn, as a JSON value."""

    @abstractmethod
    def _resume(self, state: object) -> None:
        """Continue from `_state`; raises `StateError` if it is damaged or older, and then changes nothing."""

    def snapshot(self) -> str:
        """All that was drawn, as text for `restore`."""
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
        """Whether what was drawn by a rule means the same to this one."""
        return rule == self.description


class Constant(Allocation):
    """The same budget in every slot: for a ledger, where accounts and not the series bound the loss.

    >>> from dpi.noise import SystemSource
    >>> Constant(0.05).draw(SystemSource())
    Epsilon(0.05)
    """

    def __init__(self, per_slot: Amount) -> None:
        self._per_slot = Epsilon.at_most(per_slot, "per_slot")

    def draw(self, source: RandomSource) -> Epsilon:
        """The constant."""
        return self._per_slot

    @property
    def description(self) -> str:
        """The amount."""
        return f"constant {self._per_slot.units}"

    def _state(self) -> object:
        return None

    def _resume(self, state: object) -> None:
        if state is not None:
            raise StateError("the saved allocation is damaged.")


class Concentrated(Allocation):
    """The same budget on average, most of it in every `every`-th slot: the rest is spread evenly.

    Budgets add up, but the precision of a measurement grows with the square of its budget: on a stream that moves
    slowly, few precise slots say more than many vague ones.

    >>> from dpi.noise import SystemSource
    >>> pulses = Concentrated(0.05, every=5)
    >>> [round(float(pulses.draw(SystemSource())), 6) for _ in range(6)]
    [0.19, 0.015, 0.015, 0.015, 0.015, 0.19]
    """

    def __init__(self, per_slot: Amount, every: int) -> None:
        mean = Epsilon.at_most(per_slot, "per_slot").fraction
        self._every = every
        self._high, self._low = (
            Epsilon.at_most(mean * share, "per_slot") for share in (SPREAD + every * (1 - SPREAD), SPREAD)
        )
        self._drawn = 0

    def draw(self, source: RandomSource) -> Epsilon:
        """High in slots 0, every, 2·every, …; low in the others."""
        drawn, self._drawn = self._drawn, self._drawn + 1
        return self._low if drawn % self._every else self._high

    @property
    def description(self) -> str:
        """Both amounts and the period."""
        return f"concentrated {self._high.units} {self._low.units} {self._every}"

    def _state(self) -> object:
        return self._drawn

    def _resume(self, state: object) -> None:
        self._drawn = not_before(_whole(state), self._drawn)


class InOrder(Allocation):
    """Elements 1, 2, 3, … of the series.

    >>> from dpi.budget.series import Geometric
    >>> from dpi.noise import SystemSource
    >>> order = InOrder(Geometric(0.5), Epsilon.at_most(1))
    >>> [float(order.draw(SystemSource())) for _ in range(3)]
    [0.5, 0.25, 0.125]
    """

    def __init__(self, series: Series, epsilon: Epsilon) -> None:
        self._series, self._rule = series.of(epsilon), f"{series.description} of {epsilon.units}"
        self._drawn = 0

    def draw(self, source: RandomSource) -> Epsilon:
        """The next element."""
        self._drawn += 1
        return Epsilon(self._series.element(self._drawn))

    @property
    def description(self) -> str:
        """The series and its total."""
        return f"in order {self._rule}"

    def _state(self) -> object:
        return self._drawn

    def _resume(self, state: object) -> None:
        self._drawn = not_before(_whole(state), self._drawn)


class NearestUnused(Allocation):
    """Published random allocation: the unused element nearest to S, with S exponential of rate Λ.

    Every element is drawn at most once, so any number of draws sums to at most the series. S is drawn as a whole number
    of units (a geometric variable), from the same exact source as the noise. Of two elements at the same distance the
    smaller is taken; which of equal elements is all the same. A draw costs O(log t).
    """

    def __init__(self, series: Series, epsilon: Epsilon, rate: Fraction) -> None:
        self._series, self._rule = series.of(epsilon), f"{series.description} of {epsilon.units} at {rate}"
        self._scale = UNITS / rate
        self._used = IndexSet()

    def draw(self, source: RandomSource) -> Epsilon:
        """The unused element nearest to a fresh S."""
        target = self._target(source)
        first = self._series.first_at_most(target)
        # Elements do not increase: the nearest unused one is the last above `first` or the first from there on.
        after = self._used.free_from(first)
        before = self._used.free_until(first - 1)
        chosen = after
        if before:
            above = self._series.element(before) - target
            below = target - self._series.element(after)
            chosen = before if above < below else after
        self._used.add(chosen)
        return Epsilon(self._series.element(chosen))

    def _target(self, source: RandomSource) -> int:
        high, low, bits = geometric(1, self._scale, source)
        return (int(high[0]) << bits) + int(low[0])

    @property
    def description(self) -> str:
        """The series, its total and the rate."""
        return f"nearest unused {self._rule}"

    def _state(self) -> object:
        return self._used.runs()

    def _resume(self, state: object) -> None:
        used, end = IndexSet(), 0
        for run in _list(state):
            ends = [_whole(x) for x in _list(run)]
            first, last = ends if len(ends) == 2 else (0, 0)
            if not end < first <= last or last - first > _LONGEST_RUN:
                raise StateError("the saved allocation is damaged: its runs overlap or are too long.")
            for index in range(first, last + 1):
                used.add(index)
            end = last
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
        self._rule = f"{series.description} of {epsilon.units} at {large.units}, {small.units}"
        borders = [self._series.first_at_most(threshold.units - 1) for threshold in (large, small)]
        self._first = [1, *borders]
        self._next = [1, *borders]
        self._end = [*borders, None]

    def draw(self, source: RandomSource) -> Epsilon:
        """The first element of a random queue that is not empty."""
        open_ = [q for q, (at, end) in enumerate(zip(self._next, self._end, strict=True)) if end is None or at < end]
        queue = open_[uniform_below(len(open_), source)]
        index = self._next[queue]
        self._next[queue] += 1
        return Epsilon(self._series.element(index))

    @property
    def description(self) -> str:
        """The series, its total and the thresholds."""
        return f"ranges {self._rule}"

    def _state(self) -> object:
        return self._next

    def _resume(self, state: object) -> None:
        queues = [_whole(x) for x in _list(state)]
        inside = len(queues) == 3 and all(
            first <= at and (end is None or at <= end)
            for first, at, end in zip(self._first, queues, self._end, strict=True)
        )
        if not inside:
            raise StateError("the saved allocation is damaged: a queue is out of its range.")
        self._next = [not_before(at, here) for at, here in zip(queues, self._next, strict=True)]


class Draw(Option, ABC):
    """The order in which elements of a series are drawn, as an option."""

    @abstractmethod
    def open(self, series: Series, epsilon: Epsilon) -> Allocation:
        """A fresh allocation."""


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
        """The alternative by ranges, with public thresholds."""
        return RBARanges(Epsilon.at_most(large, "large"), Epsilon.at_most(small, "small"))

    def open(self, series: Series, epsilon: Epsilon) -> Allocation:
        """A fresh allocation."""
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
        """A fresh allocation."""
        return Ranges(series, epsilon, self.large, self.small)


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise StateError("the saved allocation is damaged: a position is not a whole number.")
    return value


def not_before(saved: _Position, here: _Position) -> _Position:
    """A saved position, unless it is behind the present one."""
    if saved < here:
        raise StateError(OLDER)
    return saved


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise StateError("the saved allocation is damaged: a list is missing.")
    return value
