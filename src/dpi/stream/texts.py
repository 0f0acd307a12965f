"""Texts of a slot's events, where no list says which values there are: private, and gone with the process.

Texts are numbered as they come. The numbers mean nothing outside of one reading, and no public thing is made of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from dpi.domain import OUTSIDE, Domain, Texts
from dpi.errors import OptionError
from dpi.events.columns import canonical, short, whole
from dpi.events.identity import digests, extend
from dpi.events.rows import Rows, changes, sizes
from dpi.events.slots import FOR_EVER, Window
from dpi.exact.integers import Integers
from dpi.exact.silence import silence
from dpi.sources import Admission, Events

ELSEWHERE = 0
"""The number of all texts that are not of the universe: they are part of what a user did, and never shown."""
MOST_TEXTS = 16
"""Different texts of one user in one slot that count, where texts are discovered for ever. Source: chosen."""


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
        """Return the number of the text in each row."""
        import polars as pl

        texts = whole(short(canonical(column, "value", exact=False))).cast(pl.String).alias("value")
        different = texts.drop_nulls().unique()
        numbers = [self._number(text) for text in different.to_list()]
        known = different.to_frame().with_columns(pl.Series("number", numbers, dtype=pl.Int64))
        by_row = texts.to_frame().join(known, on="value", how="left", maintain_order="left")["number"]
        return by_row.fill_null(OUTSIDE).to_numpy()

    def _number(self, text: str) -> int:
        if text not in self._universe:
            return ELSEWHERE
        if text not in self._numbers:
            self._numbers[text] = len(self._texts)
            self._texts.append(text)
        return self._numbers[text]

    def numbered(self, numbers: Integers) -> tuple[list[str], Integers]:
        """Sort the texts of some rows, and return for each row the place of its text there, from 1 on.

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

    def renumber(self, rows: Rows, into: SeenTexts) -> Rows:
        """Return rows by the numbers of another reading, which takes the texts of these rows and no others."""
        here, at = np.unique(rows.bins, return_inverse=True)
        numbers = [into._number(self._texts[number]) if number > ELSEWHERE else number for number in here.tolist()]
        return replace(rows, bins=np.array(numbers, dtype=np.int64)[at.ravel()], grouped=False)

    def kept(self, rows: Rows, key: bytes) -> Rows:
        """Return at most `MOST_TEXTS` texts of each account and slot: those of lowest keyed hash of account and text.

        One user's flood of texts is so cut before it is numbered, held or counted. *Why it tells nothing of others:*
        which texts stay is a function of the account's own texts, whatever batches they came in: what is among the
        lowest of all is among the lowest of every part.
        """
        import polars as pl

        rows = Rows.sum([rows])
        new = np.flatnonzero(changes(*rows.names.T, rows.slots))
        count = sizes(new, len(rows)) if new.size else new
        crowded = np.flatnonzero(np.repeat(count > MOST_TEXTS, count))
        if not crowded.size:
            return rows
        group = np.repeat(np.arange(new.size), count)[crowded]
        here, at = np.unique(rows.bins[crowded], return_inverse=True)
        texts = digests(pl.Series([self._texts[number] for number in here.tolist()]), key)
        priority = extend(rows.names[crowded], texts[at.ravel()], key)
        order = np.lexsort((priority[:, 1], priority[:, 0], group))
        first = np.searchsorted(group[order], group[order])
        stay = np.ones(len(rows), dtype=np.bool_)
        stay[crowded[order[np.arange(order.size) - first >= MOST_TEXTS]]] = False
        return rows.only(stay)

    def label(self, code: int) -> str:
        """Refuse: texts that were seen are private."""
        raise OptionError("texts that were seen have no names.")

    def _description(self) -> Iterable[object]:
        raise OptionError("texts that were seen are private, and no public domain.")


@dataclass(frozen=True, eq=False, repr=False)
class TextRows(Rows):
    """Rows whose bins are numbers of texts, which mean nothing without the reading that gave them."""

    seen: SeenTexts

    @classmethod
    def read(cls, rows: Rows, seen: SeenTexts) -> TextRows:
        """Return rows with the texts of their reading."""
        return cls(rows.names, rows.slots, rows.bins, rows.counts, seen)


@dataclass(frozen=True, repr=False)
class TextAdmission(Admission):
    """An admission by the texts of events: of each batch, texts that no user keeps are forgotten at once."""

    universe: Texts | None = None

    @silence()
    def admit(self, events: Events, window: Window = FOR_EVER) -> Rows:
        """Return the rows of the texts that each user keeps."""
        assert self.universe is not None  # noqa: S101 - there is no other use
        assert isinstance(self.domain, SeenTexts)  # noqa: S101 - idem
        batch = SeenTexts(self.universe)
        rows = Admission(self.slots, batch, self.key, self.first, self.last, self.ids).admit(events, window)
        return batch.renumber(batch.kept(rows, self.key), self.domain)
