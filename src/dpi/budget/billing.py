"""What an account can pay and what it is charged, in whole numbers: the arithmetic on which the ledger's promise rests.

Amounts are units (2^-40) up to 2^50, weights are grains (2^-24) up to 2^24. The functions take arrays, or the terms of
a solver: `tests/proofs` proves with them, for all amounts in that range, that

* a weight is at most the policy's and at most 2^24;
* the debit is at most what is left, so that no account falls below zero;
* ε · grains ≤ debit · 2^24: what is lost is never more than what is charged;
* a levy leaves an account with no more than it truly has;
* what is said of a class of users (`class_epsilon`, `most_left`, `most_spent`) bounds every account of it;
* no intermediate leaves 64 bits.

**Quotas**: streams that share one ε, each with sub-accounts that no other stream can draw from. A stream with the quota
q has an account of floor(q·ε) units for every user, with its own spent and its own payments.
Streams without one share the *rest*, ε less all quotas, by accounts of theirs. What one stream takes, a greedy one too,
then changes nothing for users of another that has a quota, and neither does the order in which the two close.

**Guarantee.** For every user, what all sub-accounts and the account of the rest have paid together is at most ε, path
by path, whenever quotas are given and however they grow.

*Why.* Let Q_s be the quotas, R = ε - Σ Q_s, x_s what a user has paid from sub-account s and y from the rest. At all
times x_s ≤ Q_s and y ≤ R, so that Σ x_s + y ≤ Σ Q_s + R = ε. At first nothing is paid. A payment keeps both, since an
account pays no more than it holds, and what it holds is Q_s or R as they are. A quota never
shrinks, so x_s ≤ Q_s stays. It is given, or grows, by at most `assignable`, R - B: B is a public bound of what any user
can have paid from the rest so far, the sum of `epsilon_spent` over the streams that share it, so y ≤ B ≤ R - more, the
new rest. `tests/proofs` shows it for all amounts. Quotas are public options, B follows from the chain; neither looks at
an account.

In Coq: `debit_covers`, `proofs/Ledger.v`; `affordable_pays`, `proofs/Ledger.v`;
`bounds_hold`, `proofs/Bounds.v`; `history_ok`, `proofs/Store.v`.

Sees amounts; no account, no user.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import TypeVar

import numpy as np

from dpi.exact.integers import GRAINS, Integers, fraction_ceil, fraction_floor

Amounts = TypeVar("Amounts", int, Integers)
"""Units: one amount, or one for each account."""

SHARE_STEPS = 1 << 12
"""A share of what is left has at most this denominator, so that its product with an amount stays in 64 bits."""


def available(epsilon: int, levied: int) -> int:
    """Return what every account holds at first: ε, less what all were charged for slots whose debits were lost."""
    return max(0, epsilon - levied)


def left(held: int, spent: Integers) -> Integers:
    """Return what accounts have left: nothing where a levy has taken more than there was."""
    return np.maximum(held - spent, 0)


def part(remaining: Amounts, share: Fraction) -> Amounts:
    """Return the share of what is left that a slot may take, rounded down."""
    return remaining if share == 1 else remaining * share.numerator // share.denominator


def parts(remaining: Integers, steps: Integers) -> Integers:
    """Return what a slot may take where each account has a share of its own, in steps of 2^-12, rounded down."""
    return remaining * steps // SHARE_STEPS


def affordable(policy: Integers, limit: Integers, epsilon: int | Integers) -> Integers:
    """Return the weights of accounts with 0 ≤ limit < ε to spend: the policy's, or floor(limit/ε · 2^24)."""
    return np.minimum(policy, fraction_floor(limit, epsilon))


def weight(grains: Integers) -> Integers:
    """Keep a weight between 0 and 2^24 grains, whatever a policy says."""
    return np.clip(grains, 0, GRAINS)


def debit(epsilon: int | Integers, weights: Integers) -> Integers:
    """Return what a weight costs: ceil(ε · w / 2^24)."""
    return fraction_ceil(epsilon, weights)


def class_epsilon(largest: int, share: Fraction) -> int:
    """Return the price of weight one in a class whose accounts have at most `largest` left: a share of `largest`.

    At least one unit, so that every class that is due is measured.
    """
    return max(1, part(largest, share))


def most_left(largest: int, share: Fraction, price: int) -> int:
    """Return the most that an account with at most `largest` has left after paying a share of it, or the price E.

    It pays min(E, floor(f · left)), whatever was left. A weight is rounded down to grains of the histogram's price, so
    that up to ceil(E/2^24) units less than the share are charged.
    """
    return min(largest, largest - min(part(largest, share), price) + -(-price // GRAINS))


def most_spent(spent: int, share: Fraction, epsilon: int) -> int:
    """Return the most that an account of ε that spent at most `spent` has spent after paying a share of the rest."""
    return spent + part(epsilon - spent, share)


def quota_units(epsilon: int, quota: Fraction) -> int:
    """Return what every sub-account of a quota holds, in units: q·ε, rounded down.

    >>> quota_units(1000, Fraction(2, 3))
    666
    """
    return epsilon * quota.numerator // quota.denominator


def unassigned(epsilon: int, quotas: Iterable[int]) -> int:
    """Return what no quota has: all that accounts of streams without one hold."""
    return epsilon - sum(quotas)


def assignable(left: int, spent: int) -> int:
    """Return how much of a rest of `left` units may become a quota, if a user can have paid up to `spent` units of it.

    >>> assignable(600, 100), assignable(600, 2000)
    (500, 0)
    """
    return left - min(left, spent)
