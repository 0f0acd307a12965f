"""Statistics of a stream of user events, released slot after slot, with a total privacy loss of at most ε per user."""

from dpi._version import __version__
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
from dpi.errors import BudgetExceeded, ClockError, OptionError, SchemaError, StateError, StoreBusy, StoreError
from dpi.partition import Blocks, Marginal
from dpi.plan import plan
from dpi.plots import plot_series
from dpi.prefix_tree import PrefixTree
from dpi.release import Release
from dpi.signature import Signer
from dpi.slots import Clock, Slots
from dpi.sources import Batch, FileEvents, Position, read
from dpi.store import MemoryStore, open_store
from dpi.stream import Stream
from dpi.synopsis.pool import DirichletPool, MixedPool, Multinomial

__all__ = [
    "RBA",
    "Accounts",
    "Batch",
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
    "FileEvents",
    "Geometric",
    "Hashed",
    "Histogram",
    "Ledger",
    "LogSquared",
    "Marginal",
    "MemoryStore",
    "MixedPool",
    "Multinomial",
    "OptionError",
    "Position",
    "PrefixTree",
    "Product",
    "Published",
    "Release",
    "SchemaError",
    "Signer",
    "Slots",
    "Spence",
    "StateError",
    "StoreBusy",
    "StoreError",
    "Stream",
    "Zeta",
    "__version__",
    "compress",
    "counts",
    "fade",
    "normalise",
    "open_store",
    "plan",
    "plot_series",
    "read",
    "spend_first",
    "truncate",
    "whole_pdf",
]
