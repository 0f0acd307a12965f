"""Comparisons of this package with the systems of others, at equal guarantee or as they were published."""

from dpi_research.compare.comparison import Comparison, Result
from dpi_research.compare.run import Terms, compare, compare_named, compare_slots
from dpi_research.compare.tables import published_tables

__all__ = ["Comparison", "Result", "Terms", "compare", "compare_named", "compare_slots", "published_tables"]
