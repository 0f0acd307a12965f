"""Odds in words: how far all releases can move what somebody believes of one user. Only this module says it.

Two questions have two answers, since neighbours differ by presence. The stream with a user and the stream without are
neighbours: the odds of *was this user ever there* move by e^ε at most. A user who did A and the same user who did B are
each a neighbour of the stream without them: the odds of *A instead of B* move by e^ε twice, e^2ε at most. Noise on
histograms comes near it. Sees ε alone.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal

_CONTEXT = Context(prec=40, Emax=10_000, Emin=-10_000)


def factor(epsilon: float) -> str:
    """Return e^ε as text, rounded up: to three digits, and to two of what is above 1.

    >>> factor(1), factor(2), factor(0.001), factor(10), factor(40)
    ('2.72', '7.39', '1.0011', '22,100', '2.36e+17')
    """
    exact = _CONTEXT.next_plus(_CONTEXT.exp(Decimal(epsilon)))
    digits = min(exact.adjusted() - 2, _CONTEXT.subtract(exact, Decimal(1)).adjusted() - 1)
    up = exact.quantize(Decimal((0, (1,), digits)), ROUND_CEILING, _CONTEXT)
    return f"{up:,f}" if up.adjusted() < 6 else f"{up:.2e}"


def odds(epsilon: float, *, epochs: bool) -> str:
    """Return both sentences about a promise of ε: for ever, or for each of many epochs.

    >>> odds(1, epochs=False)  # doctest: +NORMALIZE_WHITESPACE
    'The odds that a user was ever there change by a factor of at most 2.72 (e^ε).
    The odds that a user did A instead of B change by a factor of at most 7.39 (e^2ε).'
    """
    was, of = ("was there", "In each epoch the odds") if epochs else ("was ever there", "The odds")
    return (
        f"{of} that a user {was} change by a factor of at most {factor(epsilon)} (e^ε). "
        f"{of} that a user did A instead of B change by a factor of at most {factor(2 * epsilon)} (e^2ε)."
    )


def likely(epsilon: float) -> str:
    """Return what ε means for one transcript, in words to a user: the ratio of its probabilities, rounded up.

    >>> likely(1)
    'at most 2.72 times as likely with you as without'
    """
    return f"at most {factor(epsilon)} times as likely with you as without"


def sure(epsilon: float) -> str:
    """Return how sure somebody can become who held both answers to be equally likely; rounded up.

    >>> sure(1)
    'at most 73.2 % sure that you were ever there, and at most 88.1 % sure that you did A instead of B'
    """
    was, did = (math.ceil(1000 / (1 + math.exp(-each))) / 10 for each in (epsilon, 2 * epsilon))
    return f"at most {was} % sure that you were ever there, and at most {did} % sure that you did A instead of B"
