"""The baselines by name, set up for a histogram stream from public facts alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpi.baselines.base import Baseline, check_count
from dpi.baselines.binary import Binary
from dpi.baselines.boosting import QueryBoosting
from dpi.baselines.demo import Demo
from dpi.baselines.hybrid import Hybrid
from dpi.baselines.logarithmic import Logarithmic
from dpi.baselines.noisy_histogram import NoisyHistogram
from dpi.baselines.pegasus import Pegasus
from dpi.baselines.per_bin import PerBin
from dpi.baselines.perrier import Perrier
from dpi.baselines.ranges import RangeCounter
from dpi.baselines.topl import ToPL
from dpi.baselines.tops import ToPS
from dpi.budget.epsilon import Amount, rational
from dpi.errors import OptionError, meant
from dpi.noise import Source


@dataclass(frozen=True)
class Setting:
    """What is declared of a stream before it is seen.

    slots: how many will be released; mechanisms for ever do not need it.
    largest: no bin holds more records in a slot (more are cut). rows: about how many records a slot has.
    """

    epsilon: Amount
    bins: int
    slots: int
    largest: int = 1 << 16
    rows: int = 10_000
    unsafe_source: Source | None = None

    def __post_init__(self) -> None:
        for name, value in (("slots", self.slots), ("largest", self.largest), ("rows", self.rows)):
            check_count(value, name)

    @property
    def prefix(self) -> int:
        """A tenth of the slots, for mechanisms that learn a threshold first."""
        return max(1, self.slots // 10)

    @property
    def released(self) -> int:
        """The slots after the prefix."""
        return max(2, self.slots - self.prefix)

    def per_bin(self, mechanism: Baseline) -> PerBin:
        """One copy of the mechanism for every bin."""
        return PerBin(epsilon=self.epsilon, bins=self.bins, mechanism=mechanism, unsafe_source=self.unsafe_source)


def _binary(s: Setting) -> Baseline:
    return Binary(epsilon=s.epsilon, bins=s.bins, slots=s.slots, unsafe_source=s.unsafe_source)


def _hybrid(s: Setting) -> Baseline:
    return Hybrid(epsilon=s.epsilon, bins=s.bins, unsafe_source=s.unsafe_source)


def _logarithmic(s: Setting) -> Baseline:
    return Logarithmic(epsilon=s.epsilon, bins=s.bins, unsafe_source=s.unsafe_source)


def _ranges(s: Setting) -> Baseline:
    return RangeCounter(epsilon=s.epsilon, bins=s.bins, unsafe_source=s.unsafe_source)


def _pegasus(s: Setting) -> Baseline:
    return Pegasus(epsilon=s.epsilon, bins=s.bins, unsafe_source=s.unsafe_source)


def _perrier(s: Setting) -> Baseline:
    # δ = 1/T² as published, but never above 10^-6: at a few slots it would promise little.
    delta = min(1e-6, 1 / s.released**2)
    one = Perrier(epsilon=s.epsilon, slots=s.released, prefix=s.prefix, largest=s.largest, threshold_delta=delta)
    return s.per_bin(one)


def _tops(s: Setting) -> Baseline:
    return s.per_bin(ToPS(epsilon=s.epsilon, slots=s.released, prefix=s.prefix, largest=s.largest, dropped=0))


def _topl(s: Setting) -> Baseline:
    return s.per_bin(ToPL(epsilon=s.epsilon, slots=s.released, prefix=s.prefix, largest=s.largest, grid=128))


def _boosting(s: Setting) -> Baseline:
    # One round draws from uniform weights and costs nothing; more rounds where ε and n pay for them.
    for rounds in (5, 3, 2, 1):
        boosting = QueryBoosting(
            epsilon=1024, bins=s.bins, rows=s.rows, rounds=rounds, sample=10, unsafe_source=s.unsafe_source
        )
        if 2 * boosting.sample_epsilon <= rational(s.epsilon):
            break
    return QueryBoosting(
        epsilon=s.epsilon, bins=s.bins, rows=s.rows, rounds=rounds, sample=10, unsafe_source=s.unsafe_source
    )


def _noisy(s: Setting) -> Baseline:
    return NoisyHistogram(epsilon=s.epsilon, bins=s.bins, unsafe_source=s.unsafe_source)


def _demo(s: Setting) -> Baseline:
    return Demo(bins=s.bins, unsafe_source=s.unsafe_source)


CATALOGUE: dict[str, Callable[[Setting], Baseline]] = {
    "binary": _binary,
    "hybrid": _hybrid,
    "logarithmic": _logarithmic,
    "ranges": _ranges,
    "pegasus": _pegasus,
    "perrier": _perrier,
    "tops": _tops,
    "topl": _topl,
    "boosting": _boosting,
    "noisy": _noisy,
    "demo": _demo,
}
"""Every mechanism that can release histograms, by name."""


def baseline(name: str, setting: Setting) -> Baseline:
    """A mechanism by name.

    >>> baseline("hybrid", Setting(epsilon=1, bins=3, slots=100))
    Hybrid(epsilon=1, bins=3)
    """
    if name not in CATALOGUE:
        raise OptionError(f"there is no baseline {name!r}{meant(name, CATALOGUE)}")
    return CATALOGUE[name](setting)
