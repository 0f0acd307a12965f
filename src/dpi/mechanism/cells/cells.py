"""The cells of which classes are made, as arrays.

Users are known by classes, m being the number of their payments. A class has two cells: users who have *paid* their
m-th time since class m was last measured, and those who were *behind*, absent when it was. What is in them is public:
made of counts after noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import attrgetter

import numpy as np

from dpi.mechanism.base import Floats
from dpi.mechanism.cells import dynamics

PAID, BEHIND = 0, 1
"""Where the two cells of a class lie in arrays.

Source: by definition.
"""


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells: arrays of shape (2, classes, …), `PAID` and `BEHIND` of every class. Class 0 has none: it is new."""

    size: Floats
    """Users at their last measurement."""
    doubt: Floats
    """Relative variance of that."""
    age: Floats
    """Slots since then."""
    left: Floats
    """What they have left on average, as a share of ε."""
    weights: Floats
    """Of the dynamics, by what the cell's forefathers have shown."""
    mean: Floats
    """Their PDF when they were measured."""
    variance: Floats
    walk: Floats
    """Where the common drift was then."""

    @classmethod
    def empty(cls, bins: int, classes: int) -> Cells:
        """Nobody has paid yet."""
        shape = (2, classes)
        return cls(
            size=np.zeros(shape),
            doubt=np.zeros(shape),
            age=np.zeros(shape),
            left=np.ones(shape),
            weights=np.broadcast_to(dynamics.PRIOR, (*shape, dynamics.PRIOR.size)).copy(),
            mean=np.full((*shape, bins), 1 / bins),
            variance=np.full((*shape, bins), 1 / bins**2),
            walk=np.zeros((*shape, bins)),
        )

    def __getitem__(self, key: tuple[int | slice, ...] | int | slice) -> Cells:
        return Cells(*[part[key] for part in _parts(self)])

    def copied(self) -> Cells:
        """The same in arrays of its own."""
        return Cells(*[part.copy() for part in _parts(self)])


_parts: Callable[[Cells], tuple[Floats, ...]] = attrgetter(*(field.name for field in fields(Cells)))
