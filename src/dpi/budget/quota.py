"""Quotas: streams that share one ε, each with sub-accounts that no other stream can draw from.

A stream with the quota q has an account of floor(q·ε) units for every user, with its own spent and its own payments.
Streams without one share the *rest*, ε less all quotas, by accounts of theirs. What one stream takes, a greedy one too,
then changes nothing for users of another that has a quota, and neither does the order in which the two close.

**Guarantee.** For every user, what all sub-accounts and the account of the rest have paid together is at most ε, path
by path, whenever quotas are given and however they grow.

*Why.* Let Q_s be the quotas, R = ε - Σ Q_s, x_s what a user has paid from sub-account s and y from the rest. At all
times x_s ≤ Q_s and y ≤ R, so that Σ x_s + y ≤ Σ Q_s + R = ε. At first nothing is paid. A payment keeps both, since an
account pays no more than it holds (`dpi.budget.billing`), and what it holds is Q_s or R as they are. A quota never
shrinks, so x_s ≤ Q_s stays. It is given, or grows, by at most `assignable`, R - B: B is a public bound of what any user
can have paid from the rest so far, the sum of `epsilon_spent` over the streams that share it, so y ≤ B ≤ R - more, the
new rest. `tests/proofs` shows it for all amounts. Quotas are public options, B follows from the chain; neither looks at
an account.

Sees amounts; no account, no user.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction


def held(epsilon: int, quota: Fraction) -> int:
    """What every sub-account of a quota holds, in units: q·ε, rounded down.

    >>> held(1000, Fraction(1, 3))
    333
    """
    return epsilon * quota.numerator // quota.denominator


def rest(epsilon: int, quotas: Iterable[int]) -> int:
    """What no quota has: all that accounts of streams without one hold."""
    return epsilon - sum(quotas)


def assignable(left: int, spent: int) -> int:
    """How much of a rest of `left` units may become a quota, where a user can have paid up to `spent` units of it.

    >>> assignable(600, 100), assignable(600, 2000)
    (500, 0)
    """
    return left - min(left, spent)
