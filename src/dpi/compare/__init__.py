"""Comparisons of this package with the systems of others, at equal guarantee or as they were published."""

from dpi.compare.comparison import Comparison, Course
from dpi.compare.contenders import AsPublished, Capped, Contender, Ours
from dpi.compare.events import coded, slots_of
from dpi.compare.plots import plot_error, plot_loss, plot_trade_off
from dpi.compare.run import OURS, PUBLISHED_FOUR, USUAL, Mode, Terms, compare, compare_named, compare_slots, mechanisms
from dpi.compare.tables import PublishedTables, published_tables

__all__ = [
    "OURS",
    "PUBLISHED_FOUR",
    "USUAL",
    "AsPublished",
    "Capped",
    "Comparison",
    "Contender",
    "Course",
    "Mode",
    "Ours",
    "PublishedTables",
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
