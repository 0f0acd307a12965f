"""Statistics of a stream of user events, released slot after slot, with a total privacy loss of at most ε per user."""

from dpi.brain.boosted import Boosted
from dpi.brain.published import Published
from dpi.budget import (
    RBA,
    Accounts,
    Converging,
    Epsilon,
    Geometric,
    Ledger,
    LogSquared,
    Spence,
    Zeta,
    fade,
    spend_first,
)
from dpi.compression import Histogram, compress, counts, normalise, truncate, whole_pdf
from dpi.domain import Bins, Categories, Hashed, Product
from dpi.errors import BudgetExceeded, ClockError, OptionError, SchemaError, StateError
from dpi.partition import Blocks, Marginal
from dpi.plan import plan
from dpi.plots import plot_series
from dpi.prefix_tree import PrefixTree
from dpi.release import Release
from dpi.slots import Clock, Slots
from dpi.stream import Stream
from dpi.synopsis.pool import DirichletPool, MixedPool, Multinomial

__version__ = "0.1.0"

__all__ = [
    "RBA",
    "Accounts",
    "Bins",
    "Blocks",
    "Boosted",
    "BudgetExceeded",
    "Categories",
    "Clock",
    "ClockError",
    "Converging",
    "DirichletPool",
    "Epsilon",
    "Geometric",
    "Hashed",
    "Histogram",
    "Ledger",
    "LogSquared",
    "Marginal",
    "MixedPool",
    "Multinomial",
    "OptionError",
    "PrefixTree",
    "Product",
    "Published",
    "Release",
    "SchemaError",
    "Slots",
    "Spence",
    "StateError",
    "Stream",
    "Zeta",
    "compress",
    "counts",
    "fade",
    "normalise",
    "plan",
    "plot_series",
    "spend_first",
    "truncate",
    "whole_pdf",
]
