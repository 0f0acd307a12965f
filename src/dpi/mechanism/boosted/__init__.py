"""Measure once, then boost for free: experts that forecast from past releases, weighed by how well they did."""

from dpi.mechanism.boosted.boosted import Boosted

__all__ = ["Boosted"]
