"""The two ways to keep the promise, as options of a stream: `Ledger` and `Converging`."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from dpi.budget.accounts import Accounts
from dpi.budget.allocation import DRAWS, SPREAD, Allocation, Concentrated, Constant, Draw, InOrder
from dpi.budget.auto_allocation import Auto
from dpi.budget.billing import quota_units
from dpi.budget.epsilon import AS_AMOUNT, AS_NUMBER, AS_UNITS, Amount, Epsilon, or_word, rational
from dpi.budget.policy import POLICIES, Fade, Policy, spend_first
from dpi.budget.saving import Saving
from dpi.budget.series import SERIES, Series
from dpi.errors import OptionError
from dpi.options import Family, Option

BUDGETS: Family[Option] = Family("budget")


@BUDGETS.member
@dataclass(frozen=True)
class Ledger(Option):
    """Every user has an account of ε; a slot's budget need not shrink.

    Left alone, it suits users who come once and users who stay for ever: `policy="auto"` is `clocked()`, under which
    no account is ever empty, wherever the mechanism measures users by class (`Mechanism.divides`) and nothing below
    says what a slot costs; elsewhere it is `spend_first`. Streams that share a ledger share its policy, and "auto" is
    then the policy that is there. The chain records which policy "auto" chose, and it stays.

    `per_slot` is what a slot costs a user of weight one: an amount, or "auto" to choose it from the public transcript;
    `slots=20` is short for a twentieth of ε. With `every=5` the same is spent on average, most of it in every fifth
    slot, which suits a stream that moves slowly; with `every="auto"`, in as few slots as the tracked drift allows
    (`dpi.budget.saving`). With `period` the accounts are refilled every so many slots, and the
    guarantee is ε per epoch.

    `returning=False` declares that nobody comes back once their account is empty, as where people are seen once: then
    a slot with fewer payers is a slot with fewer users, and "auto" spends all of ε in every slot. It is a statement
    about the users for the sake of accuracy; accounts are kept all the same, so the guarantee does not rest on it.

    `quota="0.25"` gives the stream a quarter of every user's ε for itself (`dpi.budget.billing`): streams that share
    the ledger cannot take from it, and it takes from nobody else. Quotas of a ledger sum to at most one; one grows by a
    change of options, out of what no quota has, and never shrinks. Streams without a quota share the rest.

    >>> Ledger(), Ledger(per_slot=0.05)
    (Ledger(), Ledger(per_slot=0.05))
    >>> Ledger(per_slot=0.05, slots=3)
    Traceback (most recent call last):
    dpi.errors.OptionError: give `per_slot` or `slots`, not both.
    """

    per_slot: Amount | str = "auto"
    slots: int | None = None
    every: int | Literal["auto"] = 1
    policy: Policy | Literal["auto"] = "auto"
    period: int | None = None
    returning: bool = True
    quota: Amount | None = None
    rest: Epsilon | None = field(default=None, repr=False)
    """Without a quota: what no quota had when the stream was declared, if there were any. The store says it."""

    codecs = MappingProxyType(
        {
            "per_slot": or_word(AS_AMOUNT, "auto"),
            "policy": or_word(POLICIES.codec, "auto"),
            "quota": AS_NUMBER.or_none,
            "rest": AS_UNITS.or_none,
        }
    )

    def __post_init__(self) -> None:
        if self.slots is not None and self.per_slot != "auto":
            raise OptionError("give `per_slot` or `slots`, not both.", options=("per_slot", "slots"))
        if self.slots is not None and (type(self.slots) is not int or self.slots < 1):
            raise OptionError(f"`slots` must be a whole number above 0. Got {self.slots!r}.")
        if self.every != "auto" and (type(self.every) is not int or self.every < 1):
            raise OptionError(f"`every` must be 'auto', or a whole number above 0. Got {self.every!r}.")
        if self.every != 1 and self.per_slot == "auto" and self.slots is None:
            raise OptionError(
                "`every` needs `per_slot` or `slots`: auto has a rule of its own.",
                options=("every", "per_slot", "slots"),
            )
        if self.policy != "auto" and not isinstance(self.policy, Policy):
            raise OptionError(
                "`policy` must be 'auto', or a policy of dpi.budget: clocked(), spend_first or fade(). Got "
                f"{self.policy!r}."
            )
        if type(self.returning) is not bool:
            raise OptionError(f"`returning` must be True or False. Got {self.returning!r}.")
        if self.per_slot != "auto":
            Epsilon.at_most(self.per_slot, "per_slot")
        if self.quota is not None and not 0 < rational(self.quota, "quota") <= 1:
            raise OptionError(f"`quota` must be a part of ε, above 0 and at most 1. Got {self.quota!r}.")
        if self.quota is not None and self.period is not None:
            raise OptionError(
                "accounts with a `period` serve one stream, which needs no `quota`.", options=("quota", "period")
            )

    def held(self, epsilon: Epsilon) -> Epsilon:
        """Return what an account holds at first: all of ε, the stream's quota, or the rest when it was declared."""
        if self.quota is None:
            return epsilon if self.rest is None else self.rest
        units = quota_units(epsilon.units, rational(self.quota, "quota"))
        if units < 1:
            raise OptionError("a `quota` must be at least 2^-40 of budget.", options=("quota",))
        return Epsilon(units)

    def lasts(self, epsilon: Epsilon) -> int | None:
        """Return in how many slots of its user an account pays in full; None unless all slots have one price.

        Refilled accounts, and users who are declared not to come back, have no such end; who fades pays in part.

        >>> Ledger(per_slot="0.3").lasts(Epsilon.at_most(1)), Ledger(slots=20).lasts(Epsilon.at_most(1))
        (3, 20)
        """
        held = self.held(epsilon)
        allocation = self.allocation(held, 1)
        ends = self.period is None and self.returning and not isinstance(self.policy, Fade)
        if not isinstance(allocation, Constant) or not ends:
            return None
        return held.units // allocation.per_slot.units

    @property
    def by_shares(self) -> bool:
        """Whether nothing is said of what a slot costs, so that it can ask for shares of what users have left."""
        return self.per_slot == "auto" and self.slots is None and self.returning

    def allocation(self, epsilon: Epsilon, bins: int) -> Allocation:
        """Return what each slot gets of accounts that hold ε, where users are not measured by class."""
        if self.slots is None and self.per_slot == "auto":
            return Auto(epsilon, bins) if self.returning else Constant(epsilon.fraction)
        per_slot = epsilon.fraction / self.slots if self.slots is not None else rational(self.per_slot, "per_slot")
        every = 1 if self.every == "auto" else self.every
        largest = per_slot if every == 1 else per_slot * (SPREAD + every * (1 - SPREAD))
        if Epsilon.at_most(largest, "per_slot") > epsilon:
            raise OptionError(
                f"a slot must cost at most epsilon, or the stream's part of it ({float(epsilon):g}). Got "
                f"{float(largest):g}."
            )
        if self.every == "auto":
            return Saving(per_slot, epsilon)
        return Constant(per_slot) if every == 1 else Concentrated(per_slot, every)

    def accounts(self, epsilon: Epsilon, key: bytes) -> Accounts:
        """Return empty accounts; which policy "auto" is, the stream has said by then."""
        assert isinstance(self.policy, Policy)  # noqa: S101 - `StreamOptions.resolved`
        return Accounts(epsilon, key=key, policy=self.policy, period=self.period)

    def __repr__(self) -> str:
        names = ["slots", "per_slot", "every", "policy", "period", "returning", "quota"]
        if self.policy == spend_first and not self.by_shares:  # what "auto" is there
            names.remove("policy")
        given = [name for name in names if getattr(self, name) != getattr(Ledger, name)]
        return f"Ledger({', '.join(f'{name}={getattr(self, name)!r}' for name in given)})"


@BUDGETS.member
@dataclass(frozen=True)
class Converging(Option):
    """Everybody pays every slot's ε_t, and the ε_t sum to at most ε: no account is needed.

    **Guarantee.** ε-DP at user level for ever: a user moves each slot's histogram by at most one unit, so slot t
    loses at most ε_t about them, whatever was released before; the losses add up along the transcript to Σ ε_t ≤ ε.

    >>> from dpi.budget.series import LogSquared
    >>> Converging(LogSquared())
    Converging(LogSquared())
    """

    series: Series
    draw: Draw | None = None

    codecs = MappingProxyType({"series": SERIES.codec, "draw": DRAWS.codec.or_none})

    def allocation(self, epsilon: Epsilon, bins: int = 0) -> Allocation:
        """Return what each slot gets."""
        return self.draw.open(self.series, epsilon) if self.draw else InOrder(self.series, epsilon)

    def __repr__(self) -> str:
        return f"Converging({self.series!r}" + (f", draw={self.draw!r})" if self.draw else ")")
