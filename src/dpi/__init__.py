"""Publish what share of your users did what, every hour or day, with differential privacy: one budget ε per user.

What an everyday task needs has its name here; the rest is in the rooms, such as `dpi.budget.Zeta` or `dpi.errors`. Both
are loaded when they are first used: `import dpi` by itself takes no numpy, and no program pays for rooms that it does
not enter.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from dpi._version import __version__

if TYPE_CHECKING:  # the same names, for those who read types; a test compares the two lists
    from dpi import budget as budget
    from dpi import domain as domain
    from dpi import errors as errors
    from dpi import events as events
    from dpi import histogram as histogram
    from dpi import mechanism as mechanism
    from dpi import reader as reader
    from dpi import sources as sources
    from dpi import store as store
    from dpi import stream as stream
    from dpi.budget import Converging, Ledger, spend_first
    from dpi.certificates.signature import Signer
    from dpi.client import connect
    from dpi.discovery import Discovery
    from dpi.domain import Amounts, Bins, Categories, Hashed, Product, Texts
    from dpi.errors import OptionError, StateError, StoreError
    from dpi.events.slots import Slots
    from dpi.mechanism.boosted import Boosted
    from dpi.mechanism.published import Published
    from dpi.planning import plan
    from dpi.reader import open
    from dpi.release import Release
    from dpi.release.series_plot import plot_series
    from dpi.sources import broker, read
    from dpi.store import MemoryStore, open_store
    from dpi.stream import Stream
    from dpi.stream.live import advance, follow

__all__ = [
    "Amounts", "Bins", "Boosted", "Categories", "Converging", "Discovery", "Hashed", "Ledger", "MemoryStore",
    "OptionError", "Product", "Published", "Release", "Signer", "Slots", "StateError", "StoreError", "Stream", "Texts",
    "__version__", "advance", "broker", "connect", "follow", "open", "open_store", "plan", "plot_series", "read",
    "spend_first",
]  # fmt: skip

_HOME = {
    name: module
    for module, names in {
        "dpi.budget": ("Converging", "Ledger", "spend_first"),
        "dpi.certificates.signature": ("Signer",),
        "dpi.client": ("connect",),
        "dpi.discovery": ("Discovery",),
        "dpi.domain": ("Amounts", "Bins", "Categories", "Hashed", "Product", "Texts"),
        "dpi.errors": ("OptionError", "StateError", "StoreError"),
        "dpi.events.slots": ("Slots",),
        "dpi.mechanism.boosted": ("Boosted",),
        "dpi.mechanism.published": ("Published",),
        "dpi.planning": ("plan",),
        "dpi.reader": ("open",),
        "dpi.release": ("Release",),
        "dpi.release.series_plot": ("plot_series",),
        "dpi.sources": ("broker", "read"),
        "dpi.store": ("MemoryStore", "open_store"),
        "dpi.stream": ("Stream",),
        "dpi.stream.live": ("advance", "follow"),
    }.items()
    for name in names
}
"""The module that has each exported name."""


if not TYPE_CHECKING:  # which would take any name for one of ours

    def __getattr__(name: str) -> object:
        """Return an exported name, or a module of the package, when it is first asked for."""
        if name in _HOME:
            exported: object = getattr(import_module(_HOME[name]), name)
            globals()[name] = exported
            return exported
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
