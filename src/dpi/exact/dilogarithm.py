"""Spence's function Li2 to a stated error, in decimal arithmetic.

Knows numbers only.  The published budget series is an inverse of Li2, and the proof that its elements never
add up to more than epsilon is done in integers; so what comes out of here carries an error bound that is
derived, not observed.  `decimal` rounds every operation used, `ln` too, correctly and alike everywhere.

The convention is Li2(x) = x + x^2/4 + x^3/9 + ..., so that Li2(1) = pi^2/6.
`scipy.special.spence(z)` is Li2(1 - z): another convention under the same name.

*Error.*  One operation has a relative error of at most h = 5e-50.  The power series is used for |x| <= 1/2
only: after n terms what is left is below |x|^(n+1)/((n+1)^2 (1 - |x|)), at most the last term added, and
the loop ends when that term is under 1e-50 of the sum, which takes fewer than 160 terms.  The n-th term has
at most n roundings and the sum adds one for each term: below 2 * 160 h = 1.6e-47 of the sum of the terms'
magnitudes, itself at most 1.3 |Li2(x)|.  The complement up to 1/2 is pi^2/6 less that, at least
a third of either part; above 1/2 a reflection adds parts of the same sign.  So a handful of roundings and a
factor 3 are added: below 1e-46 in all.
"""

import decimal
from decimal import Context, Decimal, localcontext

CONTEXT = Context(
    prec=50,
    rounding=decimal.ROUND_HALF_EVEN,
    Emin=decimal.MIN_EMIN,
    Emax=decimal.MAX_EMAX,
    clamp=0,
    traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
)
"""The arithmetic of this module; `localcontext(CONTEXT)` copies it, the caller's own is never touched."""

ERROR = Decimal("1e-40")
"""The relative error that every function here stays below; the derived bounds leave a factor of 10,000."""

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
LARGEST = CONTEXT.divide(CONTEXT.multiply(PI, PI), Decimal(6))
"""Li2(1) = pi^2/6."""

_HALF = Decimal("0.5")
_NEGLIGIBLE = Decimal("1e-50")
_STEP = Decimal("1e-45")


def complement(x: Decimal) -> Decimal:
    """Return pi^2/6 - Li2(x) for 0 <= x <= 1, with a relative error below `ERROR` even where it vanishes.

    Near x = 1 the difference would cancel; the reflection ln(x) ln(1 - x) + Li2(1 - x) adds positive parts.

    >>> f"{complement(Decimal('0.9999999999999999999999')):.20e}"
    '5.16568720458690050484e-21'
    """
    if not x.is_finite() or not 0 <= x <= 1:
        raise ValueError(f"`x` must be a number from 0 to 1. Got {x}.")
    with localcontext(CONTEXT):
        if x == 1:
            return Decimal(0)
        if x <= _HALF:
            return LARGEST - _power_series(x)
        return x.ln() * (1 - x).ln() + _power_series(1 - x)


def inverse_complement(y: Decimal) -> Decimal:
    """Return the x in [0, 1] with `complement(x)` = y, for 0 <= y <= pi^2/6, to within `ERROR` * (1 - x).

    In w = 1 - x the complement h has h' = -ln(w)/(1 - w), positive and falling: h is concave, so that
    Newton's steps from the left of the root never pass it.  The start is on the left: h' <= 1 - ln(w), so
    h(w) <= w (2 - ln w), and with L = 2 - ln y and w = y/(2L) that is y (L + ln 2L)/(2L) <= y.  At a step
    below 1e-45 w the root is less than two such steps away; a relative error e of h moves it by at most 2ew.
    The result has as many digits as 1 - x needs to keep its 50: time grows with the zeros that y starts with.

    >>> y = Decimal("1e-30")
    >>> abs(complement(inverse_complement(y)) - y) < ERROR * y
    True
    """
    if not y.is_finite() or not 0 <= y <= LARGEST:
        raise ValueError(f"`y` must be a number from 0 to pi^2/6. Got {y}.")
    if y == 0:
        return Decimal(1)
    with localcontext(CONTEXT) as context:
        w = y / (4 - 2 * y.ln())
        step = w
        while step > w * _STEP:
            context.prec = CONTEXT.prec - w.adjusted()  # 1 - w is exact
            x = 1 - w
            context.prec = CONTEXT.prec
            step = (y - complement(x)) * x / -w.ln()
            w = min(w + step, Decimal(1))
            if w == 1:
                break
        context.prec = CONTEXT.prec - w.adjusted()
        return 1 - w


def _power_series(x: Decimal) -> Decimal:
    """Return the sum of x^n/n^2 for |x| <= 1/2, in the context of the caller."""
    total, power, term, n = x, x, x, 1
    while abs(term) > abs(total) * _NEGLIGIBLE:
        n += 1
        power *= x
        term = power / (n * n)
        total += term
    return total
