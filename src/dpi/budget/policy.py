"""Policies: how much of a slot a user takes part in, by the user's own history alone.

`spend_first` and `fade` say a weight; `clocked` says when a user pays at all. Public options: they see no account.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from dpi.budget.classes import HIGHEST
from dpi.budget.epsilon import UNITS, Epsilon
from dpi.budget.series import SERIES, Series, Zeta
from dpi.errors import OptionError
from dpi.exact.integers import GRAINS, Integers
from dpi.options import Family, Option


class Policy(Option, ABC):
    """How much of a slot a user takes part in, by the number of slots they were active in before."""

    @abstractmethod
    def grains(self, active: Integers) -> Integers:
        """Return the largest weight, in grains, of a user's next active slot."""

    @property
    @abstractmethod
    def description(self) -> str:
        """The policy with all its digits, for saved state."""


POLICIES: Family[Policy] = Family("policy")


@POLICIES.member
@dataclass(frozen=True)
class SpendFirst(Policy):
    """Weight one until the account is empty.

    >>> import dpi
    >>> dpi.Ledger(per_slot="0.5", policy=spend_first).policy == spend_first
    True
    """

    kind = "spend_first"
    description = "spend_first"

    def grains(self, active: Integers) -> Integers:
        """Return 2^24, always."""
        return np.full(active.size, GRAINS, dtype=np.int64)


@POLICIES.member
@dataclass(frozen=True)
class Fade(Policy):
    """A user's j-th active slot has weight at most s_j = a_j/a₁, for a converging series a (1/j² if none is given).

    >>> (Fade(Zeta(2)).grains(np.array([0, 1, 9])) / 2**24).tolist()
    [1.0, 0.25, 0.0099999...]
    """

    series: Series = field(default_factory=lambda: Zeta(2))

    codecs = MappingProxyType({"series": SERIES.codec})

    def grains(self, active: Integers) -> Integers:
        """Return floor(2^24 · a_j/a₁) with j = active + 1; zero from the 65,536th slot on."""
        table = _fading(self.series, 1 << (int(active.max(initial=1)) + 1).bit_length())
        return table[np.minimum(active, table.size - 1)]

    @property
    def description(self) -> str:
        """The policy with its series."""
        return f"fade {self.series.description}"


@POLICIES.member
@dataclass(frozen=True)
class Clocked(Policy):
    """Who has paid m times pays next in a slot that asks class m, a share of what is left.

    Users are measured by class, the number of their own payments in the stream (`dpi.budget.classes`): nobody is silent
    for good, and who is there for ever pays less and less, in the same slots as all others. `top` is the class that
    takes all who have paid more often. Which classes a slot asks, and for which shares, is the mechanism's, and follows
    from a public clock and from what was released.

    A mechanism that needs users of weight one knows no classes: there this is `spend_first`, and so it is for a stream
    that says what a slot costs and shares a ledger of this policy.

    >>> Clocked(), Clocked(5).top
    (Clocked(top=20), 5)
    """

    top: int = 20

    def __post_init__(self) -> None:
        if type(self.top) is not int or not 1 <= self.top <= HIGHEST:
            raise OptionError(f"`top` must be a whole number from 1 to {HIGHEST}. Got {self.top!r}.")

    def grains(self, active: Integers) -> Integers:
        """Return 2^24, always: what is not measured by class is spent first."""
        return spend_first.grains(active)

    @property
    def description(self) -> str:
        """The policy with its top class."""
        return f"clocked {self.top}"


@lru_cache(maxsize=32)
def _fading(series: Series, size: int) -> Integers:
    estimate = series.of(Epsilon(UNITS)).estimate
    size = min(size, 1 << 16)
    return np.array([int(GRAINS * estimate(j) / estimate(1)) for j in range(1, size + 1)] + [0])


spend_first = SpendFirst()
fade = Fade
clocked = Clocked


def policy_of(description: str) -> Policy:
    """Return a policy that reads accounts as the one of this description does: it need not say the same weights."""
    name, _, rest = description.partition(" ")
    return Clocked(int(rest)) if name == "clocked" else spend_first
