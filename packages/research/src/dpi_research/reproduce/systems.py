"""The systems that are evaluated, at the same total ε: as published but strict, and boosted in two ways.

`strict` is the published mechanism with its coefficient from the budget and sensitivity 2, on the published series in
order; `converging` is the boosted mechanism on a converging series; `ledger` is what a user gets who says nothing of
budgets, the boosted mechanism with `Ledger()`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpi.budget import Converging, Ledger
from dpi.budget.epsilon import Amount
from dpi.budget.series import LogSquared, Spence
from dpi.domain import Domain
from dpi.errors import OptionError
from dpi.mechanism.base import Mechanism
from dpi.mechanism.boosted import Boosted
from dpi.mechanism.published import Published
from dpi.mechanism.published.pool import Multinomial
from dpi.noise import UnsafeSeededSource
from dpi.stream import Stream

System = Literal["strict", "converging", "ledger"]
SYSTEMS: tuple[System, ...] = ("strict", "converging", "ledger")

LABELS = {
    "truth": "true data",
    "uniform": "uniform guess",
    "popular": "popularity",
    "noisy": "noisy histogram",
    "strict": "published mechanism, strict",
    "converging": "boosted, converging",
    "ledger": "boosted, ledger",
}

POOL, PRECISION = 2_000, 10_000
"""Synopses of the public pool, and the units of probability that each of them spreads over the bins."""


@dataclass(frozen=True)
class Hyper:
    """The published hyperparameters: λ and μ of the ramp, ζ of the series."""

    lam: Amount = 0.1
    mu: Amount = 0.05
    zeta: Amount = 0.1


def published_mechanism(hyper: Hyper, *, pool: int = POOL) -> Published:
    """Algorithm 1, calibrated: sensitivity 2, dyadic queries whose answers are computed once, 20 draws."""
    return Published(Multinomial(pool, PRECISION), lam=hyper.lam, mu=hyper.mu)


def open_stream(
    system: System,
    domain: Domain,
    epsilon: Amount,
    *,
    seed: int,
    hyper: Hyper | None = None,
    ledger: Ledger | None = None,
    boosted: Boosted | None = None,
) -> Stream:
    """A stream of one of the systems; its noise is seeded, which is for evaluations alone.

    `hyper` is for the published mechanism, `boosted` stands for the boosted one.
    """
    if system not in SYSTEMS:
        raise OptionError(f"`system` must be one of {', '.join(SYSTEMS)}. Got {system!r}.")
    hyper = hyper or Hyper()
    mechanism: Mechanism[object] = published_mechanism(hyper) if system == "strict" else boosted or Boosted()  # type: ignore[assignment]
    budgets: dict[System, Ledger | Converging] = {
        "strict": Converging(Spence(hyper.mu, hyper.zeta)),
        "converging": Converging(LogSquared()),
        "ledger": ledger or Ledger(),
    }
    source = UnsafeSeededSource(seed)
    return Stream(domain=domain, epsilon=epsilon, mechanism=mechanism, budget=budgets[system], unsafe_source=source)
