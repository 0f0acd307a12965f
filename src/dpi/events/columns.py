"""What arrives: a column of any library, as one canonical form.

Whether a column holds integers, text or floats is often decided by the reader from the data: one odd row turns a
column of integers into text, one missing row turns it into floats. If that changed how *other* rows are understood,
one user could change what everybody contributes. So:

* Two values are the same exactly if their canonical text is the same: the integer 1, the float 1.0 and the text "1" are
  one value, by declaration. So is the text "1.0": one tool writes so what another writes as 1 (`whole`).
* Columns with a type of their own are read as a whole, columns of Python objects row by row, and both give the same
  result for the same row.
* A row that has no canonical text (missing, not a number, an object of an unknown type) is empty, by itself.

Few rows: there plain Python or numpy is faster than a data frame, whose every call costs as much as many rows. Whatever
takes another way for them has the same result row by row, so that the number of rows decides nothing but speed.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, cast
from uuid import UUID

import numpy as np
import numpy.typing as npt

from dpi.errors import SchemaError
from dpi.exact.integers import Integers

if TYPE_CHECKING:
    import polars as pl

EXACT_FLOAT = {8: 1 << 53, 4: 1 << 24, 2: 1 << 11}
"""By bytes: floats below this hold every integer; from it on, two ids could have become one."""
_FLOAT = r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+(?:[eE]\+?[0-9]+)?|[eE]\+[0-9]+)$|^-0$"
"""How tools write floats: with a point, or with an exponent that has a sign. `12e4` may be hexadecimal, and is not."""
_LONGEST_FLOAT = 32
"""Bytes; no tool writes a float in more. So there are few ways to write one id."""


def read(column: object, name: str) -> pl.Series | list[object]:
    """Return the column as a polars series if it has a type of its own, else as a list of Python objects.

    >>> read([1, 2], "value").dtype
    Int64
    >>> read([1, None, "x"], "value")
    [1, None, 'x']
    """
    import polars as pl

    if isinstance(column, pl.Series):
        return _plain(column, name)
    series = _read_arrow(column, name)
    if series is not None:
        return series
    if hasattr(column, "to_numpy"):
        try:
            column = column.to_numpy()
        except (TypeError, ValueError):  # of Arrow; its text may quote a row
            raise SchemaError(f"`{name}` must hold plain values. Got a column of another kind.") from None
    if isinstance(column, np.ndarray):
        return _read_array(column, name)
    if isinstance(column, str | bytes) or not isinstance(column, Iterable):
        raise SchemaError(f"`{name}` must be a column: an array, a series or a list. Got {type(column).__name__}.")
    return _read_rows(list(column))


def _read_arrow(column: object, name: str) -> pl.Series | list[object] | None:
    """Return the column of any Arrow PyCapsule object; None of others, and where Arrow cannot read it."""
    import polars as pl

    untyped = getattr(getattr(column, "dtype", None), "kind", None) == "O"
    if untyped or not (hasattr(column, "__arrow_c_stream__") or hasattr(column, "__arrow_c_array__")):
        return None
    try:
        return _plain(pl.Series(cast("Iterable[object]", column)), name)
    except (ImportError, NotImplementedError, TypeError, ValueError, pl.exceptions.PolarsError):
        return None  # pandas without pyarrow: as numpy


def _read_array(column: npt.NDArray[np.generic], name: str) -> pl.Series | list[object]:
    """Return the column of an array: as a whole where its type has few ways to be written, else row by row."""
    import polars as pl

    if column.ndim != 1:
        raise SchemaError(f"`{name}` must be a column with one dimension. Got {column.ndim}.")
    if column.dtype.kind in "iufb" and column.dtype.itemsize <= 8:  # wider floats: row by row
        return pl.Series(column)
    if column.dtype.kind == "M":
        return _moments(cast("npt.NDArray[np.datetime64]", column))
    if column.dtype.kind == "U":
        try:
            return pl.Series(column)
        except UnicodeError:
            pass  # lone surrogates: row by row
    return _read_rows(column.tolist())


def _read_rows(rows: list[object]) -> pl.Series | list[object]:
    """Return Python objects as a series if they are of one plain type, else as they are."""
    import polars as pl

    kinds = {type(row) for row in rows} - {type(None)}
    # An integer that polars cannot hold would be printed by its error, or by the failure of that: it is kept from it.
    if len(kinds) == 1 and kinds <= {int, float, str} and (kinds != {int} or _are_words(rows)):
        try:
            return pl.Series(rows, strict=True)
        except (OverflowError, TypeError, UnicodeError, pl.exceptions.PolarsError):
            pass  # lone surrogates
    return rows


def _are_words(rows: list[object]) -> bool:
    numbers = cast("list[int]", [row for row in rows if row is not None])
    return min(numbers) >= -(1 << 63) and max(numbers) < 1 << 64


def _plain(column: pl.Series, name: str) -> pl.Series | list[object]:
    import polars as pl

    if isinstance(column.dtype, pl.Object):
        return column.to_list()
    if isinstance(column.dtype, pl.Categorical | pl.Enum):
        column = column.cast(pl.String)
    if isinstance(column.dtype, pl.String) and not _is_unicode(column):
        return column.cast(pl.Binary).to_list()
    if isinstance(column.dtype, pl.Binary):
        return column.to_list()
    if column.dtype.is_nested():
        raise SchemaError(f"`{name}` must hold plain values, not lists or structures.")
    return column


def _is_unicode(texts: pl.Series) -> bool:
    """Whether all texts are UTF-8: polars takes the word of other libraries for that, and fails later if it is not."""
    import polars as pl

    try:
        texts.cast(pl.Binary).cast(pl.String)
    except pl.exceptions.PolarsError:
        return False
    return True


def _moments(column: npt.NDArray[np.datetime64]) -> pl.Series:
    """Microseconds of numpy times; what 64 bits of microseconds cannot hold is missing."""
    import polars as pl

    micros = column.astype("datetime64[us]")
    wrapped = (micros.astype(column.dtype) != column) & ~np.isnat(column)
    finer = np.datetime_data(column.dtype)[0] in ("ns", "ps", "fs", "as")  # these are rounded, and cannot wrap
    return pl.Series(micros) if finer else pl.Series(micros).set(pl.Series(wrapped), None)


def _text(row: object) -> str | None:
    """Text of one object: numbers as Python writes them, times in ISO 8601, None for what is nothing of these."""
    if isinstance(row, np.datetime64):
        return None if _moments(np.array([row])).has_nulls() else str(row.astype("datetime64[us]"))
    if isinstance(row, np.generic):
        row = float(row) if isinstance(row, np.floating) else row.item()
    try:
        if isinstance(row, bytes):
            return row.decode()
        if isinstance(row, bool):
            return str(row).lower()
        # The base classes' own methods: a subclass of one user must not decide how, or whether, its row is written.
        if isinstance(row, str):
            return str.encode(row).decode()
        if isinstance(row, datetime.datetime):
            return datetime.datetime.isoformat(row)
        if isinstance(row, datetime.date):
            return datetime.date.isoformat(row)
        if isinstance(row, int):
            return int.__repr__(row)
        if isinstance(row, UUID):
            return str(UUID(int=row.int))
        if isinstance(row, float):
            return repr(float(row))
    except (UnicodeError, ValueError):
        pass
    return None


def _canonical(row: object, *, exact: bool) -> str | None:
    """Canonical text of one object: a whole float is its integer; one too large to be exact is nothing, if `exact`."""
    if not isinstance(row, float | np.floating):
        return _text(row)
    number = float(row)
    size = min(row.itemsize, 8) if exact and isinstance(row, np.floating) else 8
    if number.is_integer() and abs(number) < EXACT_FLOAT[size]:
        return str(int(number))
    fraction = np.isfinite(number) and not number.is_integer()
    return None if np.isnan(number) or (exact and not fraction) else repr(number)


def canonical(column: object, name: str, *, exact: bool = True) -> pl.Series:
    """Return the column as 64-bit integers or as text, with missing rows for what is neither.

    With `exact`, a float from which two whole numbers could have become one is missing too: it is nobody's id. Without,
    it has a text like any number: it may well be a value.

    >>> canonical([1.0, 2.0, float("nan")], "user").to_list()
    [1, 2, None]
    >>> canonical([1, None, "x", 1e300], "value", exact=False).to_list()
    ['1', None, 'x', '1e+300']
    """
    import polars as pl

    plain = read(column, name)
    if isinstance(plain, list):
        return pl.Series([None if row is None else _canonical(row, exact=exact) for row in plain], dtype=pl.String)
    kind = plain.dtype
    if kind in (pl.String, pl.Int64):
        return plain
    if kind.is_integer():
        try:
            return plain.cast(pl.Int64)
        except pl.exceptions.PolarsError:
            return plain.cast(pl.String)
    if kind.is_float():
        wide = plain.cast(pl.Float64)
        size = 8 if not exact or kind == pl.Float64 else 4 if kind == pl.Float32 else 2
        integral = ((wide.floor() == wide) & (wide.abs() < EXACT_FLOAT[size])).fill_null(False)
        lost = ~integral & (wide.is_nan() | (exact & (wide.floor() == wide))).fill_null(True)
        if (integral | lost).all():
            return wide.set(~integral, None).cast(pl.Int64)
        texts = pl.Series([_canonical(row, exact=exact) for row in wide.to_list()], dtype=pl.String)
        return texts.set(lost, None)
    if kind in (pl.Boolean, pl.Null):
        return plain.cast(pl.String)
    raise SchemaError(f"`{name}` must hold integers or text. Got a column of {kind}.")


def whole(texts: pl.Series) -> pl.Series:
    """Return the texts; a whole number that is written as a float, with a point or an exponent, becomes that number.

    So a number is one value however it was exported: 12345678 as "12345678.0" (Python), "1.2345678E7" (Java) or
    "1.2345678e+07" (C, R, Arrow). It is read as a 64-bit float, and must be exact (below 2^53); any other text stays
    as it is, also "007", "+7", "7e0", which no tool writes for 7 and which may be names of something else.

    >>> import polars as pl
    >>> whole(pl.Series(["1.0", "1.2E1", "-0", "1.10", "007", "1e5", "1e+300"])).to_list()
    ['1', '12', '0', '1.10', '007', '1e5', '1e+300']
    """
    import polars as pl

    # Before any pattern: a float begins with a minus or a digit, and whether a text may is seen at its first bytes.
    if texts.dtype != pl.String or not (texts < ":").any():
        return texts
    written = texts.str.contains(_FLOAT)
    if not written.any():
        return texts
    written = (written & (texts.str.len_bytes() <= _LONGEST_FLOAT)).fill_null(False)
    floats = texts.set(~written, None).cast(pl.Float64, strict=False)
    exact = ((floats.floor() == floats) & (floats.abs() < EXACT_FLOAT[8])).fill_null(False)
    return floats.set(~exact, None).cast(pl.Int64).cast(pl.String).zip_with(exact, texts)


def numbers(column: object, name: str) -> npt.NDArray[np.float64]:
    """Return the column as floats, NaN where a row is no number; true and false are 1 and 0, however written.

    >>> numbers(["1.5", "x", None, True, 10**5000], "value").tolist()
    [1.5, nan, nan, 1.0, inf]
    """
    import polars as pl

    plain = read(column, name)
    if isinstance(plain, list):
        plain = pl.Series([_digits(row) for row in plain], dtype=pl.String)
    if plain.dtype.is_temporal():
        raise SchemaError(f"`{name}` must hold numbers. Got a column of {plain.dtype}.")
    plain = bounded(plain, LONGEST_NUMBER)
    floats = plain.cast(pl.Float64, strict=False)
    if plain.dtype == pl.String and floats.has_nulls():
        for word, number in (("true", 1.0), ("false", 0.0)):
            floats = floats.set((plain == word).fill_null(False), number)
    return cast("npt.NDArray[np.float64]", floats.fill_null(float("nan")).to_numpy())


def _digits(row: object) -> str | None:
    """Text of a number; an integer that Python does not write is one that no float holds, as its text would be."""
    text = _text(row)
    return ("inf" if row > 0 else "-inf") if text is None and isinstance(row, int) else text


def times(column: object, name: str) -> pl.Series:
    """Return the column as times, dates or numbers if it has a type of its own, else as ISO 8601 text, row by row.

    So a list is never refused: whether it holds nothing but numbers must not depend on one odd row.
    """
    import polars as pl

    typed = any(hasattr(column, mark) for mark in ("dtype", "__arrow_c_stream__", "__arrow_c_array__"))
    untyped = isinstance(column, Iterable) and not isinstance(column, str | bytes) and not typed
    plain = list(cast("Iterable[object]", column)) if untyped else read(column, name)
    return pl.Series([_text(row) for row in plain], dtype=pl.String) if isinstance(plain, list) else plain


FEW = 1 << 14
"""Up to so many rows a look-up of each text is faster than a column of a data frame.

Source: both ways timed by themselves. 2,000 texts of 100 categories took 0.3 ms instead of 1.4, and 20,000 texts of
1,000 categories in a list 2.3 instead of 2.8; of 200,000 texts in a list the column was faster.
"""


def few_texts(column: object) -> list[str] | None:
    """Return the rows of a column of few texts, of numpy or in a list; None for any other, read as a column.

    >>> few_texts(np.array(["a", "b"])), few_texts(["a", None])
    (['a', 'b'], None)
    """
    if isinstance(column, np.ndarray):
        return column.tolist() if column.ndim == 1 and column.dtype.kind == "U" and column.size <= FEW else None
    if isinstance(column, list) and len(column) <= FEW and set(map(type, column)) <= {str}:
        return column
    return None


HANDFUL = 1 << 9
"""Up to so many texts of a column a loop over them is faster than one call of the data frame that holds them.

Source: both ways timed by themselves. The lengths of 64 texts took 15 µs instead of 100, and those of 512 as long as
the column's.
"""


SHARED = 1 << 24
"""Bytes that the texts of a handful of rows take at most as objects, if all rows share the longest one."""


def handful(column: pl.Series) -> list[str] | None:
    """Return the rows of a column of a handful of texts, missing ones as None; None for a longer one or long texts.

    >>> import polars as pl
    >>> handful(pl.Series(["a", "b"])), handful(pl.Series(["a"]).new_from_index(0, HANDFUL + 1))
    (['a', 'b'], None)
    """
    few = column.len() <= HANDFUL and column.len() * column.estimated_size() <= SHARED
    return column.to_list() if few else None


LONGEST = 1024
"""Bytes of a text that is an id or a value; a longer one is missing, by itself."""
LONGEST_NUMBER = 1 << 13
"""Bytes of a text that is a number: more than the 4,300 digits that Python writes."""


def bounded(texts: pl.Series, most: int = LONGEST) -> pl.Series:
    """Return a column in which a text, or bytes, of more than so many bytes is missing: no user's row costs more.

    Many rows can share one text. So no text is looked at, or copied, before its length is known.
    """
    import polars as pl

    if texts.dtype not in (pl.String, pl.Binary):
        return texts
    rows = handful(texts) if texts.dtype == pl.String else None
    if rows is not None and all(text is None or len(text) <= most // 4 for text in rows):
        return texts  # a character has four bytes at most
    size = texts.str.len_bytes() if texts.dtype == pl.String else texts.bin.size()
    wrong = (size > most).fill_null(False)
    return texts.set(wrong, None) if wrong.any() else texts


def short(texts: pl.Series) -> pl.Series:
    """Return a column in which an empty text, and one of more than `LONGEST` bytes, is missing."""
    import polars as pl

    texts = bounded(texts)
    if texts.dtype != pl.String:
        return texts
    rows = handful(texts)
    if rows is not None and "" not in rows:
        return texts
    empty = (texts == "").fill_null(False)
    return texts.set(empty, None) if empty.any() else texts


class Table:
    """Columns by name, from a data frame, an Arrow table, a mapping of columns, or an iterable of mappings.

    A column keeps its type if it has one of its own; a list stays a list of objects.

    In an iterable of mappings a row without a key has no value there, and what is no mapping is no row: each by itself.

    >>> Table([{"user": 1, "value": "a"}, {"user": 2}, None]).column("value")
    ['a', None]
    """

    def __init__(self, events: object) -> None:
        import polars as pl

        self._rows: list[Mapping[str, object]] | None = None
        if isinstance(events, Mapping | pl.DataFrame) or hasattr(events, "loc"):
            self._columns = events
        elif hasattr(events, "__arrow_c_stream__"):
            self._columns = pl.DataFrame(events)
        elif isinstance(events, Iterable) and not isinstance(events, str | bytes):
            self._rows = [row for row in events if isinstance(row, Mapping)]
        else:
            raise SchemaError("`events` must be a table: a data frame, columns by name, or rows as mappings.")

    def column(self, name: str) -> pl.Series | list[object]:
        """One column; if a table with columns does not have it, the error names it."""
        import polars as pl

        if self._rows is not None:
            return [row.get(name) for row in self._rows]
        try:
            cells = self._columns[name]  # type: ignore[index]
        except (KeyError, TypeError, IndexError, pl.exceptions.ColumnNotFoundError):
            raise SchemaError(f"`events` must have a column {name!r}.") from None
        return list(cells) if isinstance(cells, list | tuple) else read(cells, name)


def take(column: pl.Series | list[object], rows: Integers) -> pl.Series | list[object]:
    """Return some rows of a column."""
    return [column[i] for i in rows] if isinstance(column, list) else column.gather(rows)
