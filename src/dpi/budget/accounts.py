"""The ledger: every user has an account of ε, and a slot's budget need not shrink.

**Guarantee.** For every user u and every transcript of releases, Σ_t ε_t · w_{u,t} ≤ ε, where w_{u,t} is the weight
with which u's events enter slot t. If each slot's mechanism loses at most ε_t · w_{u,t} about u given the past, all
releases together, for ever, are ε-DP for u.

*Why.* A weight is floor(min(policy, remaining/ε_t) · 2^24) grains, and the debit is ceil(ε_t · grains / 2^24) units.
Since grains ≤ remaining · 2^24/ε_t, the debit is at most `remaining`, which is a whole number: no account falls below
zero (`dpi.budget.billing`, which a solver proves for all amounts). Fix a transcript: given its past, ε_t and every
*other* user's weight are the same functions of the other users' own histories, with and without u; so the likelihood
ratio of slot t is at most e^(ε_t · w_{u,t}), and the product over all slots is at most e^ε. This holds path by path,
so ε_t may be chosen from the public transcript.

With `period`, an account is refilled when the slot's number enters a new period: the guarantee is then ε *per epoch*.
Slots of one stream never go back, so an account is never charged for an epoch before the one it is in; streams that
share accounts count their slots each for itself, so they cannot share accounts with a period.

What an account holds is private, and so is how many there are. Accounts are never deleted: that would be a refill.
"""

from __future__ import annotations

import hashlib
import json
import operator
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpi.budget import billing
from dpi.budget.account_table import STANDING, AccountTable, Place, Standings, to_records
from dpi.budget.epsilon import UNITS, Epsilon
from dpi.budget.series import SERIES, Series, Zeta
from dpi.errors import BudgetExceeded, ClockError, OptionError, StateError
from dpi.events.identity import Digests, check_key, digests
from dpi.exact.integers import GRAINS, Integers
from dpi.options import Family, Option

if TYPE_CHECKING:
    import polars as pl

_MAGIC = b"dpi ledger 1\n"
_OLDER = "the saved ledger is older than these accounts: restoring it would refill them."


class Policy(Option, ABC):
    """How much of a slot a user takes part in, by the number of slots they were active in before."""

    @abstractmethod
    def grains(self, active: Integers) -> Integers:
        """The largest weight, in grains, of a user's next active slot."""

    @property
    @abstractmethod
    def description(self) -> str:
        """The policy with all its digits, for saved state."""


POLICIES: Family[Policy] = Family("policy")


@POLICIES.member
@dataclass(frozen=True)
class SpendFirst(Policy):
    """Weight one until the account is empty."""

    kind = "spend_first"

    def grains(self, active: Integers) -> Integers:
        """2^24, always."""
        return np.full(active.size, GRAINS, dtype=np.int64)

    @property
    def description(self) -> str:
        """The policy's name."""
        return "spend_first"


@POLICIES.member
@dataclass(frozen=True)
class Fade(Policy):
    """A user's j-th active slot has weight at most s_j = a_j/a₁, for a converging series a.

    >>> (Fade(Zeta(2)).grains(np.array([0, 1, 9])) / 2**24).tolist()
    [1.0, 0.25, 0.0099999...]
    """

    series: Series = field(default_factory=lambda: Zeta(2))

    codecs = MappingProxyType({"series": SERIES.codec})

    def grains(self, active: Integers) -> Integers:
        """floor(2^24 · a_j/a₁) with j = active + 1; zero from the 65,536th slot on."""
        table = _fading(self.series, 1 << (int(active.max(initial=1)) + 1).bit_length())
        return table[np.minimum(active, table.size - 1)]

    @property
    def description(self) -> str:
        """The policy with its series."""
        return f"fade {self.series.description}"


@lru_cache(maxsize=32)
def _fading(series: Series, size: int) -> Integers:
    estimate = series.of(Epsilon(UNITS)).estimate
    size = min(size, 1 << 16)
    return np.array([int(GRAINS * estimate(j) / estimate(1)) for j in range(1, size + 1)] + [0])


spend_first = SpendFirst()


def fade(series: Series | None = None) -> Fade:
    """Weights that fade along a converging series (1/j² unless another is given)."""
    return Fade() if series is None else Fade(series)


@dataclass(frozen=True, eq=False)
class Bill:
    """What the users of one slot are about to pay: private, and not yet paid."""

    weights: Integers = field(repr=False)
    epsilon: Epsilon
    slot: int
    stream: str
    place: Place = field(repr=False)
    version: object = field(repr=False)
    """The state of the accounts that this bill was written on."""


@dataclass(frozen=True, eq=False, repr=False)
class Charge:
    """What a bill changes: the accounts that pay, and what they hold afterwards. Private."""

    bill: Bill
    place: Place
    standing: Standings

    def records(self) -> bytes:
        """The changed accounts, for a store."""
        return to_records(self.place.names, self.standing)


class Accounts:
    """The accounts of all users of a store, in memory.

    Several streams may share the accounts: then ε covers them all. A slot is paid in steps, so that a store can put
    the payment into one transaction with the noisy measurement: `bill` reads the accounts and gives every active user
    a weight; `charge` says what that changes; `apply` changes it (`debit` does both). Slots follow each other.

    >>> import polars as pl
    >>> accounts = Accounts(Epsilon.at_most("0.12"), key=bytes(32))
    >>> users = pl.Series(["ada", "bob"])
    >>> for slot in range(4):
    ...     bill = accounts.bill(users, Epsilon.at_most("0.05"), slot)
    ...     print((bill.weights / 2**24).round(3).tolist())
    ...     accounts.debit(bill)
    [1.0, 1.0]
    [1.0, 1.0]
    [0.4, 0.4]
    [0.0, 0.0]
    """

    def __init__(
        self, epsilon: Epsilon, *, key: bytes, policy: Policy = spend_first, period: int | None = None
    ) -> None:
        if epsilon.units < 1:
            raise OptionError("`epsilon` must be at least 2^-40.")
        if period is not None and (not isinstance(period, int) or isinstance(period, bool) or period < 1):
            raise OptionError(f"`period` must be a whole number of slots. Got {period!r}.")
        self.epsilon, self.policy, self.period = epsilon, policy, period
        self._key = check_key(key)
        self._seal = hashlib.blake2b(b"dpi seal", key=key, digest_size=32).digest()
        self._table = AccountTable()
        self._slots: dict[str, int] = {}
        self._levies: list[tuple[int, int]] = []
        self._version = object()

    def __repr__(self) -> str:
        return f"Accounts({self.epsilon!r}, policy={self.policy!r}, period={self.period})"

    def _epoch(self, slot: int) -> int:
        return 0 if self.period is None else slot // self.period

    def _standing(self, place: Place, slot: int) -> Standings:
        """What the accounts hold in the epoch of `slot`: nothing is spent if they were last used in an older one."""
        standing = self._table.get(place)
        standing[standing["epoch"] < self._epoch(slot)] = np.zeros((), dtype=STANDING)
        standing["epoch"] = self._epoch(slot)
        return standing

    def levy(self, units: int, slot: int) -> tuple[int, int]:
        """Charge every account, future ones included, for slots whose debits were lost; in the epoch of `slot`."""
        if units < 0:
            raise OptionError("a levy must not be negative.")
        self._levies.append((self._epoch(slot), units))
        self._version = object()
        return self._levies[-1]

    def _available(self, slot: int) -> int:
        """What an account holds at first, after levies."""
        levied = sum(units for epoch, units in self._levies if epoch >= self._epoch(slot))
        return billing.available(self.epsilon.units, levied)

    def names(self, users: pl.Series) -> Digests:
        """The accounts' names of canonical ids. Private."""
        return digests(users, self._key)

    def bill(
        self,
        users: pl.Series | Digests,
        epsilon: Epsilon,
        slot: int,
        *,
        share: Fraction = Fraction(1),
        whole: bool = False,
        stream: str = "",
    ) -> Bill:
        """Weights of the slot's users, by their own accounts; nothing is charged yet.

        `users` are different canonical ids, or the names of their accounts. Should two of them share an account (a
        collision of 128-bit digests), one of them gets weight zero, so that the account still pays once. `share`
        (public) is the part of what is left on an account that this slot may take: below one, nobody is silent for
        good. With `whole`, a user who cannot take part with weight one does not take part: for mechanisms whose loss
        does not shrink with the weight.
        """
        slot = operator.index(slot)
        if not isinstance(users, np.ndarray):
            if users.has_nulls():
                raise OptionError("`users` must not have missing ids.")
            users = self.names(users)
        if self.period is not None and self._slots.keys() - {stream}:
            raise OptionError("accounts with a `period` serve one stream: others would count their epochs differently.")
        if slot <= self._slots.get(stream, slot - 1):
            raise ClockError("slots are paid one after the other; this one is not after the last.")
        if not 0 < share <= 1 or share.denominator > billing.SHARE_STEPS:
            raise OptionError("`share` must be a fraction above 0 and at most 1, in steps of 2^-12.")
        place = self._table.find(users)
        standing = self._standing(place, slot)
        grains = self.policy.grains(standing["active"].astype(np.int64))
        if epsilon.units == 0:
            grains[:] = 0
        else:
            limit = billing.part(billing.left(self._available(slot), standing["spent"]), share)
            short = np.flatnonzero(limit < epsilon.units)
            grains[short] = billing.affordable(grains[short], limit[short], epsilon.units)
        if whole:
            grains[grains < GRAINS] = 0
        grains[_repeated(place)] = 0
        weights = np.empty_like(grains)
        weights[place.order] = billing.weight(grains)
        weights.setflags(write=False)
        return Bill(weights, epsilon, slot, stream, place, self._version)

    def debit(self, bill: Bill) -> None:
        """Charge a bill: all of it, or nothing if it is not payable."""
        self.apply(self.charge(bill))

    def charge(self, bill: Bill) -> Charge:
        """What a bill changes; nothing is changed yet. Refuses a bill that is not payable."""
        if bill.version is not self._version:
            raise ClockError("this bill is of other accounts, or another slot was paid since; ask for a new one.")
        if bill.weights.size and not (int(bill.weights.min()) >= 0 and int(bill.weights.max()) <= GRAINS):
            raise OptionError("a bill's weights must be between 0 and 2^24 grains.")
        standing = self._standing(bill.place, bill.slot)
        cost = billing.debit(bill.epsilon.units, bill.weights[bill.place.order])
        available = self._available(bill.slot)
        missing = np.where(cost > 0, standing["spent"] + cost - available, 0)
        if missing.size and int(missing.max()) > 0:
            worst = int(missing.argmax())
            remaining = Fraction(int(available - standing["spent"][worst]), UNITS)
            raise BudgetExceeded(Fraction(int(cost[worst]), UNITS), remaining, public=False)
        standing["spent"] += cost
        standing["active"] += 1
        paying = cost > 0
        if paying.all():
            return Charge(bill, bill.place, standing)
        return Charge(bill, bill.place.only(paying), standing[paying])

    def apply(self, charge: Charge) -> None:
        """Write a charge that was made on these accounts as they are."""
        if charge.bill.version is not self._version:
            raise ClockError("this charge is of other accounts, or another slot was paid since.")
        self._table.put(charge.place, charge.standing)
        self._slots[charge.bill.stream] = charge.bill.slot
        self._version = object()

    def last_slot(self, stream: str = "") -> int | None:
        """The last slot that a stream has paid for."""
        return self._slots.get(stream)

    def remaining(self, users: pl.Series, slot: int) -> list[Fraction]:
        """What the named users have left in the epoch of `slot`. Private: for the curator alone."""
        place = self._table.find(self.names(users))
        left = np.empty(place.order.size, dtype=np.int64)
        left[place.order] = billing.left(self._available(slot), self._standing(place, slot)["spent"])
        return [Fraction(int(units), UNITS) for units in left]

    def snapshot(self) -> bytes:
        """All accounts, for `restore`. Private; it does not contain the key."""
        head = {**self._options(), "slots": self._slots, "levies": self._levies}
        body = _MAGIC + json.dumps(head).encode() + b"\n" + self._table.to_bytes()
        return hashlib.blake2b(body, digest_size=32, key=self._seal).digest() + body

    def restore(self, data: bytes) -> None:
        """Continue from a snapshot; refuses one that is damaged, older, of other options, or of another key."""
        seal, body = data[:32], data[32:]
        if seal != hashlib.blake2b(body, digest_size=32, key=self._seal).digest() or not body.startswith(_MAGIC):
            raise StateError("the saved ledger is damaged or was made with another key.")
        text, _, rest = body[len(_MAGIC) :].partition(b"\n")
        head = json.loads(text)
        slots, levies = head.pop("slots"), [(epoch, units) for epoch, units in head.pop("levies")]
        if head != self._options():
            raise StateError("the saved ledger belongs to other options (epsilon, policy or period).")
        if levies[: len(self._levies)] != self._levies:
            raise StateError(_OLDER)
        self.resume(rest, slots, levies)

    def resume(self, records: bytes, slots: dict[str, int], levies: list[tuple[int, int]]) -> None:
        """Continue from a store: records of charges in their order, the streams' last slots, and levies.

        Refuses records from before a slot that these accounts have paid for.
        """
        if any(slots.get(stream, last - 1) < last for stream, last in self._slots.items()):
            raise StateError(_OLDER)
        self._table, self._slots, self._levies = AccountTable.from_bytes(records), slots, levies
        self._version = object()

    @property
    def within(self) -> bool:
        """Whether no account has spent more than ε: what the curator checks. Private."""
        return self._table.largest() <= self.epsilon.units

    def _options(self) -> dict[str, object]:
        return {"epsilon": self.epsilon.units, "policy": self.policy.description, "period": self.period}

    @property
    def description(self) -> str:
        """ε, policy and period as text: a store continues accounts of the same description only."""
        return json.dumps(self._options(), sort_keys=True)


def _repeated(place: Place) -> npt.NDArray[np.bool_]:
    """Rows of the place whose name stands in another row already (all but one of each)."""
    repeated = np.zeros(place.order.size, dtype=np.bool_)
    high = place.names[:, 0]
    if (high[1:] == high[:-1]).any():
        order = np.lexsort((place.names[:, 1], high))
        names = place.names[order]
        repeated[order[1:]] = (names[1:] == names[:-1]).all(axis=1)
    return repeated
