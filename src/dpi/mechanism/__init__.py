"""From a histogram and a budget to a PDF: the boosted mechanism (default) and the published one, with one protocol."""

from __future__ import annotations

from dpi.errors import OptionError
from dpi.mechanism.base import Estimate, Measurement, Mechanism

__all__ = ["Estimate", "Measurement", "Mechanism", "mechanism_named"]


def mechanism_named(name: str) -> Mechanism[object]:
    """Return a mechanism with default options, by name."""
    from dpi.mechanism.boosted import Boosted

    if name != "boosted":
        raise OptionError(f'`mechanism` must be "boosted" or a mechanism such as dpi.Published(...). Got {name!r}.')
    return Boosted()  # type: ignore[return-value]
