"""Compressions and trees of sums as they are written on a command line."""

from __future__ import annotations

from collections.abc import Callable

from dpi.errors import OptionError
from dpi.events.identity import KEY_BYTES
from dpi.histogram.compression import Compression, normalise, truncate, truncation_key, whole_pdf
from dpi.settings.budgets import part_of, split
from dpi.stream.accumulation import PrefixTree

Keyed = Callable[[bytes], Compression]
"""A compression, once the store's key is known."""


@part_of("--compression")
def compression(text: str) -> Keyed:
    """What one user's events add to a slot; a key made of the store's decides which of them `truncate` keeps.

    >>> compression("normalise")(bytes(32)), compression("truncate:5")(bytes(32))
    (Normalise(), truncate(5, key=…))
    """
    name, numbers = split(text)
    match name, numbers:
        case "normalise", []:
            return lambda key: normalise
        case "whole-pdf", []:
            return lambda key: whole_pdf
        case "truncate", [c] if c.isdecimal():
            most = truncate(int(c), bytes(KEY_BYTES)).c  # refuses a number out of range before a store is opened
            return lambda key: truncate(most, truncation_key(key))
    raise OptionError(
        f"`--compression` must be normalise, truncate:C or whole-pdf, for example truncate:5. Got {text!r}."
    )


@part_of("--accumulate")
def accumulate(text: str) -> PrefixTree | None:
    """What the accumulative PDF is made of: the slots' own measurements, or a tree of sums.

    >>> accumulate("slots"), accumulate("tree:0.025")
    (None, PrefixTree(per_slot='0.025', arity=22, levels=3))
    """
    name, numbers = split(text)
    match name, numbers:
        case "slots", []:
            return None
        case "tree", [per_slot]:
            return PrefixTree(per_slot)
        case "tree", [per_slot, arity, levels] if arity.isdecimal() and levels.isdecimal():
            return PrefixTree(per_slot, int(arity), int(levels))
    raise OptionError(
        "`--accumulate` must be slots, tree:PER_SLOT or tree:PER_SLOT,ARITY,LEVELS, for example tree:0.025. "
        f"Got {text!r}."
    )
