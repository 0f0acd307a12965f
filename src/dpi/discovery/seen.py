"""The texts that events hold, numbered as they come: private, and gone with the process.

Readers of events turn a column of values into numbers by a domain. Where values are discovered there is no list, so
the numbers are made here; they mean nothing outside of one reading, and no public thing is made of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from dpi.domain import OUTSIDE, Domain, Texts
from dpi.errors import OptionError
from dpi.events.columns import canonical, whole
from dpi.events.identity import short
from dpi.exact.integers import Integers

if TYPE_CHECKING:
    import polars as pl

ELSEWHERE = 0
"""The number of all texts that are not of the universe: they are part of what a user did, and never shown."""


class SeenTexts(Domain):
    """Numbers of the texts of a universe; a text that was not seen before gets the next one.

    A row is told by itself: which number a text has depends on the order of rows, which text it is does not. Values
    are the same exactly if their canonical text is (`dpi.events.columns`). A missing value, or one of more than 1,024
    bytes, is no event.

    >>> seen = SeenTexts(Texts(5))
    >>> red, blue, again, long, missing = seen.encode(["red", "blue", "red", "much too long", None]).tolist()
    >>> red == again != blue, long, missing
    (True, 0, -1)
    """

    size = 1 << 40

    def __init__(self, universe: Texts) -> None:
        self._universe = universe
        self._numbers: dict[str, int] = {}
        self._texts: list[str] = [""]

    def encode(self, column: object) -> Integers:
        """The number of the text in each row."""
        import polars as pl

        texts = whole(short(canonical(column, "value", exact=False))).cast(pl.String).alias("value")
        different = texts.drop_nulls().unique()
        numbers = [self._number(text) for text in different.to_list()]
        known = different.to_frame().with_columns(_column("number", numbers))
        found = texts.to_frame().join(known, on="value", how="left", maintain_order="left")["number"]
        return found.fill_null(OUTSIDE).to_numpy()

    def _number(self, text: str) -> int:
        if text not in self._universe:
            return ELSEWHERE
        if text not in self._numbers:
            self._numbers[text] = len(self._texts)
            self._texts.append(text)
        return self._numbers[text]

    def numbered(self, numbers: Integers) -> tuple[list[str], Integers]:
        """The texts of some rows, sorted, and for each row the place of its text there, from 1 on.

        So what is made of the rows does not depend on which numbers texts have.
        """
        here = np.unique(numbers[numbers > ELSEWHERE])
        texts = sorted((self._texts[number], number) for number in here.tolist())
        place = np.zeros(here.size, dtype=np.int64)
        place[np.searchsorted(here, [number for _, number in texts])] = np.arange(1, here.size + 1)
        codes = np.minimum(numbers, ELSEWHERE)
        listed = numbers > ELSEWHERE
        codes[listed] = place[np.searchsorted(here, numbers[listed])]
        return [text for text, _ in texts], codes

    def label(self, code: int) -> str:
        """Refused: texts that were seen are private."""
        raise OptionError("texts that were seen have no names.")

    def _description(self) -> Iterable[object]:
        raise OptionError("texts that were seen are private, and no public domain.")


def _column(name: str, values: list[int]) -> pl.Series:
    import polars as pl

    return pl.Series(name, values, dtype=pl.Int64)
