"""The estimator of the clocked ledger: users by the number of their payments, each class with a law and a size."""

from dpi.mechanism.cells.counts import ClassCounts
from dpi.mechanism.cells.estimate import measured, unmeasured
from dpi.mechanism.cells.shares import shares
from dpi.mechanism.cells.state import CellsState, classes_of, digested, from_bytes, holds, initial, remembers, to_bytes

__all__ = [
    "CellsState",
    "ClassCounts",
    "classes_of",
    "digested",
    "from_bytes",
    "holds",
    "initial",
    "measured",
    "remembers",
    "shares",
    "to_bytes",
    "unmeasured",
]
