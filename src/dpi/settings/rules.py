"""Rules as they are written in one text: series, draws, policies, compressions, trees of sums, sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal, TypeVar

from dpi.budget import RBA, Geometric, LogSquared, Spence, Zeta, clocked, fade, spend_first
from dpi.budget.allocation import RBARanges
from dpi.budget.policy import Policy
from dpi.budget.series import Series
from dpi.errors import OptionError
from dpi.histogram.compression import Compression, normalise, truncate, truncation_key, whole_pdf
from dpi.mechanism.base import Mechanism
from dpi.mechanism.boosted import Boosted
from dpi.mechanism.published import Published
from dpi.stream.prefix_tree import PrefixTree

Made = TypeVar("Made")
_SIZES = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}


def _read_rule(option: str, text: str, kinds: Mapping[tuple[str, int], Callable[..., Made]], forms: str) -> Made:
    """Return what "name:number,number" means; a number that is wrong is told under the option that has the rule."""
    name, _, rest = text.partition(":")
    numbers = rest.split(",") if rest else []
    try:
        return kinds[name, len(numbers)](*numbers)
    except OptionError as error:
        raise OptionError(f"`{option}`: {error}") from None
    except (KeyError, ValueError):
        raise OptionError(f"`{option}` must be {forms}. Got {text!r}.") from None


def read_series(text: str, option: str = "converging") -> Series:
    """Return a converging series.

    >>> read_series("zeta:2"), read_series("log-squared"), read_series("spence:0.1,0.1").constant
    (Zeta(2), LogSquared(), Fraction(200, 1))
    """
    kinds: Mapping[tuple[str, int], Callable[..., Series]] = {
        ("log-squared", 0): LogSquared, ("zeta", 1): Zeta, ("geometric", 1): Geometric, ("spence", 2): Spence,
    }  # fmt: skip
    return _read_rule(option, text, kinds, "log-squared, zeta:S, geometric:R or spence:MU,ZETA, for example zeta:2")


def read_draw(text: str) -> RBA | RBARanges | None:
    """Return how a series is drawn from.

    >>> read_draw("rba:1e8"), read_draw("in-order")
    (RBA(1e+08), None)
    """
    kinds: Mapping[tuple[str, int], Callable[..., RBA | RBARanges | None]] = {
        ("in-order", 0): lambda: None, ("rba", 1): RBA, ("ranges", 2): RBA.ranges,
    }  # fmt: skip
    return _read_rule("draw", text, kinds, "in-order, rba:LAMBDA or ranges:LARGE,SMALL, for example rba:1e8")


def read_policy(text: str) -> Policy | Literal["auto"]:
    """Return how much of a slot a user takes part in.

    >>> read_policy("spend-first"), read_policy("fade:log-squared"), read_policy("clocked:12")
    (SpendFirst(), Fade(series=LogSquared()), Clocked(top=12))
    """
    name, _, rest = text.partition(":")
    if name == "fade" and rest:
        return fade(read_series(rest, "policy"))
    kinds: Mapping[tuple[str, int], Callable[..., Policy | Literal["auto"]]] = {
        ("auto", 0): lambda: "auto", ("spend-first", 0): lambda: spend_first, ("fade", 0): fade,
        ("clocked", 0): clocked, ("clocked", 1): lambda top: clocked(int(top)),
    }  # fmt: skip
    forms = "auto, spend-first, fade, fade:SERIES, clocked or clocked:TOP, for example fade:zeta:2"
    return _read_rule("policy", text, kinds, forms)


def read_every(text: str) -> int | Literal["auto"]:
    """Return in which slots most of a budget is spent: every so many, or as few as the stream allows."""
    if text == "auto":
        return "auto"
    if not text.isdecimal() or int(text) < 1:
        raise OptionError(f"`every` must be auto, or a whole number above 0. Got {text!r}.")
    return int(text)


def read_mechanism(name: str, season: int | None) -> Mechanism[object]:
    """Return a mechanism by name."""
    if name == "boosted":
        return Boosted(season=season)  # type: ignore[return-value]
    if name != "published":
        raise OptionError(f"`mechanism` must be boosted or published. Got {name!r}.")
    if season is not None:
        raise OptionError("`season` is for the boosted mechanism.")
    return Published()  # type: ignore[return-value]


def read_compression(text: str, key: bytes) -> Compression:
    """Return what one user's events add to a slot; a key made of the store's decides which of them `truncate` keeps.

    >>> read_compression("normalise", bytes(32)), read_compression("truncate:5", bytes(32))
    (Normalise(), truncate(5, key=…))
    """
    kinds: Mapping[tuple[str, int], Callable[..., Compression]] = {
        ("normalise", 0): lambda: normalise, ("whole-pdf", 0): lambda: whole_pdf,
        ("truncate", 1): lambda c: truncate(int(c), truncation_key(key)),
    }  # fmt: skip
    return _read_rule("compression", text, kinds, "normalise, truncate:C or whole-pdf, for example truncate:5")


def read_tree(text: str) -> PrefixTree | None:
    """Return what the accumulative PDF is made of: a tree of sums, or None for the slots' own measurements.

    >>> read_tree("slots"), read_tree("tree:0.025")
    (None, PrefixTree(per_slot='0.025', arity=22, levels=3))
    """
    kinds: Mapping[tuple[str, int], Callable[..., PrefixTree | None]] = {
        ("slots", 0): lambda: None, ("tree", 1): PrefixTree,
        ("tree", 3): lambda per_slot, arity, levels: PrefixTree(per_slot, int(arity), int(levels)),
    }  # fmt: skip
    forms = "slots, tree:PER_SLOT or tree:PER_SLOT,ARITY,LEVELS, for example tree:0.025"
    return _read_rule("accumulate", text, kinds, forms)


def read_size(text: str, option: str) -> int:
    """Return the bytes of "500MB", "2GiB" …

    >>> read_size("1GiB", "memory"), read_size("500 MB", "memory")
    (1073741824, 500000000)
    """
    match = re.fullmatch(r"(\d+)\s*([kmg]i?b|)", text.strip().lower())
    if match is None or int(match[1]) == 0:
        raise OptionError(f"`{option}` must be a number of bytes such as 500MB or 2GiB. Got {text!r}.")
    return int(match[1]) * _SIZES[match[2]]
