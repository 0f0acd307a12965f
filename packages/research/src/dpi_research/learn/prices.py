"""The price list: what a slot asks of each class of users, in the ledger's own terms, from few released numbers.

The ledger knows a user by the number m of payments so far, at most `TOP`, and asks a class for a share of what its
users have left, in steps of 2^-12 (`dpi.budget.classes`). The list keeps to these rules as they are: 41 classes,
today's steps, no new proof. A user who stays pays (s + x)^-1.7 of ε after s slots of their own, where x is the
*stretch*. Shares are set so that users of one histogram pay alike: the price of a histogram over what a class is
expected to have left.

* Newcomers pay F(1)/F(1 + V), at most .85, where V is how many visits follow a first one.
* Returning users pay a *trickle* in every slot and more in a *poll*, one of 2^`wait` slots by the public clock.
  `split` is the part that polls take.
* Class `TOP` takes all further payments. Its share follows the age of the stream, since nobody knows theirs.

V, and λ (users per bin), come from noisy totals: `Heard` keeps them, and a list is written anew whenever a stream is a
tenth longer, so that prices change slowly. A function of the public transcript: sees no account and no user.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dpi_research.learn.clock import level

Floats = npt.NDArray[np.floating[Any]]
Wholes = npt.NDArray[np.int64]

TOP, STEPS, HISTOGRAMS = 40, 1 << 12, 4
DECAY, MOST, RETURNING = 1.7, 0.85, 0.5
"""The power of payments; no newcomer and no returning user is asked for a larger share."""
FADE, YOUNG = 0.9, 10.0
"""How fast released numbers are forgotten, and after how many slots half of those who return are seen to: guesses."""


@dataclass(frozen=True)
class Options:
    """What a search over lists may choose; the defaults are those of ESTIMATOR §4."""

    stretch: float = 1.0
    """Times max(.3, .88·(λε)^.6 - 2) slots."""
    horizon: float | None = None
    """The stretch itself, in slots, where it is declared."""
    split: float = 0.0
    """Added to the part of polls that follows from the signal."""
    waits: int = 0
    """Added to the logarithm of the wait."""
    first: float = 0.2
    """What users of the first slot pay, of whom nothing is known."""
    width: int = 4
    """The number of classes in the second histogram; the third has four times as many."""


@dataclass(frozen=True)
class PriceList:
    """Shares of each class in trickle slots and in polls, in steps of 2^-12, and what users are expected to pay."""

    trickle: Wholes
    poll: Wholes
    left: Floats
    """What a user of each class is expected to have left, as a part of ε."""
    edges: tuple[int, ...]
    """The first class of each histogram."""
    wait: int
    """A slot of each aligned block of 2^wait is a poll."""

    def shares(self, slot: int) -> Floats:
        """Return the share of what is left that each class pays in a slot; zero if it is not due."""
        return (self.poll if level(slot, self.wait) >= self.wait else self.trickle) / STEPS

    def histogram(self) -> Wholes:
        """Return the histogram in which each class is measured."""
        return np.searchsorted(np.array(self.edges), np.arange(TOP + 1), side="right") - 1

    def prices(self, slot: int) -> Floats:
        """Return the part of ε that a user of each histogram is expected to pay in a slot; zero if it is not due."""
        paid = self.shares(slot) * self.left
        last = np.r_[np.array(self.edges[1:]) - 1, TOP]
        return np.asarray(paid[last])


@dataclass(frozen=True)
class Heard:
    """What noisy totals told so far."""

    first: float = 0.0
    """Users of the first slot."""
    newcomers: float = 0.0
    returning: float = 0.0
    """Of the last slots: each counts `FADE` times as much as the next."""
    weight: float = 0.0
    came: float = 0.0
    """All newcomers so far …"""
    paid: float = 0.0
    """… and what they were asked for together, as a part of ε."""
    slots: int = 0

    def hear(self, newcomers: float, returning: float, share: float) -> Heard:
        """Return what is known after another slot, which asked newcomers for a share."""
        newcomers, returning = max(newcomers, 0.0), max(returning, 0.0)
        if not self.slots:
            first = max(newcomers, 1.0)
            return Heard(first=first, came=first, paid=first * share, slots=1)
        return replace(
            self,
            newcomers=FADE * self.newcomers + newcomers,
            returning=FADE * self.returning + returning,
            weight=FADE * self.weight + 1,
            came=self.came + newcomers,
            paid=self.paid + newcomers * share,
            slots=self.slots + 1,
        )

    @property
    def users(self) -> float:
        """The mean number of active users in the last slots."""
        return max((self.newcomers + self.returning) / self.weight if self.weight else self.first, 1.0)

    @property
    def visits(self) -> float:
        """V: returning users for each newcomer. A young stream has not seen many of them return yet."""
        prior = self.first / 4 * FADE**self.slots + 1
        ratio = (self.returning + 3 * prior) / (self.newcomers + prior)
        return float(np.clip(ratio * (1 + YOUNG / max(self.slots, 1)), 0.01, 1e4))

    @property
    def entry(self) -> float:
        """What a user has paid for a first visit, on average, as a part of ε."""
        return self.paid / self.came


def opening(options: Options) -> PriceList:
    """Return the list of the first slot: only newcomers are there."""
    shares = np.zeros(TOP + 1, dtype=np.int64)
    shares[0] = max(1, round(options.first * STEPS))
    return PriceList(shares, shares, np.ones(TOP + 1), _edges(options), 0)


def write_list(heard: Heard, bins: int, epsilon: float, options: Options) -> PriceList:
    """Return the list that follows from what was released."""
    signal = heard.users / bins * epsilon
    stretch = options.horizon or max(0.3, 0.88 * signal**0.6 - 2) * options.stretch
    wait = int(np.clip(3 - int(np.searchsorted([30, 300, 3000], signal)) + options.waits, 0, 4))
    afforded = signal * 0.4 / (stretch + 1)
    split = float(np.clip(0.5 - 0.5 * np.log10(max(afforded, 1e-9) / 3) + options.split, 0, 1)) if wait else 0.0
    if split > 0.9:
        split = 1.0  # so little would tell nothing in between
    apart = 1 << wait if split == 1 else 1  # own slots between two payments
    own = np.r_[0.0, 1.0 + np.arange(TOP + 1) * apart]
    typical = own[TOP] + 0.35 * max(heard.slots - own[TOP], 0)  # own slots of a user of the top class: a guess
    pay = np.diff(1 - (stretch / (own + stretch)) ** (DECAY - 1))
    kept = (stretch / (typical + stretch)) ** (DECAY - 1)
    hazard = apart * (DECAY - 1) / (typical + stretch)
    edges = _edges(options)
    for first, end in itertools.pairwise(edges):
        pay[first:end] = pay[first:end].mean()
    pay[edges[-1] :] = hazard * kept if heard.slots > own[TOP] else pay[edges[-1] :].mean()
    first_mass = float(pay[0])
    first_pay = _newcomers(heard.visits, stretch, float(pay[0]))
    before = heard.entry
    pay[1:] *= (1 - before) / (1 - pay[0])
    left = np.r_[1.0, 1 - before - np.r_[0.0, np.cumsum(pay[1:TOP])]]
    left[TOP] = (1 - before) / (1 - first_mass) * kept
    share = pay / left
    both = [(1 - split) * share, share * ((1 - split) + split * (1 << wait) / apart)]
    steps = [np.clip(np.round(np.minimum(part, RETURNING) * STEPS), 1, STEPS).astype(np.int64) for part in both]
    if split == 1:
        steps[0][:] = 0
    for part in steps:
        part[0] = max(1, round(first_pay * STEPS))
    return PriceList(steps[0], steps[1], left, edges, wait)


def _newcomers(visits: float, stretch: float, least: float) -> float:
    spread = 1 - (stretch / (np.array([1.0, 1 + visits]) + stretch)) ** (DECAY - 1)
    return float(np.clip(spread[0] / spread[1], least, MOST))


def _edges(options: Options) -> tuple[int, ...]:
    return 0, 1, 1 + options.width, 1 + 5 * options.width
