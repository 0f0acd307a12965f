"""Classes of users by their own payments: the public clock that makes them due, their budgets, and bounds of accounts.

A user of *class* m has paid m times in this stream; the top class takes all who have paid more often. Class m is *due*
in a slot whose level is at least m: class 0 in every slot, class 1 in every second one on average, class m in one of
2^m.

**Guarantee.** The level of a slot is a function of its number alone, so that which classes are measured tells nothing
about anybody. Every aligned block of 2^m slots has exactly one of level m or more; where in the block it lies is a hash
of the block, so that the levels have no rhythm in common with hours, days or weeks: who is active at nine o'clock only
meets the same levels as everybody else.

*Why one.* Of the two halves of a block, one bit of a hash chooses the half whose slot goes on. A slot has level m or
more if its half was chosen in each of its m smallest blocks: that is one slot of each block of 2^m.

In a slot in which class m is due its users pay a share f_m of what is left on their accounts, a public number. So

* L_m, the most that a user of class m has left, is known without a look at any account: L_0 = ε, and who pays leaves
  class m for class m + 1 with at most `billing.most_left(L_m, f_m)`;
* ε_{t,m} = floor(f_m · L_m) is what the slot costs a user of class m who has all of L_m; who has less takes part with
  less weight;
* S_m, the most that a user of class m can have spent here, is S_0 = 0, and with each slot, for the due classes from
  high m to low, S_{m+1} ← max(S_{m+1}, S_m + floor(f_m · (ε - S_m))). What any user can have lost so far is max S_m.

*Why S_m bounds.* A user of class m who has spent s ≤ S_m here, and s′ ≥ s in all, pays at most floor(f_m · (ε - s′)).
As f_m ≤ 1, s + floor(f_m · (ε - s)) does not fall in s, so it is at most the value at S_m. A user pays once a slot, so
the order is from high to low: no class is asked in the same slot for what its users paid to enter it. *Why L_m
bounds:* the same, with what is left; other streams of the ledger, and levies, only take. `tests/proofs` shows both.

Sees slot numbers and public shares; no account, no user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from hashlib import blake2b
from itertools import zip_longest

import numpy as np

from dpi.budget.billing import SHARE_STEPS, class_epsilon, most_left, most_spent, parts
from dpi.budget.epsilon import Epsilon
from dpi.errors import OptionError
from dpi.exact.integers import Integers

HIGHEST = 40
"""The largest top class: a slot of such a level comes once in 2^40."""


@lru_cache(maxsize=16)
def level(slot: int, top: int) -> int:
    """The highest class that is due in a slot, at most `top`; slots before slot 0 have levels too.

    >>> [level(slot, top=3) for slot in range(16)]
    [0, 3, 0, 1, 0, 1, 0, 2, 3, 0, 1, 0, 1, 0, 0, 2]
    """
    for size in range(top):
        if (slot >> size) & 1 != _chosen(slot >> (size + 1), size):
            return size
    return top


def next_due(after: int, m: int) -> int:
    """The first slot after a slot in which class m is due, in m steps: one in each block of 2^m.

    >>> [next_due(0, 2), next_due(7, 2), next_due(3, 0)], [level(slot, 3) for slot in (1, 8)]
    ([1, 8, 4], [3, 3])
    """
    block = (after + 1) >> m
    slot = _place(block, m)
    return slot if slot > after else _place(block + 1, m)


def _place(block: int, m: int) -> int:
    """The slot of level m or more in a block of 2^m."""
    for size in reversed(range(m)):
        block = 2 * block + _chosen(block, size)
    return block


def _chosen(block: int, size: int) -> int:
    """Which half of a block of 2^(size + 1) slots goes on: one bit."""
    text = b"%d %d" % (size, block)
    return blake2b(text, digest_size=1, person=b"dpi clock").digest()[0] & 1


_CHUNK = 1 << 16
"""Accounts that are charged at a time: each takes a number for every class."""


@dataclass(frozen=True)
class ClassBudget:
    """What a slot costs the users of one class that is due: public."""

    epsilon: Epsilon
    """ε_{t,m}: what a user of weight one pays."""
    share: Fraction
    """f_m: the part of what is left on an account that the slot takes."""
    most_left: int
    """L_m, in units: a user who has this much left has weight one."""

    @cached_property
    def steps(self) -> int:
        """The share as a whole number of 2^-12."""
        return steps_of(self.share)


def steps_of(share: Fraction) -> int:
    """A share as a whole number of 2^-12; refuses what is none between 0 and 1."""
    steps, rest = divmod(share.numerator * SHARE_STEPS, share.denominator)
    if rest or not 0 < steps <= SHARE_STEPS:
        raise OptionError("a class's share must be a fraction above 0 and at most 1, in steps of 2^-12.")
    return steps


@dataclass(frozen=True)
class Bounds:
    """What can be said of every account of a class after some slots.

    >>> bounds = Bounds.initial(Epsilon(1 << 40), top=2)
    >>> half = Fraction(1, 2)
    >>> bounds = bounds.after(2, (half,)).after(3, (half, half))
    >>> [round(left / 2**40, 6) for left in bounds.left], [spent / 2**40 for spent in bounds.spent]
    ([1.0, 0.5, 0.25], [0.0, 0.5, 0.75])
    """

    epsilon: int
    top: int
    left: tuple[int, ...]
    """L_0 … of the classes below or at the highest that was due, and of the one after it."""
    spent: tuple[int, ...]
    """S_0 … of the classes that somebody can be in."""
    largest: tuple[int, ...] = ()
    """The largest share that each class was ever asked for, in steps of 2^-12."""
    period: int | None = None
    epoch: int | None = None
    """With refills: the epoch that `spent` is of …"""
    past: int = 0
    """… and what one user can have lost in those before."""
    restored: tuple[int, ...] = ()
    """Slots after which an old copy of the accounts went on, with the classes that it remembered."""

    @classmethod
    def initial(cls, epsilon: Epsilon, top: int, period: int | None = None) -> Bounds:
        """Before the first slot."""
        return cls(epsilon.units, top, (epsilon.units,), (0,), period=period)

    @property
    def most_spent(self) -> int:
        """The most that one user can have lost so far, in units."""
        return self.past + max(self.spent)

    def budgets(self, shares: Sequence[Fraction]) -> tuple[ClassBudget, ...]:
        """What a slot costs the classes 0, 1, … that are due, after `after`."""
        due = zip(self.left, shares, strict=False)
        return tuple([ClassBudget(Epsilon(class_epsilon(left, share)), share, left) for left, share in due])

    def after(self, slot: int, shares: Sequence[Fraction]) -> Bounds:
        """The bounds that hold in a slot that asks the due classes for these shares, and after it."""
        if len(shares) != level(slot, self.top) + 1:
            raise OptionError("a slot needs one share for each class that is due in it.")
        steps = [steps_of(share) for share in shares]
        begun = self._entered(slot)
        paying, leaving = min(len(shares), len(begun.spent)), min(len(shares), self.top)
        left = [*begun.left, *[0] * (leaving + 1 - len(begun.left))]
        for m in range(leaving):
            left[m + 1] = max(left[m + 1], most_left(left[m], shares[m]))
        spent = [*begun.spent, 0][: self.top + 1] if paying == len(begun.spent) else [*begun.spent]
        for m in reversed(range(paying)):
            after = min(m + 1, self.top)
            spent[after] = max(spent[after], most_spent(spent[m], shares[m], self.epsilon))
        return replace(begun, left=tuple(left), spent=tuple(spent), largest=_larger(self.largest, steps))

    def after_lost(self, slots: Sequence[int], largest: Sequence[int], restored: Sequence[int] = ()) -> Bounds:
        """The bounds after slots whose payments no account remembers: nobody changed class, everybody paid the most.

        Of these slots only the largest shares are known, in steps, and after which of them an old copy went on before
        this one. A user of class m who had spent s then counts as one who has spent s + `most_taken`, which does not
        fall in s either.
        """
        lost = [*slots]
        if not lost:
            return self
        begun = self._entered(lost[-1])
        if begun.epoch != self.epoch and self.epoch is not None and begun.epoch is not None:
            # What was lost of the epochs before may have cost all of each.
            begun = replace(begun, past=self.past + (begun.epoch - self.epoch) * self.epsilon)
        lost = [slot for slot in lost if self._epoch(slot) == begun.epoch]
        here = np.array(begun.spent, dtype=np.int64)
        taken = most_taken(np.arange(here.size), self.epsilon - here, lost, largest, self.top, restored)
        again = tuple(sorted({*self.restored, *restored, slots[-1]}))
        said = [int(units) for units in here + taken]
        # The first of these slots may have been paid for, so that some were a class further on than was said.
        spent = tuple(max(pair) for pair in zip(said, [0, *said], strict=False))
        if len(spent) <= self.top:
            spent += (max(spent),)
        return replace(begun, spent=spent, largest=_larger(self.largest, largest), restored=again)

    def follows(self, before: Bounds) -> bool:
        """Whether these can be the bounds after further slots: nothing that was known to be taken is forgotten."""
        grown = (
            zip_longest(self.left, before.left, fillvalue=-1),
            zip_longest(self.largest, before.largest, fillvalue=0),
        )
        return (
            all(now >= then for pairs in grown for now, then in pairs)
            and self.most_spent >= before.most_spent
            and (before.epoch is None or (self.epoch is not None and self.epoch >= before.epoch))
            and {*self.restored} >= {*before.restored}
        )

    def grown(self, epsilon: int) -> Bounds:
        """The bounds after accounts got more, so that they hold this much: everybody has left what was added, too."""
        more = epsilon - self.epsilon
        if more < 0:
            raise OptionError("accounts never get less.")
        return replace(self, epsilon=epsilon, left=tuple(left + more for left in self.left))

    def _epoch(self, slot: int) -> int | None:
        return None if self.period is None else slot // self.period

    def _entered(self, slot: int) -> Bounds:
        """In the epoch of a slot: accounts that were refilled have spent nothing, and their users have paid nothing."""
        epoch = self._epoch(slot)
        if epoch == self.epoch:
            return self
        if self.epoch is None:
            return replace(self, epoch=epoch)
        return replace(self, epoch=epoch, spent=(0,), past=self.most_spent)


def most_taken(
    payments: Integers,
    left: Integers,
    slots: Sequence[int],
    largest: Sequence[int],
    top: int,
    restored: Sequence[int] = (),
) -> Integers:
    """The most that slots can have taken from accounts with so many payments and so much left: for lost slots.

    By the recursion of S_m from each account's own class and amount: it pays in every slot in which its class is due,
    or in any part of them, whichever takes more. `largest` are shares that no slot exceeded, in steps; a class that
    has none can have paid all. After a slot in `restored` an old copy of the accounts went on, charged for all that was
    taken until then: an account was then in whichever class that copy remembered, so it may be in any. That may have
    been after the last slot that these accounts do remember, and then they were left behind. Vectors over accounts.
    """
    asked = [*largest, *[SHARE_STEPS] * (top + 1 - len(largest))]
    levels = [(level(slot, top), slot in restored) for slot in slots]
    behind = len(slots) > 0 and slots[0] - 1 in restored
    result = np.empty_like(left)
    for start in range(0, left.size, _CHUNK):
        here = slice(start, start + _CHUNK)
        held, own = left[here], np.minimum(payments[here], top)
        taken = np.full((top + 1, held.size), -1, dtype=np.int64)  # -1: a class that the account cannot be in
        taken[slice(None) if behind else own, np.arange(held.size)] = 0
        for highest, anew in levels:
            for m in reversed(range(highest + 1)):
                paid = taken[m] + parts(held - taken[m], np.full(held.size, asked[m]))
                after = taken[min(m + 1, top)]
                np.maximum(after, np.where(taken[m] < 0, -1, paid), out=after)
            if anew:
                taken[:] = taken.max(axis=0)
        result[here] = taken.max(axis=0)
    return result


def _larger(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    """The larger of two shares, class by class."""
    return tuple(map(max, zip_longest(one, other, fillvalue=0)))
