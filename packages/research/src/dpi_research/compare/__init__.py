"""Comparisons of this package with the systems of others, at equal guarantee or as they were published."""

from dpi_research.compare.comparison import Comparison, Result, plot_error, plot_loss, plot_trade_off
from dpi_research.compare.contenders import AsPublished, Capped, Contender, Ours
from dpi_research.compare.run import (
    OURS,
    PUBLISHED_FOUR,
    USUAL,
    Mode,
    Terms,
    coded,
    compare,
    compare_named,
    compare_slots,
    mechanisms,
    slots_of,
)
from dpi_research.compare.tables import PublishedTables, published_tables

__all__ = [
    "OURS",
    "PUBLISHED_FOUR",
    "USUAL",
    "AsPublished",
    "Capped",
    "Comparison",
    "Contender",
    "Mode",
    "Ours",
    "PublishedTables",
    "Result",
    "Terms",
    "coded",
    "compare",
    "compare_named",
    "compare_slots",
    "mechanisms",
    "plot_error",
    "plot_loss",
    "plot_trade_off",
    "published_tables",
    "slots_of",
]
