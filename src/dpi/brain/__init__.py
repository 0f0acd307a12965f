"""From a histogram and a budget to a PDF: the boosted brain (default) and the published one, with one protocol."""

from __future__ import annotations

from dpi.brain.base import Brain, Estimate, Measurement
from dpi.errors import OptionError

__all__ = ["Brain", "Estimate", "Measurement", "brain_named"]


def brain_named(name: str) -> Brain[object]:
    """A brain with default options, by name."""
    from dpi.brain.boosted import Boosted

    if name != "boosted":
        raise OptionError(f'`brain` must be "boosted" or a brain such as dpi.Published(...). Got {name!r}.')
    return Boosted()  # type: ignore[return-value]
