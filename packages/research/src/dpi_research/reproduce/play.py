"""The systems that are evaluated, at the same total ε, and crowds of any size that are played to them.

`strict` is the published mechanism with its coefficient from the budget and sensitivity 2, on the published series in
order; `converging` is the boosted mechanism on a converging series; `ledger` is what a user gets who says nothing of
budgets, the boosted mechanism with `Ledger()`.

A slot of ten million users need not list them. Users who came in the same slot and were active ever since have the same
account and the same number of payments, so that the ledger can bill a cohort as if it were one user, by class or not;
and if values are dealt to users at random, the values of some of them are a draw without replacement from the slot's
counts. The releases have the same law as those of a `Stream` that sees every user, but for cohorts of a class that
hardly pay any more, which count as one: the slot is closed by the same steps (`dpi.stream.closing`). Made-up data alone
is played like this: it knows the counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from dpi.budget import Converging, Ledger
from dpi.budget.accounts import Accounts
from dpi.budget.epsilon import Amount
from dpi.budget.series import LogSquared, Spence
from dpi.domain import Categories, Domain
from dpi.errors import OptionError
from dpi.exact.integers import GRAINS, Integers
from dpi.histogram.compression import finish
from dpi.mechanism.boosted import Boosted
from dpi.mechanism.published import Published
from dpi.mechanism.published.pool import Multinomial
from dpi.noise import UnsafeSeededSource
from dpi.release import Release
from dpi.stream import Stream
from dpi.stream.closing import Offer, measure, release_slot
from dpi.stream.state import StreamState
from dpi_research.datasets.generators import Counts
from dpi_research.evaluation import Floats, divergence

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


def published_mechanism(hyper: Hyper) -> Published:
    """Algorithm 1, calibrated: sensitivity 2, dyadic queries whose answers are computed once, 20 draws."""
    return Published(Multinomial(POOL, PRECISION), lam=hyper.lam, mu=hyper.mu)


def open_stream(
    system: System,
    domain: Domain,
    epsilon: Amount,
    *,
    seed: int,
    hyper: Hyper | None = None,
    ledger: Ledger | None = None,
    boosted: Boosted | None = None,
    published: Published | None = None,
) -> Stream:
    """A stream of one of the systems.

    `hyper` is for the published mechanism; `boosted` and `published` stand for the mechanisms.
    """
    if system not in SYSTEMS:
        raise OptionError(f"`system` must be one of {', '.join(SYSTEMS)}. Got {system!r}.")
    hyper = hyper or Hyper()
    mechanism = published or published_mechanism(hyper) if system == "strict" else boosted or Boosted()
    budgets: dict[System, Ledger | Converging] = {
        "strict": Converging(Spence(hyper.mu, hyper.zeta)),
        "converging": Converging(LogSquared()),
        "ledger": ledger or Ledger(),
    }
    return seeded_stream(domain, epsilon, mechanism, budgets[system], seed)


def seeded_stream(
    domain: Domain, epsilon: Amount, mechanism: Boosted | Published, budget: Ledger | Converging, seed: int
) -> Stream:
    """A stream whose noise is seeded, which is for evaluations alone."""
    source = UnsafeSeededSource(seed)
    return Stream(domain=domain, epsilon=epsilon, mechanism=mechanism, budget=budget, unsafe_source=source)  # type: ignore[arg-type]


def own_seed(*options: object) -> int:
    """A seed for the noise of one run. Runs that share their noise make the same choices, and look alike by that alone.

    >>> own_seed("strict", 0.1) != own_seed("strict", 0.2)
    True
    """
    return int.from_bytes(hashlib.sha256(repr(options).encode()).digest()[:6])


LEAST = GRAINS >> 6
"""Cohorts of a smaller weight count as one, with their mean weight: together they hardly count."""


class Cohorts:
    """How many users came in which slot. In every slot a share `churn` of them is replaced by newcomers.

    >>> cohorts = Cohorts(churn=1.0, rng=np.random.default_rng(0))
    >>> for users in (100, 90): cohorts.step(users)
    >>> cohorts.births.tolist(), cohorts.sizes.tolist()
    ([1], [90])
    """

    def __init__(self, churn: float, rng: np.random.Generator) -> None:
        if not 0 <= churn <= 1:
            raise OptionError(f"`churn` must be between 0 and 1. Got {churn}.")
        self._churn, self._rng = churn, rng
        self.births: Integers = np.empty(0, dtype=np.int64)
        self.sizes: Integers = np.empty(0, dtype=np.int64)
        self._slot = 0

    @property
    def ids(self) -> pl.Series:
        """The cohorts as if each were one user."""
        return pl.Series([str(birth) for birth in self.births], dtype=pl.String)

    def step(self, users: int) -> None:
        """The next slot has so many users: some leave, newcomers take their places and those that are new."""
        stay = self.sizes - self._rng.binomial(self.sizes, self._churn)
        if stay.sum() > users:
            stay = without_replacement(stay, users, self._rng)
        newcomers = users - int(stay.sum())
        some = stay > 0
        self.births, self.sizes = self.births[some], stay[some]
        if newcomers:
            self.births, self.sizes = np.append(self.births, self._slot), np.append(self.sizes, newcomers)
        self._slot += 1


def without_replacement(counts: Integers, size: int, rng: np.random.Generator) -> Integers:
    """Counts of so many drawn without replacement: marginals for few of many, exact for numbers of any size.

    numpy's own sampler refuses 10⁹ and more, which no slot here has.
    """
    return rng.multivariate_hypergeometric(counts, size, method="marginals").astype(np.int64)


class Played:
    """A stream that is shown the counts of a crowd, slot after slot.

    With a converging budget everybody pays in every slot; with a ledger, those who have something left and, where users
    are measured by class, whose class is due.
    """

    def __init__(self, stream: Stream, *, churn: float = 0.0, seed: int = 0) -> None:
        setting = stream.setting
        policy = setting.policy
        self._accounts = None if policy is None else Accounts(setting.epsilon, key=bytes(32), policy=policy)
        self._source = UnsafeSeededSource(seed)
        self._state = StreamState.initial(setting, self._source)
        self._allocation = setting.allocation()
        self._rng = np.random.default_rng([seed, 2])
        self._cohorts = Cohorts(churn, self._rng)
        self._slot = 0
        self.paid: tuple[float, ...] = ()
        """What the last slot's users have paid to each class that was due, over all of them on average; to one class,
        if users are not measured by class."""

    def release(self, counts: Integers) -> Release:
        """Close a slot with these counts, one for each active user."""
        offer = Offer.draw(self._state, self._allocation, self._slot, self._source)
        self._cohorts.step(int(counts.sum()))
        clean = finish(self._grains(counts, offer), self._state.setting.compression, offer.histograms)
        made = release_slot(self._state, measure(self._state, clean, offer, self._slot, self._source), "")
        self._allocation.observe(made.users, made.bins, made.drift)
        self._state = made.state
        self._slot += 1
        return made.release

    def remaining(self) -> tuple[npt.NDArray[np.float64], Integers]:
        """What is left on the accounts of the last slot's users, cohort by cohort, and how many users a cohort has."""
        if self._accounts is None:
            raise OptionError("a converging budget keeps no accounts.")
        left = self._accounts.remaining(self._cohorts.ids, self._slot - 1)
        return np.array([float(amount) for amount in left]), self._cohorts.sizes

    def _grains(self, counts: Integers, offer: Offer) -> Integers:
        """The weighted histograms of the slot, one after the other if users are measured by class."""
        if self._accounts is None:
            self.paid = (float(offer.epsilon),)
            return counts * GRAINS
        cohorts, accounts = self._cohorts, self._accounts
        whole, stream = self._state.setting.whole_weights, self._state.setting.name
        bill = accounts.bill(
            cohorts.ids, offer.epsilon, self._slot, share=offer.share, whole=whole, stream=stream, groups=offer.groups
        )
        accounts.debit(bill)
        group_index = np.zeros_like(bill.weights) if bill.group_index is None else bill.group_index
        costs = [group.epsilon for group in offer.groups] or [offer.epsilon]
        users = max(1, int(cohorts.sizes.sum()))
        total, rest, paid = np.zeros((offer.histograms, counts.size), dtype=np.int64), counts, []
        for row, cost in enumerate(costs):
            here = group_index == row
            weights, sizes = bill.weights[here], cohorts.sizes[here]
            paid.append(float(cost) * float(weights @ sizes) / (GRAINS * users))
            for weight, size in _together(weights, sizes):
                drawn = rest if size == rest.sum() else without_replacement(rest, size, self._rng)
                total[row] += weight * drawn
                rest = rest - drawn
        self.paid = tuple(paid)
        return total.ravel()


def _together(weights: Integers, sizes: Integers) -> list[tuple[int, int]]:
    """Weights and how many users have them, the heaviest first; those who are light count as one.

    >>> _together(np.array([GRAINS, 0, GRAINS, 5, 8]), np.array([3, 9, 4, 1, 2]))
    [(16777216, 7), (7, 3)]
    """
    light = (weights < LEAST) & (weights > 0)
    groups = {int(w): int(sizes[weights == w].sum()) for w in np.unique(weights[weights >= LEAST])[::-1]}
    if light.any():
        users = int(sizes[light].sum())
        groups[int(weights[light] @ sizes[light]) // users] = users
    return list(groups.items())


Reference = Literal["truth", "uniform"]
"""Releases that no system makes: the truth itself, and the guess that all bins are alike."""


@dataclass(frozen=True, eq=False)
class Pair:
    """A PDF and what was released of it."""

    truth: Floats
    released: Floats

    @property
    def mse(self) -> float:
        """The mean over bins of (p - q)²."""
        return float(((self.truth - self.released) ** 2).mean())

    @property
    def kl(self) -> float:
        """KL(truth ‖ released), in nats."""
        return divergence(self.truth, self.released)

    @property
    def errors(self) -> tuple[float, float]:
        """MSE and KL."""
        return self.mse, self.kl


@dataclass(frozen=True, eq=False)
class Moment:
    """A slot that was played: its own PDF (instantaneous) and that of all slots so far (accumulative)."""

    users: int
    """Of the slot."""
    own: Pair
    accumulated: Pair
    spent: float
    """The most that any one user can have lost so far."""

    @property
    def errors(self) -> dict[str, float]:
        """Of both PDFs, by the name of the column."""
        own, accumulated = self.own, self.accumulated
        return {"mse": own.mse, "kl": own.kl, "accumulated_mse": accumulated.mse, "accumulated_kl": accumulated.kl}


def follow(
    system: System | Reference, data: Counts, bins: int, epsilon: Amount, *, churn: float, seed: int
) -> Iterator[Moment]:
    """Play the counts; the truth of a slot is its own PDF, not the one that it was drawn from.

    >>> from dpi_research.datasets.generators import published
    >>> data = published(np.random.default_rng(0), slots=2, bins=3)
    >>> [round(moment.own.kl, 4) for moment in follow("truth", data, 3, 1, churn=0.0, seed=0)]
    [0.0, 0.0]
    """
    played = None
    if system != "truth" and system != "uniform":
        stream = open_stream(system, Categories(range(bins), other=None), epsilon, seed=seed)
        played = Played(stream, churn=churn, seed=seed)
    even, sums = np.full(bins, 1 / bins), np.zeros(bins, dtype=np.int64)
    for counts, _ in data:
        users = int(counts.sum())
        sums += counts
        own, accumulated, spent = counts / users, sums / sums.sum(), 0.0
        released = (own, accumulated) if system == "truth" else (even, even)
        if played is not None:
            release = played.release(counts)
            released, spent = (release.pdf, release.accumulated), release.epsilon_spent
        yield Moment(users, Pair(own, released[0]), Pair(accumulated, released[1]), spent)
