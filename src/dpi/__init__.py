"""Statistics of a stream of user events, released slot after slot, with a total privacy loss of at most ε per user.

What is exported is loaded when it is first used: `import dpi` by itself takes no numpy, and no program pays for rooms
that it does not enter.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from dpi._version import __version__ as __version__

if TYPE_CHECKING:  # the same names, for those who read types; a test compares the two lists
    from dpi.budget import RBA as RBA
    from dpi.budget import Accounts as Accounts
    from dpi.budget import Converging as Converging
    from dpi.budget import Epsilon as Epsilon
    from dpi.budget import Geometric as Geometric
    from dpi.budget import Ledger as Ledger
    from dpi.budget import LogSquared as LogSquared
    from dpi.budget import Spence as Spence
    from dpi.budget import Zeta as Zeta
    from dpi.budget import clocked as clocked
    from dpi.budget import fade as fade
    from dpi.budget import spend_first as spend_first
    from dpi.certificates.signature import Signer as Signer
    from dpi.client import connect as connect
    from dpi.discovery import Discovery as Discovery
    from dpi.domain import Bins as Bins
    from dpi.domain import Categories as Categories
    from dpi.domain import Hashed as Hashed
    from dpi.domain import Product as Product
    from dpi.domain import Texts as Texts
    from dpi.domain.partition import Blocks as Blocks
    from dpi.domain.partition import Marginal as Marginal
    from dpi.errors import BudgetExceeded as BudgetExceeded
    from dpi.errors import ClockError as ClockError
    from dpi.errors import OptionError as OptionError
    from dpi.errors import SchemaError as SchemaError
    from dpi.errors import StateError as StateError
    from dpi.errors import StoreBusy as StoreBusy
    from dpi.errors import StoreError as StoreError
    from dpi.errors import WeakPromise as WeakPromise
    from dpi.events.clock import Clock as Clock
    from dpi.events.slots import Slots as Slots
    from dpi.histogram.compression import Histogram as Histogram
    from dpi.histogram.compression import compress as compress
    from dpi.histogram.compression import counts as counts
    from dpi.histogram.compression import normalise as normalise
    from dpi.histogram.compression import truncate as truncate
    from dpi.histogram.compression import whole_pdf as whole_pdf
    from dpi.mechanism.boosted import Boosted as Boosted
    from dpi.mechanism.published import Published as Published
    from dpi.mechanism.published.pool import DirichletPool as DirichletPool
    from dpi.mechanism.published.pool import MixedPool as MixedPool
    from dpi.mechanism.published.pool import Multinomial as Multinomial
    from dpi.planning import plan as plan
    from dpi.reader import Releases as Releases
    from dpi.reader import open as open
    from dpi.release import Release as Release
    from dpi.release.series_plot import plot_series as plot_series
    from dpi.sources import Batch as Batch
    from dpi.sources import BrokerEvents as BrokerEvents
    from dpi.sources import FileEvents as FileEvents
    from dpi.sources import broker as broker
    from dpi.sources import read as read
    from dpi.store import MemoryStore as MemoryStore
    from dpi.store import open_store as open_store
    from dpi.stream import Stream as Stream
    from dpi.stream.live import advance as advance
    from dpi.stream.live import follow as follow
    from dpi.stream.prefix_tree import PrefixTree as PrefixTree

_EXPORTS = {
    "dpi.budget": (
        "Accounts",
        "Converging",
        "Epsilon",
        "Geometric",
        "Ledger",
        "LogSquared",
        "RBA",
        "Spence",
        "Zeta",
        "clocked",
        "fade",
        "spend_first",
    ),
    "dpi.certificates.signature": ("Signer",),
    "dpi.client": ("connect",),
    "dpi.discovery": ("Discovery",),
    "dpi.domain": ("Bins", "Categories", "Hashed", "Product", "Texts"),
    "dpi.domain.partition": ("Blocks", "Marginal"),
    "dpi.errors": (
        "BudgetExceeded",
        "ClockError",
        "OptionError",
        "SchemaError",
        "StateError",
        "StoreBusy",
        "StoreError",
        "WeakPromise",
    ),
    "dpi.events.clock": ("Clock",),
    "dpi.events.slots": ("Slots",),
    "dpi.histogram.compression": ("Histogram", "compress", "counts", "normalise", "truncate", "whole_pdf"),
    "dpi.mechanism.boosted": ("Boosted",),
    "dpi.mechanism.published": ("Published",),
    "dpi.mechanism.published.pool": ("DirichletPool", "MixedPool", "Multinomial"),
    "dpi.planning": ("plan",),
    "dpi.reader": ("Releases", "open"),
    "dpi.release": ("Release",),
    "dpi.release.series_plot": ("plot_series",),
    "dpi.sources": ("Batch", "BrokerEvents", "FileEvents", "broker", "read"),
    "dpi.store": ("MemoryStore", "open_store"),
    "dpi.stream": ("Stream",),
    "dpi.stream.live": ("advance", "follow"),
    "dpi.stream.prefix_tree": ("PrefixTree",),
}
"""What is exported, by the module that has it."""

_HOME = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = sorted(["__version__", *_HOME])


if not TYPE_CHECKING:  # which would take any name for one of ours

    def __getattr__(name: str) -> object:
        """An exported name, or a module of the package, when it is first asked for."""
        if name in _HOME:
            found: object = getattr(import_module(_HOME[name]), name)
            globals()[name] = found
            return found
        missing = AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name.startswith("_"):
            raise missing
        try:
            return import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
            raise missing from None


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
