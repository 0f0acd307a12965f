"""The baselines by name, set up for a histogram stream from public facts alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpi.budget.epsilon import Amount, rational
from dpi.errors import OptionError, meant
from dpi.noise import RandomSource
from dpi_research.baselines.base import Baseline, check_count
from dpi_research.baselines.binary import Binary
from dpi_research.baselines.blt import BufferedToeplitz
from dpi_research.baselines.boosting import QueryBoosting
from dpi_research.baselines.budget_absorption import BudgetAbsorption
from dpi_research.baselines.budget_distribution import BudgetDistribution
from dpi_research.baselines.cgm_spirit import CgmSpirit
from dpi_research.baselines.demo import Demo
from dpi_research.baselines.dong_spirit import DongSpirit
from dpi_research.baselines.fast import Fast
from dpi_research.baselines.honaker import Honaker
from dpi_research.baselines.hybrid import Hybrid
from dpi_research.baselines.key_selection import KeySelection
from dpi_research.baselines.ldp_budget import LBA, LBD, LBU, LSP
from dpi_research.baselines.ldp_ids import LdpIds
from dpi_research.baselines.ldp_population import LPA, LPD, LPU
from dpi_research.baselines.logarithmic import Logarithmic
from dpi_research.baselines.noisy_histogram import NoisyHistogram
from dpi_research.baselines.pegasus import Pegasus
from dpi_research.baselines.per_bin import PerBin
from dpi_research.baselines.perrier import Perrier
from dpi_research.baselines.ranges import RangeCounter
from dpi_research.baselines.rescue import RescueDP
from dpi_research.baselines.square_root import SquareRoot
from dpi_research.baselines.thresh import Thresh
from dpi_research.baselines.topl import ToPL
from dpi_research.baselines.tops import ToPS


@dataclass(frozen=True)
class PublicFacts:
    """What is declared of a stream before it is seen.

    slots: how many will be released; mechanisms for ever do not need it.
    largest: no bin holds more records in a slot (more are cut). rows: about how many records a slot has.
    ordered: whether the bins are intervals of numbers, one after the other.
    """

    epsilon: Amount
    bins: int
    slots: int
    largest: int = 1 << 16
    rows: int = 10_000
    ordered: bool = False
    unsafe_source: RandomSource | None = None

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

    @property
    def window(self) -> int:
        """Twenty slots, for mechanisms that protect a window; fewer if there are not as many."""
        return min(20, self.slots)

    def per_bin(self, mechanism: Baseline) -> PerBin:
        """One copy of the mechanism for every bin."""
        return PerBin(epsilon=self.epsilon, bins=self.bins, mechanism=mechanism, unsafe_source=self.unsafe_source)


Make = Callable[[PublicFacts], Baseline]
"""Sets a mechanism up."""


def _plain(mechanism: Callable[..., Baseline], *declared: str) -> Make:
    """A mechanism that wants to know ε, bins, and these facts of the setting."""

    def make(s: PublicFacts) -> Baseline:
        facts = {name: getattr(s, name) for name in declared}
        return mechanism(epsilon=s.epsilon, bins=s.bins, unsafe_source=s.unsafe_source, **facts)

    return make


def _perrier(s: PublicFacts) -> Baseline:
    # δ = 1/T² as published, but never above 10^-6: at a few slots it would promise little.
    delta = min(1e-6, 1 / s.released**2)
    one = Perrier(epsilon=s.epsilon, slots=s.released, prefix=s.prefix, largest=s.largest, threshold_delta=delta)
    return s.per_bin(one)


def _tops(s: PublicFacts) -> Baseline:
    return s.per_bin(ToPS(epsilon=s.epsilon, slots=s.released, prefix=s.prefix, largest=s.largest, dropped=0))


def _topl(s: PublicFacts) -> Baseline:
    return s.per_bin(ToPL(epsilon=s.epsilon, slots=s.released, prefix=s.prefix, largest=s.largest, grid=128))


def _boosting(s: PublicFacts) -> Baseline:
    def boosting(epsilon: Amount, rounds: int) -> QueryBoosting:
        source = s.unsafe_source
        return QueryBoosting(epsilon=epsilon, bins=s.bins, rows=s.rows, rounds=rounds, sample=10, unsafe_source=source)

    # One round draws from uniform weights and costs nothing; more rounds where ε and n pay for them.
    affordable = (rounds for rounds in (5, 3, 2) if 2 * boosting(1024, rounds).sample_epsilon <= rational(s.epsilon))
    return boosting(s.epsilon, next(affordable, 1))


def _demo(s: PublicFacts) -> Baseline:
    return Demo(bins=s.bins, unsafe_source=s.unsafe_source)


def _ldp(method: type[LdpIds]) -> Make:
    def make(s: PublicFacts) -> Baseline:
        users = max(s.rows, 2 * s.window)
        return method(epsilon=s.epsilon, bins=s.bins, users=users, window=s.window, unsafe_source=s.unsafe_source)

    return make


def _thresh(s: PublicFacts) -> Baseline:
    epochs = max(4, -(-s.slots // 2000))
    length = -(-s.slots // epochs)
    users = max(1000, s.rows)
    return Thresh(
        epsilon=s.epsilon, bins=s.bins, users=users, epochs=epochs, length=length, unsafe_source=s.unsafe_source
    )


def _cgm(s: PublicFacts) -> Baseline:
    step = max(1, s.largest // 20)
    return CgmSpirit(
        epsilon=s.epsilon, bins=s.bins, largest=s.largest, step=step, period=s.window, unsafe_source=s.unsafe_source
    )


CATALOGUE: dict[str, Make] = {
    "binary": _plain(Binary, "slots"),
    "hybrid": _plain(Hybrid),
    "logarithmic": _plain(Logarithmic),
    "ranges": _plain(RangeCounter),
    "pegasus": _plain(Pegasus),
    "perrier": _perrier,
    "tops": _tops,
    "topl": _topl,
    "boosting": _boosting,
    "noisy": _plain(NoisyHistogram),
    "demo": _demo,
    "bd": _plain(BudgetDistribution, "window"),
    "ba": _plain(BudgetAbsorption, "window"),
    "fast": _plain(Fast, "slots"),
    "rescue": _plain(RescueDP, "window"),
    "lbu": _ldp(LBU),
    "lsp": _ldp(LSP),
    "lbd": _ldp(LBD),
    "lba": _ldp(LBA),
    "lpu": _ldp(LPU),
    "lpd": _ldp(LPD),
    "lpa": _ldp(LPA),
    "thresh": _thresh,
    "cgm-spirit": _cgm,
    "dong-spirit": _plain(DongSpirit),
    "square-root": _plain(SquareRoot, "slots"),
    "blt": _plain(BufferedToeplitz, "slots"),
    "honaker": _plain(Honaker, "slots"),
    "dp-sqlp": _plain(KeySelection, "slots"),
}
"""Every mechanism that can release histograms, by name."""


def baseline(name: str, setting: PublicFacts) -> Baseline:
    """A mechanism by name.

    >>> baseline("hybrid", PublicFacts(epsilon=1, bins=3, slots=100))
    Hybrid(epsilon=1, bins=3)
    """
    if name not in CATALOGUE:
        raise OptionError(f"there is no baseline {name!r}{meant(name, CATALOGUE)}")
    return CATALOGUE[name](setting)
