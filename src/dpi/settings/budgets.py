"""Budgets, mechanisms and sizes as they are written on a command line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from dpi.budget import RBA, Converging, Geometric, Ledger, LogSquared, Spence, Zeta, clocked, fade, spend_first
from dpi.budget.allocation import RBARanges
from dpi.budget.policy import Policy
from dpi.budget.series import Series
from dpi.errors import OptionError
from dpi.mechanism.base import Mechanism
from dpi.mechanism.boosted import Boosted
from dpi.mechanism.published import Published

_SIZES = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}


@contextmanager
def part_of(option: str) -> Iterator[None]:
    """What is wrong with a number inside a rule is told under the option that has the rule."""
    try:
        yield
    except OptionError as error:
        raise error if str(error).startswith("`--") else OptionError(f"`{option}`: {error}") from None


def series(text: str, option: str = "--converging") -> Series:
    """A converging series.

    >>> series("zeta:2"), series("log-squared"), series("spence:0.1,0.1").constant
    (Zeta(2), LogSquared(), Fraction(200, 1))
    """
    with part_of(option):
        return _series(text, option)


def _series(text: str, option: str) -> Series:
    name, numbers = split(text)
    match name, numbers:
        case "log-squared", []:
            return LogSquared()
        case "zeta", [s]:
            return Zeta(s)
        case "geometric", [r]:
            return Geometric(r)
        case "spence", [mu, zeta]:
            return Spence(mu=mu, zeta=zeta)
    raise OptionError(
        f"`{option}` must be log-squared, zeta:S, geometric:R or spence:MU,ZETA, for example zeta:2. Got {text!r}."
    )


@part_of("--draw")
def draw(text: str) -> RBA | RBARanges | None:
    """How a series is drawn from.

    >>> draw("rba:1e8"), draw("in-order")
    (RBA(1e+08), None)
    """
    name, numbers = split(text)
    match name, numbers:
        case "in-order", []:
            return None
        case "rba", [rate]:
            return RBA(rate)
        case "ranges", [large, small]:
            return RBA.ranges(large, small)
    raise OptionError(
        f"`--draw` must be in-order, rba:LAMBDA or ranges:LARGE,SMALL, for example rba:1e8. Got {text!r}."
    )


def spending(text: str) -> Policy | Literal["auto"]:
    """How much of a slot a user takes part in.

    >>> spending("spend-first"), spending("fade:log-squared"), spending("clocked:12")
    (SpendFirst(), Fade(series=LogSquared()), Clocked(top=12))
    """
    name, _, rest = text.partition(":")
    if text == "auto":
        return "auto"
    if text == "spend-first":
        return spend_first
    if name == "fade":
        return fade(series(rest, "--policy fade:")) if rest else fade()
    if text == "clocked" or (name == "clocked" and rest.isdecimal()):
        with part_of("--policy"):
            return clocked(int(rest)) if rest else clocked()
    raise OptionError(
        "`--policy` must be auto, spend-first, fade, fade:SERIES, clocked or clocked:TOP, for example fade:zeta:2. "
        f"Got {text!r}."
    )


def concentration(text: str) -> int | Literal["auto"]:
    """In which slots most of a budget is spent: every so many, or as few as the stream allows."""
    if text == "auto":
        return "auto"
    if not text.isdecimal() or int(text) < 1:
        raise OptionError(f"`--every` must be auto, or a whole number above 0. Got {text!r}.")
    return int(text)


def budget(
    *,
    per_slot: str | None = None,
    slots: int | None = None,
    every: str | None = None,
    period: int | None = None,
    policy: str | None = None,
    returning: bool = True,
    quota: str | None = None,
    converging: str | None = None,
    drawn: str | None = None,
) -> Ledger | Converging:
    """The budget of a stream; accounts, chosen automatically, unless something else is said.

    >>> budget(per_slot="0.05", every="5"), budget(converging="log-squared")
    (Ledger(per_slot='0.05', every=5), Converging(LogSquared()))
    """
    if converging is not None:
        if not returning or any(each is not None for each in (per_slot, slots, every, period, policy, quota)):
            raise OptionError(
                "`--converging` needs no accounts: leave out --per-slot, --slots, --every, --period, --policy, "
                "--quota and --not-returning."
            )
        return Converging(series(converging), draw=None if drawn is None else draw(drawn))
    if drawn is not None:
        raise OptionError("`--draw` needs `--converging`.")
    return Ledger(
        per_slot="auto" if per_slot is None else per_slot,
        slots=slots,
        every=1 if every is None else concentration(every),
        policy="auto" if policy is None else spending(policy),
        period=period,
        returning=returning,
        quota=quota,
    )


def mechanism(name: str, season: int | None) -> Mechanism[object]:
    """A mechanism by name."""
    if name == "boosted":
        return Boosted(season=season)  # type: ignore[return-value]
    if name != "published":
        raise OptionError(f"`--mechanism` must be boosted or published. Got {name!r}.")
    if season is not None:
        raise OptionError("`--season` is for the boosted mechanism.")
    return Published()  # type: ignore[return-value]


def size(text: str) -> int:
    """Bytes of "500MB", "2GiB" …

    >>> size("1GiB"), size("500 MB")
    (1073741824, 500000000)
    """
    match = re.fullmatch(r"(\d+)\s*([kmg]i?b|)", text.strip().lower())
    if match is None or int(match[1]) == 0:
        raise OptionError(f"`--memory` must be a number of bytes such as 500MB or 2GiB. Got {text!r}.")
    return int(match[1]) * _SIZES[match[2]]


def split(text: str) -> tuple[str, list[str]]:
    """The name and the numbers of "name:number,number".

    >>> split("spence:0.1,0.1"), split("in-order")
    (('spence', ['0.1', '0.1']), ('in-order', []))
    """
    name, _, rest = text.partition(":")
    return name, rest.split(",") if rest else []
