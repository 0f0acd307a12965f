"""Converging series of budgets: ε₁ + ε₂ + … ≤ ε, as integers, for the infinite sum.

A series is a public rule. Its element t is a whole number of units (2^-40), computed in integer and decimal arithmetic
whose every rounding goes down, so it is the same on all machines.

*Why the sum holds.* Let a(t) be the real series and A its real sum. Each class below computes an upper bound A⁺ ≥ A and
an integer element(t) ≤ ε·a(t)/A⁺. So Σ element(t) ≤ ε·A/A⁺ ≤ ε, for the infinite sum and for any order of drawing
without replacement. Elements below one unit are 0: a slot that gets 0 does not look at the data.

*Tails.* For a convex decreasing f, f(j) ≤ ∫ f from j - ½ to j + ½, so Σ_{j>t} f(j) ≤ ∫ f from t + ½ on.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType

from dpi.budget.epsilon import UNITS, Amount, Epsilon, rational
from dpi.errors import OptionError
from dpi.exact.dilogarithm import CONTEXT, ERROR, inverse_complement
from dpi.exact.dilogarithm import LARGEST as SPENCE_LARGEST
from dpi.options import RATIONAL, Family, Option

_SAFE = Decimal(1) - Decimal("1e-40")
"""Fewer than 100 correctly rounded operations of 50 digits precede a multiplication by this: it rounds down."""

_TERMS = 400
"""Terms of a normalising sum that are added one by one before the integral bound takes over."""

_FIXED = 128
_ONE = 1 << _FIXED


def _power(base: int, exponent: int, *, up: bool) -> int:
    """Return base^exponent in units of 2^-128, for a base in the same units, every product rounded up or down."""
    result, slack = _ONE, _ONE - 1 if up else 0
    while exponent:
        if exponent & 1:
            result = (result * base + slack) >> _FIXED
        base = (base * base + slack) >> _FIXED
        exponent >>= 1
    return result


@dataclass(frozen=True, eq=False)
class Elements:
    """A series with its total ε: element 1, 2, … in units, not increasing."""

    epsilon: Epsilon
    element: Callable[[int], int]
    """Units of element t = 1, 2, …, rounded down."""
    estimate: Callable[[float], float]
    """Element t in floating point, for searching only."""

    def first_at_most(self, units: int) -> int:
        """Find the smallest t with element(t) ≤ units: bisection in floats, settled on exact elements.

        >>> Zeta(2).of(Epsilon.at_most(1)).first_at_most(0)
        817572
        """
        low, high = 0.0, 50 * math.log(2)
        for _ in range(55):
            middle = (low + high) / 2
            if self.estimate(math.exp(middle)) < units + 1:
                high = middle
            else:
                low = middle
        t = max(1, round(math.exp(high)))
        while self.element(t) > units:
            t += 1
        while t > 1 and self.element(t - 1) <= units:
            t -= 1
        return t


class Series(Option, ABC):
    """A rule for a non-increasing series of budgets."""

    @abstractmethod
    def of(self, epsilon: Epsilon) -> Elements:
        """Return the elements that sum to at most ε; refuse an ε that the series cannot reach."""

    @property
    def description(self) -> str:
        """The series with all its digits, for saved state."""
        digits = (f"{field.name}={getattr(self, field.name)}" for field in fields(self))  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(digits)})"


SERIES: Family[Series] = Family("series")


def _above_one(value: Amount, name: str) -> Fraction:
    number = rational(value, name)
    if not 1 < number <= 64:
        raise OptionError(f"`{name}` must be above 1 and at most 64. Got {value}.")
    return number


def _share(value: Amount, name: str) -> Fraction:
    number = rational(value, name)
    if not 0 < number <= 1:
        raise OptionError(f"`{name}` must be above 0 and at most 1. Got {value}.")
    return number


@SERIES.member
@dataclass(frozen=True, init=False)
class Spence(Series):
    """The published series: C(1 - m^{2t})/t² with C = 2/(μζ) and C(π²/6 - Li₂(m²)) = ε.

    `m²` is rounded up to 128 bits, which makes every element smaller; m^{2t} likewise. It can reach ε ≤ C·π²/6.

    >>> series = Spence(mu=0.1, zeta=0.1).of(Epsilon.at_most(1))
    >>> [round(series.element(t) / 2**40, 4) for t in (1, 2, 10)]
    [0.1186, 0.0593, 0.0118]
    >>> Spence(1, 1).of(Epsilon.at_most(4))
    Traceback (most recent call last):
    dpi.errors.OptionError: `epsilon` must be at most 3.289868 for Spence(mu=1, zeta=1). Got 4.
    """

    mu: Fraction
    zeta: Fraction

    codecs = MappingProxyType({"mu": RATIONAL, "zeta": RATIONAL})

    def __init__(self, mu: Amount, zeta: Amount) -> None:
        object.__setattr__(self, "mu", _share(mu, "mu"))
        object.__setattr__(self, "zeta", _share(zeta, "zeta"))

    @property
    def constant(self) -> Fraction:
        """C = 2/(μζ)."""
        return 2 / (self.mu * self.zeta)

    def of(self, epsilon: Epsilon) -> Elements:
        """Return the elements; refuse ε > C·π²/6 and say the largest that works."""
        c = self.constant * UNITS
        root = self._root(epsilon)
        c_float, log_root = float(c), math.log1p((root - _ONE) / _ONE)

        def element(t: int) -> int:
            return c.numerator * (_ONE - _power(root, t, up=True)) // (c.denominator * t * t << _FIXED)

        def estimate(t: float) -> float:
            return c_float * -math.expm1(t * log_root) / (t * t)

        return Elements(epsilon, element, estimate)

    def _root(self, epsilon: Epsilon) -> int:
        """Return m² in units of 2^-128, rounded up; the error of the inverse, below 10^-40, is added before."""
        share = epsilon.fraction / self.constant
        with localcontext(CONTEXT):
            y = Decimal(share.numerator) / share.denominator
            if y > SPENCE_LARGEST * _SAFE:
                largest = math.floor(float(self.constant) * float(SPENCE_LARGEST) * 1e6) / 1e6
                raise OptionError(f"`epsilon` must be at most {largest} for {self!r}. Got {float(epsilon):.9g}.")
            root = inverse_complement(y * _SAFE)
            return min(_ONE, math.ceil((Fraction(root) + Fraction(ERROR)) * _ONE))

    def __repr__(self) -> str:
        return f"Spence(mu={float(self.mu):g}, zeta={float(self.zeta):g})"


@SERIES.member
@dataclass(frozen=True, init=False)
class Zeta(Series):
    """t^-s, normalised: ε·t^-s/ζ(s).

    >>> round(Zeta(2).of(Epsilon.at_most(1)).element(1) / 2**40, 6)
    0.607927
    """

    s: Fraction

    codecs = MappingProxyType({"s": RATIONAL})

    def __init__(self, s: Amount = 2) -> None:
        object.__setattr__(self, "s", _above_one(s, "s"))

    def of(self, epsilon: Epsilon) -> Elements:
        """Return the elements ε·t^-s/ζ(s)."""
        s, above = self.s, _zeta_above(self.s)
        s_float, first = float(s), epsilon.units / float(above)

        def element(t: int) -> int:
            with localcontext(CONTEXT):
                return int(epsilon.units * _inverse_power(t, s) / above * _SAFE)

        return Elements(epsilon, element, lambda t: first * t**-s_float)

    def __repr__(self) -> str:
        return f"Zeta({float(self.s):g})"


def _inverse_power(t: int | Decimal, s: Fraction) -> Decimal:
    """Return t^-s, rounded a few times in the caller's context."""
    if s.denominator == 1:
        return 1 / Decimal(t) ** s.numerator
    return (-Decimal(t).ln() * s.numerator / s.denominator).exp()


@lru_cache(maxsize=64)
def _zeta_above(s: Fraction) -> Decimal:
    with localcontext(CONTEXT):
        head = sum((_inverse_power(j, s) for j in range(1, _TERMS + 1)), Decimal(0))
        rest = _inverse_power(_TERMS + Decimal("0.5"), s - 1) * (s - 1).denominator / (s - 1).numerator
        return (head + rest) / _SAFE


@SERIES.member
@dataclass(frozen=True)
class LogSquared(Series):
    """1/(j·ln² j) with j = t + 1, normalised: the slowest decay of the four.

    >>> round(LogSquared().of(Epsilon.at_most(1)).element(1) / 2**40, 3)
    0.493
    """

    kind = "log_squared"

    def of(self, epsilon: Epsilon) -> Elements:
        """Return the elements ε/(A·j·ln² j), j = t + 1."""
        above = _log_squared_above()
        first = epsilon.units / float(above)

        def element(t: int) -> int:
            with localcontext(CONTEXT):
                return int(epsilon.units * _log_squared(t + 1) / above * _SAFE)

        return Elements(epsilon, element, lambda t: first / ((t + 1) * math.log(t + 1) ** 2))

    def __repr__(self) -> str:
        return "LogSquared()"


def _log_squared(j: int) -> Decimal:
    logarithm = Decimal(j).ln()
    return 1 / (j * logarithm * logarithm)


@lru_cache(maxsize=1)
def _log_squared_above() -> Decimal:
    with localcontext(CONTEXT):
        head = sum((_log_squared(j) for j in range(2, _TERMS)), Decimal(0))
        return (head + 1 / (Decimal(_TERMS) - Decimal("0.5")).ln()) / _SAFE


@SERIES.member
@dataclass(frozen=True, init=False)
class Geometric(Series):
    """ε·(1 - r)·r^(t-1).

    >>> Geometric(0.5).of(Epsilon.at_most(1)).element(3) / 2**40
    0.125
    """

    r: Fraction

    codecs = MappingProxyType({"r": RATIONAL})

    def __init__(self, r: Amount) -> None:
        number = rational(r, "r")
        if not 0 < number < 1:
            raise OptionError(f"`r` must be above 0 and below 1. Got {r}.")
        object.__setattr__(self, "r", number)

    def of(self, epsilon: Epsilon) -> Elements:
        """Return the elements ε·(1 - r)·r^(t-1)."""
        down = math.floor(self.r * _ONE)
        first = epsilon.units * (1 - self.r)
        first_float, log_r = float(first), math.log1p(-float(1 - self.r))

        def element(t: int) -> int:
            return math.floor(first * _power(down, t - 1, up=False) / _ONE)

        return Elements(epsilon, element, lambda t: first_float * math.exp((t - 1) * log_r))

    def __repr__(self) -> str:
        return f"Geometric({float(self.r):g})"
