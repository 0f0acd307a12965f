"""Exact amounts of privacy budget: whole numbers of 2^-40, and how they and other numbers are written in options."""

from __future__ import annotations

import math
import numbers
import warnings
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Self, cast

from dpi.errors import OptionError, WeakPromise
from dpi.exact.integers import GRAINS
from dpi.options import Codec, exact_text, fraction_of

UNITS = 1 << 40
"""ε = 1 is this many units."""
LARGEST = 1 << 50
"""No amount exceeds this many units (ε = 1024), so that products with grains stay exact in 64 bits."""
WEAK = 10
"""A promise above this says next to nothing: odds may change by e^10, more than twenty thousand times."""

Amount = int | float | str | Fraction | Decimal


def rational(value: Amount, name: str = "epsilon") -> Fraction:
    """Read the number a person wrote: a float counts as its shortest decimal form, so that 0.05 is 1/20.

    >>> rational(0.05), rational("1e-3"), rational(Fraction(1, 3))
    (Fraction(1, 20), Fraction(1, 1000), Fraction(1, 3))
    """
    if not isinstance(value, bool) and isinstance(value, numbers.Number | str) and not _is_long(value):
        with suppress(ValueError, OverflowError, TypeError, ZeroDivisionError):
            # A numpy float prints through `float`; Fraction refuses NaN and infinity.
            return Fraction(repr(float(value)) if isinstance(value, float) else value)
    raise OptionError(f"`{name}` must be a finite number. Got {value!r}.")


def _is_long(value: object) -> bool:
    """Return whether an exponent is so large that the number would take much memory to be written out."""
    return isinstance(value, str | Decimal) and len(str(value).lower().partition("e")[2].lstrip("+-0")) > 3


@dataclass(frozen=True, order=True)
class Epsilon:
    """An amount of privacy budget: `units` · 2^-40.

    >>> Epsilon.at_most("0.05")
    Epsilon(0.05)
    >>> Epsilon.at_most(1).units == 2**40
    True
    """

    units: int

    def __post_init__(self) -> None:
        if type(self.units) is not int:
            raise OptionError("`Epsilon` takes a whole number of 2^-40; use Epsilon.at_most(0.05) for amounts.")
        if not 0 <= self.units <= LARGEST:
            raise OptionError(f"an amount of budget must lie between 0 and {LARGEST // UNITS}.")

    @classmethod
    def at_most(cls, value: Amount | Epsilon, name: str = "epsilon") -> Self:
        """Return the largest amount not above `value`, which must be one unit (2^-40) or more: for budgets and shares.

        >>> Epsilon.at_most(0)
        Traceback (most recent call last):
        dpi.errors.OptionError: `epsilon` must be at least 2^-40 and at most 1024. Got 0.
        """
        scaled = Fraction(value.units) if isinstance(value, Epsilon) else rational(value, name) * UNITS
        if not 1 <= scaled <= LARGEST:
            raise OptionError(f"`{name}` must be at least 2^-40 and at most {LARGEST // UNITS}. Got {value}.")
        return cls(math.floor(scaled))

    @property
    def fraction(self) -> Fraction:
        """The amount as a rational number."""
        return Fraction(self.units, UNITS)

    @property
    def scale(self) -> Fraction:
        """The scale of Laplace noise, in grains, that charges this amount to a user of weight one: G/ε."""
        return Fraction(GRAINS * UNITS, self.units)

    def __float__(self) -> float:
        return self.units / UNITS

    def __repr__(self) -> str:
        return f"Epsilon({float(self):.9g})"


def promised(value: Amount) -> Epsilon:
    """Return the ε that every user is promised; above 10 warn, with `WeakPromise`, that it promises next to nothing.

    >>> promised(1)
    Epsilon(1)
    """
    epsilon = Epsilon.at_most(value)
    if epsilon.fraction > WEAK:
        warnings.warn(
            f"ε = {float(epsilon):g} promises next to nothing: a release may be e^{float(epsilon):g} times as likely "
            f"with a user as without. Choose at most {WEAK}; 1 is usual.",
            WeakPromise,
            stacklevel=3,
        )
    return epsilon


def _units(stated: object) -> Epsilon:
    if type(stated) is not int:
        raise OptionError(f"an amount of budget is written as a whole number of 2^-40. Got {stated!r}.")
    return Epsilon(stated)


AS_UNITS = Codec(lambda value: Epsilon.at_most(cast("Amount | Epsilon", value)).units, _units)
"""An `Epsilon`, as whole units of 2^-40."""
AS_AMOUNT = Codec(AS_UNITS.write, lambda stated: _units(stated).fraction)
"""An amount of budget, rounded down to whole units as it is where it is spent."""
AS_NUMBER = Codec(lambda value: exact_text(rational(cast("Amount", value))), fraction_of)
"""A number that counts as what a person wrote: 0.05, "0.05" and 1/20 are one."""
AS_FLOAT = Codec(AS_NUMBER.write, lambda stated: float(fraction_of(stated)))
"""A float, as its shortest decimal."""


def or_word(codec: Codec, word: str) -> Codec:
    """Return the codec of a value, or of a word that stands in its place."""
    return Codec(
        lambda value: word if isinstance(value, str) and value == word else codec.write(value),
        lambda stated: word if isinstance(stated, str) and stated == word else codec.read(stated),
    )
