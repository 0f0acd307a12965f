"""What the slots of a stream ask, whichever way its budget is kept: shares of what is left, by class, and prices.

* `Listed`: the price list of `prices`, which follows the public transcript.
* `Costly`: every slot costs the same until an account is empty (`Ledger(per_slot=…)`, and spend-first with one
  payment). Users who have nothing left are active and not measured: the measurement is partial.
* `Shrinking`: a converging series, paid by everybody in every slot without accounts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from dpi_research.learn.prices import (
    HISTOGRAMS,
    STEPS,
    TOP,
    Floats,
    Heard,
    Options,
    PriceList,
    Wholes,
    opening,
    write_list,
)

UNPAID = 1e-7
"""The price of a histogram that is never measured."""


class Asked(NamedTuple):
    """What a slot asks."""

    shares: Floats
    """The part of what is left that a user of each class pays; zero if the class is not due."""
    prices: Floats
    """The part of ε that a user of each histogram is expected to pay, or would if it were due."""
    due: Floats


class Budget(Protocol):
    """How a stream's budget is spent: public."""

    accounts: bool
    """Whether a payment lessens what a user has left."""
    partial: bool
    """Whether accounts may be empty."""

    def histogram(self) -> Wholes:
        """Return the histogram of each class."""

    def ask(self, slot: int) -> Asked:
        """Return what a slot asks."""

    def hear(self, newcomers: float, returning: float | None) -> None:
        """Hear the noisy totals of the slot; None where returning users were not due."""


@dataclass
class Listed:
    """Shares by a price list, written anew whenever the stream is a tenth longer."""

    bins: int
    epsilon: float
    options: Options = field(default_factory=Options)
    accounts = True
    partial = False

    def __post_init__(self) -> None:
        self.heard, self.list, self._last, self._next = Heard(), opening(self.options), 0.0, 1

    def histogram(self) -> Wholes:
        """Return the histogram of each class."""
        return self.list.histogram()

    def ask(self, slot: int) -> Asked:
        """Return what the list asks."""
        prices, shares = self.list.prices(slot), self.list.shares(slot)
        due = prices > 0
        return Asked(shares, np.where(due, prices, np.maximum(_in_a_poll(self.list), UNPAID)), due.astype(float))

    def hear(self, newcomers: float, returning: float | None) -> None:
        """Write the list anew if it is time."""
        self._last = self._last if returning is None else returning
        self.heard = self.heard.hear(newcomers, self._last, float(self.list.trickle[0]) / STEPS)
        if self.heard.slots >= self._next:
            self._next = int(self._next * 1.1) + 1
            self.list = write_list(self.heard, self.bins, self.epsilon, self.options)


def _in_a_poll(prices: PriceList) -> Floats:
    paid = prices.poll * prices.left / STEPS
    return np.asarray(paid[np.r_[np.array(prices.edges[1:]) - 1, TOP]])


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
        """Return 1/(n - m) of what is left of class m: the same cost for all."""
        rest = self.payments - np.arange(TOP + 1)
        shares = np.where(rest > 0, 1 / np.maximum(rest, 1), 0.0)
        return Asked(shares, np.r_[1 / self.payments, np.full(HISTOGRAMS - 1, UNPAID)], np.eye(HISTOGRAMS)[0])

    def hear(self, newcomers: float, returning: float | None) -> None:
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
        return Asked(np.full(TOP + 1, price), np.r_[price, np.full(HISTOGRAMS - 1, UNPAID)], np.eye(HISTOGRAMS)[0])

    def hear(self, newcomers: float, returning: float | None) -> None:
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
    horizon = float(np.exp(rng.uniform(np.log(10), np.log(1000)))) if rng.random() < 0.3 else None
    options = Options(
        stretch=float(np.exp(rng.uniform(-1, 2))),
        horizon=horizon,
        split=float(rng.uniform(-0.5, 0.5)),
        waits=int(rng.integers(-1, 2)),
        first=float(rng.uniform(0.1, 0.5)),
        width=int(rng.integers(2, 7)),
    )
    return Listed(bins, epsilon, options)
