"""A domain that grows: values that were discovered so far, and a bin for all others.

Knows public values; which of them there are follows from releases (`dpi.mechanism.value_discovery`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from dpi.domain._categories import Categories
from dpi.domain._domain import Domain
from dpi.domain._texts import Texts
from dpi.errors import OptionError
from dpi.events.columns import read
from dpi.exact.integers import Integers


class Discovered(Categories):
    """Values of a universe of texts that a stream has found so far; at its beginning there are none.

    >>> domain = Discovered(Texts(32))
    >>> domain.size, Discovered(Texts(32), ["/home"]).encode(["/home", "/shop"]).tolist()
    (1, [0, 1])
    """

    grows = True

    def __init__(self, texts: Texts, values: Sequence[str] = (), other: str = "other") -> None:
        if not isinstance(texts, Texts):
            raise OptionError("`texts` must be a universe of texts, for example dpi.Texts(32).")
        if not all(value in texts for value in values):
            raise OptionError("values that were discovered must be texts of their universe.")
        if values:
            super().__init__(values, other)
        else:
            import polars as pl

            self._texts, self.other, self.size, self.outside = pl.Series([], dtype=pl.String), other, 1, 0
        self.texts = texts

    def encode(self, column: object) -> Integers:
        """Return the codes of a column of values; before any was found all are others."""
        return super().encode(column) if self.size > 1 else np.zeros(len(read(column, "value")), dtype=np.int64)

    def same_rows(self, other: Domain) -> bool:
        """Tell whether rows of both are the same: they hold texts, so they are if the universe is."""
        return isinstance(other, Discovered) and (other.texts, other.other) == (self.texts, self.other)

    def _description(self) -> Iterable[object]:
        return [*self.texts._description(), self.values, self.other]

    def __repr__(self) -> str:
        return f"Discovered({self.texts!r}, {self.values!r})" if self.size < 8 else f"Discovered({self.texts!r}, …)"
