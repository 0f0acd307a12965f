"""The baselines by name, set up from public facts alone, and the documentation's table of them."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from dpi.budget.epsilon import Amount, rational
from dpi.errors import OptionError, meant
from dpi.noise import RandomSource
from dpi_research.baselines.base import Baseline, check_count
from dpi_research.baselines.boosting import QueryBoosting
from dpi_research.baselines.counters import Binary, Hybrid, Logarithmic, RangeCounter
from dpi_research.baselines.honaker import Honaker, KeySelection
from dpi_research.baselines.ldp_ids import LBA, LBD, LBU, LPA, LPD, LPU, LSP, LdpIds
from dpi_research.baselines.pegasus import Pegasus
from dpi_research.baselines.perrier import Perrier
from dpi_research.baselines.plain import Demo, NoisyHistogram
from dpi_research.baselines.sampling import Fast, RescueDP
from dpi_research.baselines.spirits import CgmSpirit, DongSpirit
from dpi_research.baselines.thresh import Thresh
from dpi_research.baselines.topl import ToPL
from dpi_research.baselines.tops import ToPS
from dpi_research.baselines.w_event import BudgetAbsorption, BudgetDistribution
from dpi_research.baselines.wrappers import PerBin


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
        for name in ("slots", "largest", "rows"):
            check_count(getattr(self, name), name)

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


class Entry(NamedTuple):
    """A mechanism, and the options that public facts give it beside ε and the bins."""

    mechanism: type[Baseline]
    options: Callable[[PublicFacts], dict[str, Any]]
    per_bin: bool = False
    """Whether it counts one bin, so that each bin has a copy."""

    def make(self, facts: PublicFacts) -> Baseline:
        """Set the mechanism up."""
        shared: dict[str, Any] = {"epsilon": facts.epsilon, "bins": facts.bins, "unsafe_source": facts.unsafe_source}
        if self.per_bin:
            return PerBin(**shared, mechanism=self.mechanism(epsilon=facts.epsilon, **self.options(facts)))
        return self.mechanism(**{**shared, **self.options(facts)})


def _plain(mechanism: type[Baseline], *declared: str) -> Entry:
    """A mechanism that wants to know these of the facts."""
    return Entry(mechanism, lambda facts: {name: getattr(facts, name) for name in declared})


def _prefixed(mechanism: type[Baseline], options: Callable[[PublicFacts], dict[str, Any]]) -> Entry:
    """A mechanism that learns a threshold from the prefix."""

    def every(facts: PublicFacts) -> dict[str, Any]:
        return {"slots": facts.released, "prefix": facts.prefix, "largest": facts.largest, **options(facts)}

    return Entry(mechanism, every, per_bin=True)


def _ldp(mechanism: type[LdpIds]) -> Entry:
    return Entry(mechanism, lambda facts: {"users": max(facts.rows, 2 * facts.window), "window": facts.window})


def _boosting(facts: PublicFacts) -> dict[str, Any]:
    def cost(rounds: int) -> Fraction:
        return QueryBoosting(epsilon=1024, bins=facts.bins, rows=facts.rows, rounds=rounds, sample=10).sample_epsilon

    # One round draws from uniform weights and costs nothing; more rounds where ε and n pay for them.
    affordable = (rounds for rounds in (5, 3, 2) if 2 * cost(rounds) <= rational(facts.epsilon))
    return {"rows": facts.rows, "rounds": next(affordable, 1), "sample": 10}


def _thresh(facts: PublicFacts) -> dict[str, Any]:
    epochs = max(4, -(-facts.slots // 2000))
    return {"users": max(1000, facts.rows), "epochs": epochs, "length": -(-facts.slots // epochs)}


CATALOGUE: dict[str, Entry] = {
    "binary": _plain(Binary, "slots"),
    "hybrid": _plain(Hybrid),
    "logarithmic": _plain(Logarithmic),
    "ranges": _plain(RangeCounter),
    "pegasus": _plain(Pegasus),
    # δ = 1/T² as published, but never above 10^-6: at a few slots it would promise little.
    "perrier": _prefixed(Perrier, lambda facts: {"threshold_delta": min(1e-6, 1 / facts.released**2)}),
    "tops": _prefixed(ToPS, lambda _: {"dropped": 0}),
    "topl": _prefixed(ToPL, lambda _: {"grid": 128}),
    "boosting": Entry(QueryBoosting, _boosting),
    "noisy": _plain(NoisyHistogram),
    "demo": Entry(Demo, lambda _: {"epsilon": 1}),
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
    "thresh": Entry(Thresh, _thresh),
    "cgm-spirit": Entry(
        CgmSpirit, lambda s: {"largest": s.largest, "step": max(1, s.largest // 20), "period": s.window}
    ),
    "dong-spirit": _plain(DongSpirit),
    "honaker": _plain(Honaker, "slots"),
    "dp-sqlp": _plain(KeySelection, "slots"),
}
"""Every mechanism that can release histograms, by name."""


def baseline(name: str, facts: PublicFacts) -> Baseline:
    """Return a mechanism by name.

    >>> baseline("hybrid", PublicFacts(epsilon=1, bins=3, slots=100))
    Hybrid(epsilon=1, bins=3)
    """
    if name not in CATALOGUE:
        raise OptionError(f"there is no baseline {name!r}{meant(name, CATALOGUE)}")
    return CATALOGUE[name].make(facts)


_COLUMNS = {
    "source": "source",
    "releases": "releases",
    "unit": "protected with ε",
    "horizon": "horizon",
    "delta": "δ",
    "user_loss": "loss of a user, c records in each of t slots",
    "variance": "variance of a release",
    "memory": "memory",
    "reconstructed": "changed or reconstructed",
}


def facts_csv() -> str:
    """Return what is public about every mechanism as CSV: what it protects, releases and costs.

    >>> facts_csv().splitlines()[1].split(",")[0]
    'Binary'
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["mechanism", *_COLUMNS.values()])
    for mechanism, *_ in CATALOGUE.values():
        writer.writerow([mechanism.__name__, *(getattr(mechanism.facts, column) for column in _COLUMNS)])
    return out.getvalue()
