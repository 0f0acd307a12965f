"""The price list: what a slot asks of its users, one price for each histogram, from few released numbers.

A user is known by the number m of payments so far, counted up to `TOP`, which says in which histogram a value is
measured. **Everybody in a histogram pays its price**, or `MOST` of what is left where that is less: totals then tell
numbers of users exactly, up to noise (`dpi.budget.classes.Priced`).

A user who stays pays (s + x)^-1.7 of ε after s slots of their own, where x is the *stretch*.

* Newcomers pay F(1)/F(1 + V), at most .85, where V is how many visits follow a first one.
* Returning users pay in every slot.
* The last histogram takes all further payments. Its price follows the age of the stream.

V, and λ (users per bin), come from released numbers of users: `ReleasedActivity` keeps them, and a list is written anew
whenever a stream is a tenth longer, so that prices change slowly. A function of the public transcript: sees no account,
no user.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dpi.estimator._weights import HISTOGRAMS

Floats = npt.NDArray[np.floating[Any]]
Wholes = npt.NDArray[np.int64]

TOP = 40
DECAY, DEAREST, MOST = 1.7, 0.85, 0.5
"""The power of payments; newcomers' highest price; the part of what is left that a returning user pays at most."""
PRESUMED = 3000.0
"""Users of the first slot, before any was counted: the middle, in logarithms, of sizes from ten to a million."""
FADE, YOUNG = 0.9, 10.0
"""How fast released numbers are forgotten, and after how many slots half of those who return are seen to: guesses."""


@dataclass(frozen=True)
class Options:
    """What a search over lists may choose. The defaults were compared on simulated worlds (docs/research-log.md)."""

    stretch: float = 0.6
    """Times max(.3, .88·(λε)^.6 - 2) slots."""
    horizon: float | None = None
    """The stretch itself, in slots, where it is declared."""
    first: float = 0.15
    """What users of the first slot pay at least: their number is not known, and what `PRESUMED` users would pay may
    tell nothing of few."""
    width: int = 4
    """How many payments the second histogram takes; the third takes `wider` times as many."""
    wider: int = 8
    often: float = 2.0
    """How many times as often as the mean user those of the last histogram are presumed to come, but once a slot."""


@dataclass(frozen=True)
class PriceList:
    """What a user of each histogram pays in a slot, as a part of ε."""

    prices: Floats
    edges: tuple[int, ...]
    """The fewest payments of users of each histogram."""

    def histogram(self) -> Wholes:
        """Return the histogram of users with 0, 1, … `TOP` payments."""
        return np.searchsorted(np.array(self.edges), np.arange(TOP + 1), side="right") - 1


def pay(price: Floats, left: Floats, histogram: Wholes) -> Floats:
    """Return what users with so much left pay of a price: all of it, or as much as is affordable."""
    return np.asarray(np.minimum(price, np.where(histogram > 0, MOST * left, left)))


@dataclass(frozen=True)
class ReleasedActivity:
    """What released numbers of users told so far."""

    first: float = 0.0
    """Users of the first slot."""
    newcomers: float = 0.0
    returning: float = 0.0
    """Of the last slots: each counts `FADE` times as much as the next."""
    weight: float = 0.0
    came: float = 0.0
    """All newcomers so far."""
    entry: float = 0.0
    """What newcomers were asked for lately, as a part of ε: it rises at once and falls slowly, so that most of them can
    pay what is asked later."""
    slots: int = 0

    def add_slot(self, newcomers: float, returning: float, share: float) -> ReleasedActivity:
        """Return what is known after another slot, which asked newcomers for a share."""
        newcomers, returning = max(newcomers, 0.0), max(returning, 0.0)
        if not self.slots:
            first = max(newcomers, 1.0)
            return ReleasedActivity(first=first, came=first, entry=share, slots=1)
        return replace(
            self,
            newcomers=FADE * self.newcomers + newcomers,
            returning=FADE * self.returning + returning,
            weight=FADE * self.weight + 1,
            came=self.came + newcomers,
            entry=max(share, self.entry + (1 - FADE) * (share - self.entry)),
            slots=self.slots + 1,
        )

    @property
    def users(self) -> float:
        """The mean number of active users in the last slots."""
        return max((self.newcomers + self.returning) / self.weight if self.weight else self.first, 1.0)

    @property
    def rate(self) -> float:
        """How often a user came so far, on average: active users over all there ever were."""
        return min(self.users / self.came, 1.0)

    @property
    def visits(self) -> float:
        """V: returning users for each newcomer. A young stream has not seen many of them return yet."""
        prior = self.first / 4 * FADE**self.slots + 1
        ratio = (self.returning + 3 * prior) / (self.newcomers + prior)
        return float(np.clip(ratio * (1 + YOUNG / max(self.slots, 1)), 0.01, 1e4))


def opening(bins: int, epsilon: float, options: Options) -> PriceList:
    """Return the list of the first slot: only newcomers are there, and nobody knows how many."""
    stretch = _stretch(PRESUMED / bins * epsilon, options)
    first = min(max(1 - (stretch / (1 + stretch)) ** (DECAY - 1), options.first), DEAREST)
    return PriceList(np.r_[first, np.zeros(HISTOGRAMS - 1)], _edges(options))


def _stretch(signal: float, options: Options) -> float:
    """Return the stretch for so many users per bin, times ε."""
    return options.horizon or max(0.3, 0.88 * signal**0.6 - 2) * options.stretch


def write_list(released: ReleasedActivity, bins: int, epsilon: float, options: Options) -> PriceList:
    """Return the list that follows from what was released."""
    stretch, edges = _stretch(released.users / bins * epsilon, options), _edges(options)
    own = np.r_[0.0, edges[1:]].astype(float)  # own slots of a user who enters a histogram
    unpaid = (stretch / (np.r_[own, own[-1] + 1] + stretch)) ** (DECAY - 1)
    price = (unpaid[:-1] - unpaid[1:]) / np.diff([*edges, edges[-1] + 1])
    older = own[-1] + min(options.often * released.rate, 1.0) * max(released.slots - own[-1], 0)
    price[-1] = (DECAY - 1) / (older + stretch) * (stretch / (older + stretch)) ** (DECAY - 1)
    price[1:] *= (1 - released.entry) / (1 - price[0])
    price[0] = _newcomers(released.visits, stretch, float(price[0]))
    return PriceList(price, edges)


def _newcomers(visits: float, stretch: float, least: float) -> float:
    spread = 1 - (stretch / (np.array([1.0, 1 + visits]) + stretch)) ** (DECAY - 1)
    return float(np.clip(spread[0] / spread[1], least, DEAREST))


def _edges(options: Options) -> tuple[int, ...]:
    return 0, 1, 1 + options.width, min(1 + (1 + options.wider) * options.width, TOP)
