"""Statistics of a stream of user events, released slot after slot, with a total privacy loss of at most ε per user."""

from dpi.budget import RBA, Converging, Epsilon, Geometric, Ledger, LogSquared, Spence, Zeta, fade, spend_first
from dpi.compression import Histogram, compress, counts, normalise, truncate, whole_pdf
from dpi.domain import Bins, Categories, Hashed, Product
from dpi.errors import BudgetExceeded, ClockError, OptionError, SchemaError, StateError
from dpi.slots import Clock, Slots

__version__ = "0.1.0"

__all__ = [
    "RBA",
    "Bins",
    "BudgetExceeded",
    "Categories",
    "Clock",
    "ClockError",
    "Converging",
    "Epsilon",
    "Geometric",
    "Hashed",
    "Histogram",
    "Ledger",
    "LogSquared",
    "OptionError",
    "Product",
    "SchemaError",
    "Slots",
    "Spence",
    "StateError",
    "Zeta",
    "compress",
    "counts",
    "fade",
    "normalise",
    "spend_first",
    "truncate",
    "whole_pdf",
]
