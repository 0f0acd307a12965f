"""Categories: a list of values, and how a column is looked up in it.

There are several ways to look up, by the type of a column and its length. Which one is taken decides nothing but
speed: what one of them does not find, the next one looks up.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from dpi.domain._domain import OUTSIDE, Domain
from dpi.errors import OptionError
from dpi.events.columns import LONGEST, bounded, canonical, few_texts, whole
from dpi.exact.integers import Integers

if TYPE_CHECKING:
    import polars as pl

_UNLISTED = -2
"""No code: of a text that is no category as it stands."""
_MANY = 1 << 16
"""Categories up to which other forms of their list are held beside it."""
_LONGEST = 8
"""Letters that are one number of eight bytes.

Source: by definition.
"""


class Categories(Domain):
    """A list of values; whatever is not on it goes to the bin `other` (or is dropped if `other` is None).

    Values are compared by their canonical text, so that the integer 80 and the text "80" are one category, and so is
    "80.0", unless that is a category of its own.

    >>> domain = Categories(["DE", "FR", "IT"], other="elsewhere")
    >>> domain
    Categories(['DE', 'FR', 'IT'], other='elsewhere')
    >>> domain.encode(["FR", "XX", None]).tolist()
    [1, 3, 3]
    """

    def __init__(self, values: Iterable[object], other: str | None = "other") -> None:
        import polars as pl

        texts = canonical(values, "values", exact=False)
        if texts.len() == 0:
            raise OptionError("`values` must name at least one category.")
        self._texts = texts.cast(pl.String)
        if self._texts.has_nulls():
            raise OptionError("`values` must be integers or texts, none of them missing.")
        if self._texts.n_unique() < self._texts.len():
            twice = self._texts.filter(self._texts.is_duplicated())[0]
            raise OptionError(f"`values` must not repeat a category. Got {twice!r} more than once.")
        if other is not None and (not isinstance(other, str) or other in self._texts):
            raise OptionError("`other` must be a name that is not one of the categories, or None.")
        self.other = other
        self.size = self._texts.len() + (other is not None)
        self.outside = OUTSIDE if other is None else self.size - 1

    @property
    def values(self) -> list[str]:
        """The listed categories, without `other`."""
        return self._texts.to_list()

    @cached_property
    def _lookup(self) -> pl.DataFrame:
        """Code by text: the categories as they were declared, and the whole numbers that some of them write."""
        import polars as pl

        codes = np.arange(self._texts.len())
        declared = pl.DataFrame({"value": self._texts, "code": codes})
        written = pl.DataFrame({"value": whole(self._texts), "code": codes})
        return pl.concat([declared, written]).unique("value", keep="first", maintain_order=True)

    @cached_property
    def _integers(self) -> tuple[Integers, Integers]:
        """The categories that are integers, sorted, and their codes."""
        import polars as pl

        texts = self._lookup["value"]
        integers = texts.cast(pl.Int64, strict=False)
        integers = integers.set((integers.cast(pl.String) != texts).fill_null(False), None)
        codes = self._lookup["code"].to_numpy()[integers.is_not_null().to_numpy()]
        keys = integers.drop_nulls().to_numpy()
        order = np.argsort(keys)
        return keys[order], codes[order]

    @cached_property
    def _table(self) -> Integers | None:
        """Code by integer - smallest integer, where the integers lie close together: a look-up instead of a search."""
        keys, codes = self._integers
        span = int(keys[-1]) - int(keys[0]) + 1 if keys.size else 0
        if not 0 < span <= max(1 << 17, 8 * keys.size):
            return None
        table = np.full(span + 1, self.outside, dtype=np.int64)  # the last cell is for what lies beyond
        table[keys - keys[0]] = codes
        return table

    @cached_property
    def _codes(self) -> dict[str, int]:
        """The same as a dictionary, for few rows."""
        return dict(zip(self._lookup["value"].to_list(), self._lookup["code"].to_list(), strict=True))

    @cached_property
    def _short(self) -> tuple[npt.NDArray[np.uint64], Integers]:
        """The texts of at most eight ASCII letters, each as one number, sorted, and the code of each.

        None of a list that is too long to hold twice; numpy knows no text that ends with a zero byte, so none is here.
        """
        texts = self._codes if self._lookup.height <= _MANY else {}
        plain = [text for text in texts if 0 < len(text) <= _LONGEST and text.isascii() and "\0" not in text]
        keys = np.array([text.encode() for text in plain], dtype=f"S{_LONGEST}").view(np.uint64)
        order = np.argsort(keys)
        return keys[order], np.array([texts[text] for text in plain], dtype=np.int64)[order]

    @cached_property
    def _most(self) -> int:
        """Bytes of a text that may be a category."""
        return max(LONGEST, int(cast("int", self._lookup["value"].str.len_bytes().max() or 0)))

    @cached_property
    def _listing(self) -> pl.DataType:
        """The same as a type of texts, for many."""
        import polars as pl

        return pl.Enum(self._lookup["value"])

    def encode(self, column: object) -> Integers:
        """Return the codes of a column of values."""
        codes, rows = self._find_short(column), None
        if codes is None:
            rows = few_texts(column)
            if rows is None:
                return self._encode(column)
            codes = np.fromiter(map(self._codes.get, rows, repeat(_UNLISTED)), np.int64, len(rows))
        unlisted = np.flatnonzero(codes == _UNLISTED)
        if unlisted.size:
            rest = np.asarray(column)[unlisted] if rows is None else [rows[row] for row in unlisted]
            codes[unlisted] = self._encode(rest)
        return codes

    def _find_short(self, column: object) -> Integers | None:
        """Look up a column of numpy texts, all short and ASCII, without an object for each; None for any other."""
        keys, codes = self._short
        if not keys.size or not isinstance(column, np.ndarray) or column.ndim != 1 or not column.size:
            return None
        letters = column.dtype.itemsize // 4
        if column.dtype.kind != "U" or not column.dtype.isnative or not 0 < letters <= _LONGEST:
            return None
        points = np.ascontiguousarray(column).view(np.uint32).reshape(column.size, letters)
        if points.max() > 127:
            return None
        padded = np.zeros((column.size, _LONGEST), dtype=np.uint8)
        padded[:, :letters] = points
        wanted = padded.view(np.uint64)[:, 0]
        at = np.minimum(keys.searchsorted(wanted), keys.size - 1)
        return np.where(keys.take(at) == wanted, codes.take(at), _UNLISTED)

    def _encode(self, column: object) -> Integers:
        import polars as pl

        texts = bounded(canonical(column, "value", exact=False), self._most)
        if texts.dtype == pl.Int64:
            return self._encode_integers(texts)
        codes = self._listed(texts)
        other = texts.set(codes.is_not_null(), None)
        if (written := whole(other)) is not other:
            codes = self._listed(written).zip_with(codes.is_null(), codes)
        return codes.cast(pl.Int64).fill_null(self.outside).to_numpy()

    def _listed(self, texts: pl.Series) -> pl.Series:
        """Codes of the texts, missing where one is on no list."""
        known = self._lookup
        if known.height <= _MANY:
            at = texts.cast(self._listing, strict=False).to_physical()
            return at if known.height == self._texts.len() else known["code"].gather(at)
        frame = texts.alias("value").to_frame()
        return frame.join(known, on="value", how="left", maintain_order="left")["code"]

    def _encode_integers(self, column: pl.Series) -> Integers:
        keys, codes = self._integers
        known = column.fill_null(0).to_numpy()
        if self._table is not None:
            # As unsigned numbers, what lies below the smallest integer lies beyond the largest: one comparison.
            steps = (known - keys[0]).view(np.uint64)
            coded: Integers = self._table[np.minimum(steps, np.uint64(self._table.size - 1)).view(np.int64)]
        elif keys.size:
            at = np.minimum(np.searchsorted(keys, known), keys.size - 1)
            coded = np.where(keys[at] == known, codes[at], self.outside)
        else:
            coded = np.full(known.size, self.outside, dtype=np.int64)
        if column.has_nulls():
            coded[column.is_null().to_numpy()] = self.outside
        return coded

    def label(self, code: int) -> str:
        """Return the category, or the name of `other`."""
        self._check_code(code)
        return str(self._texts[code]) if code < self._texts.len() else str(self.other)

    def _description(self) -> Iterable[object]:
        yield {"other": self.other}
        yield from self._texts

    def _facts(self) -> dict[str, str]:
        elsewhere = "dropped" if self.other is None else self.other
        return {"values": self._some(self._texts.len()), "everything else": elsewhere}

    def __repr__(self) -> str:
        values = self._texts.to_list() if self._texts.len() <= 6 else [*self._texts[:3], ..., self._texts[-1]]
        listed = ", ".join("…" if v is ... else repr(v) for v in values)
        count = "" if self._texts.len() <= 6 else f" ({self._texts.len():,} values)"
        return f"Categories([{listed}]{count}, other={self.other!r})"
