"""What slots that no account remembers can have taken: after an old copy of a store was put back. Private amounts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from dpi.budget.classes import most_taken
from dpi.budget.epsilon import LARGEST
from dpi.exact.integers import Integers


@dataclass(frozen=True)
class Lost:
    """Slots of one stream whose payments no account remembers: public."""

    slots: range
    units: int
    """What they have cost together, where users are not measured by class."""
    largest: tuple[int, ...] | None = None
    """With classes: the largest share of what is left that each was asked for, in steps …"""
    restored: tuple[int, ...] = ()
    """… and the slots among these after which an old copy of the accounts went on before."""


def most_lost(
    lost: Mapping[str, Lost], left: Integers, payments: Callable[[str], Integers], here: Callable[[int], bool], top: int
) -> Integers:
    """What the lost slots of all streams can have taken at most from accounts that have this much left.

    Each stream counts as if it had found all of it. `payments` gives how often each account has paid in a stream that
    measures by class, whose top class is `top`, and `here` says whether a slot is in the epoch that is charged.
    """
    taken = np.zeros_like(left)
    for stream, each in lost.items():
        if each.largest is None:
            taken += min(each.units, LARGEST)
        else:
            slots = [slot for slot in each.slots if here(slot)]
            taken += most_taken(payments(stream), left, slots, each.largest, top, each.restored)
    return np.minimum(taken, left)
