"""What an account can pay and what it is charged, in whole numbers: the arithmetic on which the ledger's promise rests.

Amounts are units (2^-40) up to 2^50, weights are grains (2^-24) up to 2^24. The functions take arrays, or the terms of
a solver: `tests/proofs` proves with them, for all amounts in that range, that

* a weight is at most the policy's and at most 2^24;
* the debit is at most what is left, so that no account falls below zero;
* ε · grains ≤ debit · 2^24: what is lost is never more than what is charged;
* a levy leaves an account with no more than it truly has;
* what is said of a class of users (`class_epsilon`, `most_left`, `most_spent`) bounds every account of it;
* no intermediate leaves 64 bits.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TypeVar

import numpy as np

from dpi.exact.integers import GRAINS, Integers, fraction_ceil, fraction_floor

Amounts = TypeVar("Amounts", int, Integers)
"""Units: one amount, or one for each account."""

SHARE_STEPS = 1 << 12
"""A share of what is left has at most this denominator, so that its product with an amount stays in 64 bits."""


def available(epsilon: int, levied: int) -> int:
    """What every account holds at first: ε, less what all were charged for slots whose debits were lost."""
    return max(0, epsilon - levied)


def left(held: int, spent: Integers) -> Integers:
    """What accounts have left; nothing where a levy has taken more than there was."""
    return np.maximum(held - spent, 0)


def part(remaining: Amounts, share: Fraction) -> Amounts:
    """The share of what is left that a slot may take, rounded down."""
    return remaining if share == 1 else remaining * share.numerator // share.denominator


def parts(remaining: Integers, steps: Integers) -> Integers:
    """The same where each account has a share of its own, in steps of 2^-12."""
    return remaining * steps // SHARE_STEPS


def affordable(policy: Integers, limit: Integers, epsilon: int | Integers) -> Integers:
    """The weights of accounts with less than ε to spend, 0 ≤ limit < ε: the policy's, or floor(limit/ε · 2^24)."""
    return np.minimum(policy, fraction_floor(limit, epsilon))


def weight(grains: Integers) -> Integers:
    """Whatever a policy says, a weight lies between 0 and 2^24 grains."""
    return np.clip(grains, 0, GRAINS)


def debit(epsilon: int | Integers, weights: Integers) -> Integers:
    """What a weight costs: ceil(ε · w / 2^24)."""
    return fraction_ceil(epsilon, weights)


def class_epsilon(largest: int, share: Fraction) -> int:
    """What a slot costs a user of weight one in a class whose accounts have at most `largest` left: a share of it.

    At least one unit, so that every class that is due is measured.
    """
    return max(1, part(largest, share))


def most_left(largest: int, share: Fraction) -> int:
    """What an account that had at most `largest` left has at most after it has paid a share of what it had.

    A weight is rounded down to grains, so that up to ceil(ε/2^24) units less than the share are charged.
    """
    return min(largest, largest - part(largest, share) + -(-class_epsilon(largest, share) // GRAINS))


def most_spent(spent: int, share: Fraction, epsilon: int) -> int:
    """What an account of ε that had spent at most `spent` has spent at most after it has paid a share of the rest."""
    return spent + part(epsilon - spent, share)
