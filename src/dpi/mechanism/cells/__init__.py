"""The estimator of the clocked ledger: users by the number of their payments, each class with a law and a size."""

from dpi.mechanism.cells._estimate import measured, unmeasured
from dpi.mechanism.cells._law import ClassCounts
from dpi.mechanism.cells._state import (
    CellsState,
    classes_of,
    digested,
    from_bytes,
    holds,
    initial,
    remembers,
    shares,
    to_bytes,
)

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
