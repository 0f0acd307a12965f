"""Which budget a slot gets: elements of a converging series in order or at random, or a constant.

An allocation is public: it never sees data, and what it draws is printed in every release. It has a life (what was
drawn is gone), so it can be saved and restored exactly; a restart must not refill it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction

from dpi.budget.epsilon import UNITS, Amount, Epsilon, rational
from dpi.budget.index_set import IndexSet
from dpi.budget.series import Series
from dpi.errors import OptionError, StateError
from dpi.noise import Source, geometric, uniform_below


class Allocation(ABC):
    """Hands out the budget of one slot after the other."""

    @abstractmethod
    def draw(self, source: Source) -> Epsilon:
        """The next slot's budget."""

    @abstractmethod
    def snapshot(self) -> str:
        """All that was drawn, as text for `restore`."""

    @abstractmethod
    def restore(self, text: str) -> None:
        """Continue where `snapshot` was taken; refuses what it did not write."""


class Constant(Allocation):
    """The same budget in every slot: for a ledger, where accounts and not the series bound the loss.

    >>> from dpi.noise import SystemSource
    >>> Constant(0.05).draw(SystemSource())
    Epsilon(0.05)
    """

    def __init__(self, per_slot: Amount) -> None:
        self._per_slot = Epsilon.at_most(per_slot, "per_slot")

    def draw(self, source: Source) -> Epsilon:
        """The constant."""
        return self._per_slot

    def snapshot(self) -> str:
        """Nothing has to be remembered but the amount."""
        return json.dumps({"constant": self._per_slot.units})

    def restore(self, text: str) -> None:
        """Check that the amount is the same."""
        if _read(text, "constant") != {"constant": self._per_slot.units}:
            raise StateError("the saved allocation has another constant.")


class InOrder(Allocation):
    """Elements 1, 2, 3, … of the series.

    >>> from dpi.budget.series import Geometric
    >>> from dpi.noise import SystemSource
    >>> order = InOrder(Geometric(0.5), Epsilon.at_most(1))
    >>> [float(order.draw(SystemSource())) for _ in range(3)]
    [0.5, 0.25, 0.125]
    """

    def __init__(self, series: Series, epsilon: Epsilon) -> None:
        self._series = series.of(epsilon)
        self._drawn = 0

    def draw(self, source: Source) -> Epsilon:
        """The next element."""
        self._drawn += 1
        return Epsilon(self._series.element(self._drawn))

    def snapshot(self) -> str:
        """How many elements are gone."""
        return json.dumps({"drawn": self._drawn})

    def restore(self, text: str) -> None:
        """Continue after that many."""
        self._drawn = _whole(_read(text, "drawn")["drawn"])


class NearestUnused(Allocation):
    """Published random allocation: the unused element nearest to S, with S exponential of rate Λ.

    Every element is drawn at most once, so any number of draws sums to at most the series. S is drawn as a whole number
    of units (a geometric variable), from the same exact source as the noise. Of two elements at the same distance the
    smaller is taken, of equal elements the first. A draw costs O(log t).
    """

    def __init__(self, series: Series, epsilon: Epsilon, rate: Fraction) -> None:
        self._series = series.of(epsilon)
        self._scale = UNITS / rate
        self._used = IndexSet()

    def draw(self, source: Source) -> Epsilon:
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

    def _target(self, source: Source) -> int:
        high, low, bits = geometric(1, self._scale, source)
        return (int(high[0]) << bits) + int(low[0])

    def snapshot(self) -> str:
        """The used elements, as runs [first, last]."""
        return json.dumps({"used": self._used.runs()})

    def restore(self, text: str) -> None:
        """Mark those runs as used."""
        used, end = IndexSet(), 0
        for run in _list(_read(text, "used")["used"]):
            ends = [_whole(x) for x in _list(run)]
            first, last = ends if len(ends) == 2 else (0, 0)
            if not end < first <= last:
                raise StateError("the saved allocation is damaged: its runs overlap.")
            for index in range(first, last + 1):
                used.add(index)
            end = last
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
        borders = [self._series.first_at_most(threshold.units - 1) for threshold in (large, small)]
        self._next = [1, *borders]
        self._end = [*borders, None]

    def draw(self, source: Source) -> Epsilon:
        """The first element of a random queue that is not empty."""
        open_ = [q for q, (at, end) in enumerate(zip(self._next, self._end, strict=True)) if end is None or at < end]
        queue = open_[uniform_below(len(open_), source)]
        index = self._next[queue]
        self._next[queue] += 1
        return Epsilon(self._series.element(index))

    def snapshot(self) -> str:
        """The next element of each queue."""
        return json.dumps({"next": self._next})

    def restore(self, text: str) -> None:
        """Continue from those."""
        queues = [_whole(x) for x in _list(_read(text, "next")["next"])]
        if len(queues) != 3:
            raise StateError("the saved allocation is damaged: it has not three queues.")
        self._next = queues


@dataclass(frozen=True, init=False)
class RBA:
    """The published random budget allocation, as an option: `RBA(1e8)`, or `RBA.ranges(large, small)`.

    The published default Λ = 10⁸ draws elements near 10⁻⁸: it spends next to nothing, and a release says next to
    nothing.

    >>> RBA(1e8)
    RBA(1e+08)
    """

    rate: Fraction

    def __init__(self, Lambda: Amount = 10**8) -> None:
        rate = rational(Lambda, "Lambda")
        if not Fraction(1, 1 << 10) <= rate <= UNITS:
            raise OptionError(f"`Lambda` must lie between 2^-10 and 2^40. Got {Lambda}.")
        object.__setattr__(self, "rate", rate)

    @staticmethod
    def ranges(large: Amount, small: Amount) -> RBARanges:
        """The alternative by ranges, with public thresholds."""
        return RBARanges(Epsilon.at_most(large, "large"), Epsilon.at_most(small, "small"))

    def open(self, series: Series, epsilon: Epsilon) -> Allocation:
        """A fresh allocation."""
        return NearestUnused(series, epsilon, self.rate)

    def __repr__(self) -> str:
        return f"RBA({float(self.rate):g})"


@dataclass(frozen=True)
class RBARanges:
    """Random allocation by ranges, as an option; made by `RBA.ranges`."""

    large: Epsilon
    small: Epsilon

    def open(self, series: Series, epsilon: Epsilon) -> Allocation:
        """A fresh allocation."""
        return Ranges(series, epsilon, self.large, self.small)


@dataclass(frozen=True)
class Converging:
    """Everybody pays every slot's ε_t, and the ε_t sum to at most ε: no account is needed.

    **Guarantee.** ε-DP at user level for ever: a user moves each slot's histogram by at most one unit, so slot t
    loses at most ε_t about them, whatever was released before; the losses add up along the transcript to Σ ε_t ≤ ε.

    >>> from dpi.budget.series import LogSquared
    >>> Converging(LogSquared()).open(Epsilon.at_most(1))
    <dpi.budget.allocation.InOrder object at ...>
    """

    series: Series
    draw: RBA | RBARanges | None = None

    def open(self, epsilon: Epsilon) -> Allocation:
        """A fresh allocation with this total."""
        return self.draw.open(self.series, epsilon) if self.draw else InOrder(self.series, epsilon)


def _read(text: str, key: str) -> dict[str, object]:
    try:
        state = json.loads(text)
    except ValueError:
        state = None
    if not isinstance(state, dict) or set(state) != {key}:
        raise StateError("the saved allocation is damaged or belongs to other options.")
    return state


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise StateError("the saved allocation is damaged: a position is not a whole number.")
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise StateError("the saved allocation is damaged: a list is missing.")
    return value
