"""Comparisons of this package with the systems of others, at equal guarantee or as they were published."""

from dpi.compare.comparison import Comparison, Course
from dpi.compare.contenders import AsPublished, Capped, Contender, Ours
from dpi.compare.run import OURS, PUBLISHED_FOUR, Mode, Terms, compare, compare_named

__all__ = [
    "OURS",
    "PUBLISHED_FOUR",
    "AsPublished",
    "Capped",
    "Comparison",
    "Contender",
    "Course",
    "Mode",
    "Ours",
    "Terms",
    "compare",
    "compare_named",
]
