"""A published bound beside the one that holds, and the ranges of the parameters they share."""

from dataclasses import dataclass

from dpi.errors import OptionError


@dataclass(frozen=True)
class Bound:
    """One statement twice.

    printed: the value of the formula as the paper prints it.
    corrected: the value of the form that follows from the paper's own definitions.
    """

    printed: float
    corrected: float


def check_share(value: float, name: str) -> None:
    """Refuse a parameter outside (0, 1]; μ and ζ are such."""
    if not 0 < value <= 1:
        raise OptionError(f"`{name}` must be above 0 and at most 1. Got {value}.")


def check_count(value: int, name: str) -> None:
    """Refuse a number of slots, draws or categories below one."""
    if value < 1:
        raise OptionError(f"`{name}` must be a whole number of at least 1. Got {value}.")


def check_range(smallest: float, largest: float) -> None:
    """Refuse limits m and M of u = 2η that do not satisfy 0 ≤ m ≤ M ≤ 1."""
    if not 0 <= smallest <= largest <= 1:
        raise OptionError(
            f"`smallest` and `largest` must satisfy 0 <= smallest <= largest <= 1. Got {smallest}, {largest}."
        )
