"""The histogram of a slot over texts that nobody has listed: private, with the texts that are in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dpi.errors import OptionError
from dpi.histogram.compression import Histogram


@dataclass(frozen=True, eq=False)
class TextHistogram(Histogram):
    """Grains of every text that somebody has in the slot; of all other texts of the universe they are zero.

    Which texts there are, and how many, is as private as the grains: neither is shown.
    """

    texts: Sequence[str] = field(default=(), repr=False)
    """Different texts of the universe, one for each number of grains."""

    def __post_init__(self) -> None:
        if not len(self.texts) == len(set(self.texts)) == self.grains.size:
            raise OptionError("a histogram over texts must have different texts, one for each number of grains.")

    def __repr__(self) -> str:
        return "TextHistogram(private)"
