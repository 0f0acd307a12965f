"""What the slots of a stream ask, whichever way its budget is kept: prices.

* `Listed`: the price list of `prices`, which follows the public transcript.
* `Costly`: every slot costs the same until an account is empty (`Ledger(per_slot=…)`, and spend-first with one
  payment). Users who have nothing left are active and not measured: the measurement is partial.
* `Shrinking`: a converging series, paid by everybody in every slot without accounts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from dpi.estimator import HISTOGRAMS
from dpi.estimator.prices import (
    TOP,
    Floats,
    Options,
    ReleasedActivity,
    Wholes,
    opening,
    write_list,
)

UNPAID = 1e-7
"""The price of a histogram that is never measured."""


class Asked(NamedTuple):
    """What a slot asks."""

    prices: Floats
    """The part of ε that a user of each histogram pays, or would if it were due."""
    due: Floats


class Budget(Protocol):
    """How a stream's budget is spent: public."""

    accounts: bool
    """Whether a payment lessens what a user has left."""
    partial: bool
    """Whether accounts may be empty."""

    def histogram(self) -> Wholes:
        """Return the histogram of users with 0, 1, … `TOP` payments."""

    def ask(self, slot: int) -> Asked:
        """Return what a slot asks."""

    def hear(self, newcomers: float, returning: float) -> None:
        """Hear the released numbers of users of the slot."""


@dataclass
class Listed:
    """A price list, written anew whenever the stream is a tenth longer."""

    bins: int
    epsilon: float
    options: Options = field(default_factory=Options)
    accounts = True
    partial = False

    def __post_init__(self) -> None:
        self.released, self.list, self._next = ReleasedActivity(), opening(self.bins, self.epsilon, self.options), 1

    def histogram(self) -> Wholes:
        """Return the histogram of users with 0, 1, … `TOP` payments."""
        return self.list.histogram()

    def ask(self, slot: int) -> Asked:
        """Return what the list asks."""
        due = self.list.prices > 0
        return Asked(np.where(due, self.list.prices, UNPAID), due.astype(float))

    def hear(self, newcomers: float, returning: float) -> None:
        """Write the list anew if it is time."""
        self.released = self.released.add_slot(newcomers, returning, float(self.list.prices[0]))
        if self.released.slots >= self._next:
            self._next = int(self._next * 1.1) + 1
            self.list = write_list(self.released, self.bins, self.epsilon, self.options)


@dataclass
class Costly:
    """The same cost in every slot: `payments` of them use an account up."""

    payments: int
    accounts = True
    partial = True

    def histogram(self) -> Wholes:
        """Return 0 for users who can pay, 1 for those who cannot."""
        return (np.arange(TOP + 1) >= self.payments).astype(np.int64)

    def ask(self, slot: int) -> Asked:
        """Return the cost, of all who can pay it."""
        return Asked(np.r_[1 / self.payments, np.full(HISTOGRAMS - 1, UNPAID)], np.eye(HISTOGRAMS)[0])

    def hear(self, newcomers: float, returning: float) -> None:
        """Hear nothing."""


@dataclass
class Shrinking:
    """Elements of a converging series, (slot + begin)^-power: everybody pays the same in a slot."""

    power: float
    begin: float
    accounts = False
    partial = False

    def __post_init__(self) -> None:
        self._sum = float((np.arange(100_000) + self.begin) ** -self.power @ np.ones(100_000)) * 1.1

    def histogram(self) -> Wholes:
        """Return one histogram for all."""
        return np.zeros(TOP + 1, dtype=np.int64)

    def ask(self, slot: int) -> Asked:
        """Return the element."""
        price = (slot + self.begin) ** -self.power / self._sum
        return Asked(np.r_[price, np.full(HISTOGRAMS - 1, UNPAID)], np.eye(HISTOGRAMS)[0])

    def hear(self, newcomers: float, returning: float) -> None:
        """Hear nothing."""


def draw_budget(seed: int, bins: int, epsilon: float) -> Budget:
    """Return a budget at random: for three of four seeds a price list, around the default."""
    rng = np.random.default_rng([seed, 53])
    kind = rng.random()
    if kind < 0.1:
        return Costly(int(np.exp(rng.uniform(0, np.log(TOP)))))
    if kind < 0.18:
        return Shrinking(float(rng.uniform(1.1, 2)), float(np.exp(rng.uniform(0, 4))))
    if kind < 0.5:
        return Listed(bins, epsilon)
    horizon = float(np.exp(rng.uniform(np.log(10), np.log(1000)))) if rng.random() < 0.2 else None
    options = Options(
        stretch=float(np.exp(rng.uniform(-1.4, 1.1))),
        horizon=horizon,
        first=float(np.exp(rng.uniform(np.log(0.05), np.log(0.5)))),
        width=int(rng.integers(2, 7)),
        wider=int(rng.integers(3, 9)),
        often=float(np.exp(rng.uniform(-0.5, 1.5))),
    )
    return Listed(bins, epsilon, options)
