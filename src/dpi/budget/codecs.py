"""How budgets and numbers that a person gave are written in options: the same amount in whatever form it was given."""

from __future__ import annotations

from dpi.budget.epsilon import Amount, Epsilon, rational
from dpi.errors import OptionError
from dpi.options import Codec, exact_text, fraction_of


def _amount(value: object) -> Amount | Epsilon:
    assert isinstance(value, Amount | Epsilon)  # noqa: S101 - the field's type, which its class has checked
    return value


def _number(value: object) -> Amount:
    assert isinstance(value, Amount)  # noqa: S101 - idem
    return value


def _units(stated: object) -> Epsilon:
    if type(stated) is not int:
        raise OptionError(f"an amount of budget is written as a whole number of 2^-40. Got {stated!r}.")
    return Epsilon(stated)


UNITS = Codec(lambda value: Epsilon.at_most(_amount(value)).units, _units)
"""An `Epsilon`, as whole units of 2^-40."""

AMOUNT = Codec(UNITS.write, lambda stated: _units(stated).fraction)
"""An amount of budget, rounded down to whole units as it is where it is spent."""

NUMBER = Codec(lambda value: exact_text(rational(_number(value))), fraction_of)
"""A number that counts as what a person wrote: 0.05, "0.05" and 1/20 are one."""

FLOAT = Codec(NUMBER.write, lambda stated: float(fraction_of(stated)))
"""A float, as its shortest decimal."""


def or_word(codec: Codec, word: str) -> Codec:
    """A value, or a word that stands in its place."""
    return Codec(
        lambda value: word if isinstance(value, str) and value == word else codec.write(value),
        lambda stated: word if isinstance(stated, str) and stated == word else codec.read(stated),
    )
