"""Classes of users by their own payments: what a slot asks of them, its budgets, and bounds of accounts.

A user of *class* m has paid m times in this stream; the top class takes all who have paid more often. A slot *asks*
some classes, class 0 always, each for a share f_m of what its users have left, and says in which histogram each is
measured: those of one histogram are a *group*, and share its noise. Which classes are due, their shares and the groups
are a function of the slot's number and of earlier releases (`Mechanism.request_payments`), so that what is measured
tells nothing about anybody.

* L_m, the most that a user of class m has left, is known without a look at any account: L_0 = ε, and who pays leaves
  class m for class m + 1 with at most `billing.most_left(L_m, f_m, E)`. A class that nobody can be in yet has the
  bound of the class before it;
* ε_{t,m} = floor(f_m · L_m) is what the slot costs a user of class m who has all of L_m, and E, the largest of a group,
  is the *price* of its histogram: noise has the scale 2^24/E, and who pays less takes part with less weight. A slot
  may say a lower price for a group (`Priced`): then all who can pay it pay the same;
* S_m, the most that a user of class m can have spent here, is S_0 = 0, and with each slot, for the due classes from
  high m to low, S_{m+1} ← max(S_{m+1}, S_m + floor(f_m · (ε - S_m))). What any user can have lost so far is max S_m.

*Why S_m bounds.* A user of class m who has spent s ≤ S_m here, and s′ ≥ s in all, pays at most floor(f_m · (ε - s′)),
whatever the price. As f_m ≤ 1, s + floor(f_m · (ε - s)) does not fall in s, so it is at most the value at S_m. A user
pays once a slot, so the order is from high to low: no class is asked in the same slot for what its users paid to enter
it. *Why L_m bounds:* the same, with what is left; a weight is a whole number of grains of E/2^24 each, so that up to
that much less is paid than the share. Other streams of the ledger, and levies, only take. `tests/proofs` shows both.

**The clock** is one way to say which classes are due: each in slots of a level that it waits for, class 0 in every
slot. The level of a slot is a function of its number alone. Every aligned block of 2^m slots has exactly one of level m
or more; where in the block it lies is a hash of the block, so that the levels have no rhythm in common with hours, days
or weeks: who is active at nine o'clock only meets the same levels as everybody else.

*Why one.* Of the two halves of a block, one bit of a hash chooses the half whose slot goes on. A slot has level m or
more if its half was chosen in each of its m smallest blocks: that is one slot of each block of 2^m.

What lost slots are charged covers what they can have taken: `finish_covers`, `proofs/Lost.v`, and after restorations
`restore_any_class`, `proofs/Lost.v`. What is said of a stream covers what a user has paid: `stated_covers`,
`proofs/Bounds.v`.

Sees slot numbers and public shares; no account, no user.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from hashlib import blake2b
from itertools import zip_longest
from operator import attrgetter

import numpy as np

from dpi.budget.billing import SHARE_STEPS, class_epsilon, most_left, most_spent, parts
from dpi.budget.epsilon import LARGEST, Epsilon
from dpi.errors import OptionError
from dpi.exact.integers import Integers

HIGHEST = 40
"""The largest top class: a slot of such a level comes once in 2^40."""


@lru_cache(maxsize=16)
def level(slot: int, top: int) -> int:
    """Return the level of a slot, at most `top`; slots before slot 0 have levels too.

    >>> [level(slot, top=3) for slot in range(16)]
    [0, 3, 0, 1, 0, 1, 0, 2, 3, 0, 1, 0, 1, 0, 0, 2]
    """
    for size in range(top):
        if (slot >> size) & 1 != _chosen(slot >> (size + 1), size):
            return size
    return top


def next_due(after: int, m: int) -> int:
    """Find the first slot of level m or more after a slot, in m steps: there is one in each block of 2^m.

    >>> [next_due(0, 2), next_due(7, 2), next_due(3, 0)], [level(slot, 3) for slot in (1, 8)]
    ([1, 8, 4], [3, 3])
    """
    block = (after + 1) >> m
    slot = _place(block, m)
    return slot if slot > after else _place(block + 1, m)


def _place(block: int, m: int) -> int:
    """Return the slot of level m or more in a block of 2^m."""
    for size in reversed(range(m)):
        block = 2 * block + _chosen(block, size)
    return block


def _chosen(block: int, size: int) -> int:
    """Return which half of a block of 2^(size + 1) slots goes on: one bit."""
    text = b"%d %d" % (size, block)
    return blake2b(text, digest_size=1, person=b"dpi clock").digest()[0] & 1


_CHUNK = 1 << 16
"""Accounts that are charged at a time."""


class Priced(tuple[tuple[int, Fraction], ...]):
    """A group whose users pay no more than a price each, so that all who have enough left pay the same.

    A user with s spent pays min(E, floor(f·left)), which is at most the share, so that S_m bounds as before; and what
    is left, max(left - E, left - floor(f·left)), does not fall in `left`, so that L_m less min(E, floor(f·L_m)) bounds.

    >>> half = Fraction(1, 2)
    >>> asked = (Priced([(0, half)], Epsilon(10)), Priced([(1, half), (2, half)], Epsilon(10)))
    >>> bounds, groups = Bounds.initial(Epsilon(1000), top=2).draw(0, asked)
    >>> [group.epsilon.units for group in groups], bounds.left
    ([10, 10], (1000, 991, 982))
    """

    price: Epsilon

    def __new__(cls, classes: Iterable[tuple[int, Fraction]], price: Epsilon) -> Priced:
        """Return the group of these classes and their shares, with a price."""
        group = super().__new__(cls, classes)
        group.price = price
        return group


PaymentRequest = tuple[tuple[tuple[int, Fraction], ...], ...]
"""What a slot asks: its groups, and in each the classes that are measured there with the share of each. Groups have
classes from low to high, and stand in the order of their first ones: newcomers are in the first group."""


@dataclass(frozen=True)
class ClassBudget:
    """What a slot costs the users of one class that is due: public."""

    number: int
    """The class m: how often its users have paid."""
    epsilon: Epsilon
    """ε_{t,m}: what a user pays who has L_m left."""
    share: Fraction
    """f_m: the part of what is left on an account that the slot takes."""
    most_left: int
    """L_m: the most that a user of the class can have left, in units."""

    @cached_property
    def steps(self) -> int:
        """The share as a whole number of 2^-12."""
        return steps_of(self.share)


_UNITS = attrgetter("epsilon.units")


@dataclass(frozen=True)
class GroupBudget:
    """What one histogram of a slot costs, and the classes that are measured in it: public."""

    epsilon: Epsilon
    """The budget of its noise: the price E, which a user of weight one pays; less the part of a tree of sums."""
    classes: tuple[ClassBudget, ...]
    """From low to high. A user of one of them weighs floor(f_m · left)/E, where E is the largest of their budgets."""

    @classmethod
    def of(cls, classes: Iterable[ClassBudget]) -> GroupBudget:
        """Group some classes: the price is the largest of their budgets."""
        due = tuple(classes)
        return cls(max(due, key=_UNITS).epsilon, due)


def steps_of(share: Fraction) -> int:
    """Return a share as a whole number of 2^-12; refuse what is none between 0 and 1."""
    steps, rest = divmod(share.numerator * SHARE_STEPS, share.denominator)
    if rest or not 0 < steps <= SHARE_STEPS:
        raise OptionError("a class's share must be a fraction above 0 and at most 1, in steps of 2^-12.")
    return steps


@dataclass(frozen=True)
class Bounds:
    """What can be said of every account of a class after some slots.

    >>> bounds = Bounds.initial(Epsilon(1 << 40), top=2)
    >>> half = Fraction(1, 2)
    >>> for slot, asked in ((2, (((0, half),),)), (3, (((0, half),), ((1, half),)))):
    ...     bounds, groups = bounds.draw(slot, asked)
    >>> [round(left / 2**40, 6) for left in bounds.left], [spent / 2**40 for spent in bounds.spent]
    ([1.0, 0.5, 0.25], [0.0, 0.5, 0.75])
    """

    epsilon: int
    top: int
    left: tuple[int, ...]
    """L_0 … of the classes up to the one after the highest that was due."""
    spent: tuple[int, ...]
    """S_0 … of the classes that somebody can be in."""
    largest: tuple[int, ...] = ()
    """The largest share that each class was ever asked for, in steps of 2^-12."""
    period: int | None = None
    epoch: int | None = None
    """With refills: the epoch that `spent` is of."""
    past: int = 0
    """What one user can have lost in epochs before that of `spent`."""
    restored: tuple[int, ...] = ()
    """Slots after which an old copy of the accounts went on, with the classes that it remembered."""

    @classmethod
    def initial(cls, epsilon: Epsilon, top: int, period: int | None = None) -> Bounds:
        """Return the bounds before the first slot."""
        return cls(epsilon.units, top, (epsilon.units,), (0,), period=period)

    @property
    def most_spent(self) -> int:
        """The most that one user can have lost so far, in units."""
        return self.past + max(self.spent)

    def draw(self, slot: int, asked: PaymentRequest) -> tuple[Bounds, tuple[GroupBudget, ...]]:
        """Return the bounds that hold after a slot that asks for this, and the budgets of its groups."""
        shares, begun = _check(asked, self.top), self._entered(slot)
        left, spent, due = [*begun.left], [*begun.spent, 0], dict[int, ClassBudget]()
        most = {m: group.price.units for group in asked if isinstance(group, Priced) for m, _ in group}
        steps = [0] * (max(shares) + 1)
        for m in range(len(steps)):
            following = min(m + 1, self.top)
            if following == len(left):
                left.append(0 if m in shares else left[m])
            if m not in shares:
                continue
            price = min(class_epsilon(left[m], shares[m]), most.get(m, LARGEST))
            due[m] = ClassBudget(m, Epsilon(price), shares[m], left[m])
            steps[m] = due[m].steps
            left[following] = max(left[following], most_left(left[m], shares[m], price))
            if m < len(begun.spent):
                spent[following] = max(spent[following], most_spent(begun.spent[m], shares[m], self.epsilon))
        groups = tuple([GroupBudget.of(map(due.__getitem__, dict(group))) for group in asked])
        for group in groups:  # in which who pays less is charged in grains of the price
            for each in group.classes if len(group.classes) > 1 else ():
                following, price = min(each.number + 1, self.top), group.epsilon.units
                left[following] = max(left[following], most_left(each.most_left, each.share, price))
        reached = min(len(begun.spent) + (len(begun.spent) - 1 in shares), self.top + 1)
        largest = _larger(self.largest, steps)
        return replace(begun, left=tuple(left), spent=tuple(spent[:reached]), largest=largest), groups

    def after_lost(self, slots: range, largest: Sequence[int], restored: Sequence[int] = ()) -> Bounds:
        """Return the bounds after slots whose payments are lost: nobody changed class, everybody paid the most.

        Of these slots only the largest shares are known, in steps, and after which of them an old copy went on before
        this one. A user of class m who had spent s then counts as one who has spent s + `most_taken`, which does not
        fall in s either. Where only slots of other streams were lost, a copy of an abandoned branch may still know
        users in other classes than they were in last: that it went on is recorded all the same.
        """
        again = tuple(sorted({*self.restored, *restored, slots.stop - 1}))
        if not slots:
            return replace(self, largest=_larger(self.largest, largest), restored=again)
        lost = [*slots]
        begun = self._entered(lost[-1])
        if begun.epoch != self.epoch and self.epoch is not None and begun.epoch is not None:
            # What was lost of the epochs before may have cost all of each.
            begun = replace(begun, past=self.past + (begun.epoch - self.epoch) * self.epsilon)
        lost = [slot for slot in lost if self._epoch(slot) == begun.epoch]
        here = np.array(begun.spent, dtype=np.int64)
        taken = most_taken(np.arange(here.size), self.epsilon - here, lost, largest, self.top, restored)
        said = [int(units) for units in here + taken]
        # The first of these slots may have been paid for, so that some were a class further on than was said.
        spent = tuple(max(pair) for pair in zip(said, [0, *said], strict=False))
        if len(spent) <= self.top:
            spent += (max(spent),)
        return replace(begun, spent=spent, largest=_larger(self.largest, largest), restored=again)

    def follows(self, before: Bounds) -> bool:
        """Return whether these can be the bounds after further slots: nothing known to be taken is forgotten."""
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
        """Return the bounds after accounts got more and now hold this much: what was added, everybody has left."""
        more = epsilon - self.epsilon
        if more < 0:
            raise OptionError("accounts never get less.")
        return replace(self, epsilon=epsilon, left=tuple(left + more for left in self.left))

    def _epoch(self, slot: int) -> int | None:
        return None if self.period is None else slot // self.period

    def _entered(self, slot: int) -> Bounds:
        """Enter the epoch of a slot: refilled accounts have spent nothing, and their users have paid nothing."""
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
    """Return the most that lost slots can have taken from accounts with so many payments and so much left.

    Which classes were due in them followed from releases that are lost, so every class counts as due in each of them.
    `largest` are shares that no slot exceeded, in steps; a class that has none can have paid all. *Why this is the
    most:* s + floor(f · (left - s)) does not fall in s, and grows with f, so that no account can have paid more than
    one that paid the largest share in every slot, from its own class on. After a slot in `restored` an old copy of the
    accounts went on, charged for all that was taken until then: an account was then in whichever class that copy
    remembered, so it may be in any. That may have been after the last slot that these accounts do remember, and then
    they were left behind. Vectors over accounts.
    """
    shares = np.array([steps or SHARE_STEPS for steps in [*largest, *[0] * (top + 1)][: top + 1]])
    runs = [[len(slots) > 0 and slots[0] - 1 in restored, 0]]  # whether any class comes first, and how many slots
    for slot in slots:
        runs[-1][1] += 1
        if slot in restored:
            runs.append([True, 0])
    result = np.empty_like(left)
    for start in range(0, left.size, _CHUNK):
        here = slice(start, start + _CHUNK)
        held, own = left[here], np.minimum(payments[here], top)
        taken = np.zeros_like(held)
        for anew, number in runs:
            first = range(top + 1) if anew else [own]
            taken = np.maximum.reduce([_pay(taken, held, m, number, shares) for m in first])
        result[here] = taken
    return result


def _pay(taken: Integers, held: Integers, m: int | Integers, number: int, shares: Integers) -> Integers:
    """Return what is taken of what accounts held after so many payments more, from class m on."""
    for payment in range(number):
        taken = taken + parts(held - taken, shares[np.minimum(m + payment, shares.size - 1)])
    return taken


def _check(asked: PaymentRequest, top: int) -> dict[int, Fraction]:
    """Return the share of every class that is due; refuse what is no division of classes, newcomers among them."""
    shares, first = dict[int, Fraction](), -1
    for group in asked:
        classes = [*dict(group)]
        apart = len(classes) == len(group) > 0 and not shares.keys() & classes
        if not apart or classes != sorted(classes) or not first < classes[0] or classes[-1] > top:
            shares.clear()
            break
        shares.update(group)
        first = classes[0]
    if 0 not in shares:
        raise OptionError("a slot asks classes from 0 to the top, each once, class 0 among them, in groups by number.")
    return shares


def _larger(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    """Return the larger of two shares, class by class."""
    return tuple(map(max, zip_longest(one, other, fillvalue=0)))
