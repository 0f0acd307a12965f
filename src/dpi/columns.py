"""What arrives: a column of any library, as one canonical form.

Whether a column holds integers, text or floats is often decided by the reader from the data: one odd row turns a column
of integers into text, one missing row turns it into floats. If that changed how *other* rows are understood, one user
could change what everybody contributes. So two values are the same exactly if their canonical text is the same: the
integer 1, the float 1.0 and the text "1" are one value, by declaration. A row that has no canonical text (missing,
not a number, a float that is no integer, an object of an unknown type) is empty, by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast
from uuid import UUID

import numpy as np
import numpy.typing as npt

from dpi.errors import SchemaError

if TYPE_CHECKING:
    import polars as pl

EXACT_FLOAT = 1 << 53
"""Floats below this hold every integer; above it, two ids could become one."""


def series(column: object, name: str) -> pl.Series:
    """The column as a polars series; rows of mixed types become canonical text one by one.

    >>> series([1, None, "x"], "value").to_list()
    ['1', None, 'x']
    """
    import polars as pl

    if isinstance(column, pl.Series):
        return _plain(column, name)
    if hasattr(column, "__arrow_c_stream__") or hasattr(column, "__arrow_c_array__"):
        try:
            return _plain(pl.Series(cast("Iterable[object]", column)), name)  # any Arrow PyCapsule object
        except (ImportError, TypeError, ValueError, pl.exceptions.PolarsError):
            pass  # e.g. pandas without pyarrow, or objects of mixed types: read below, row by row
    if hasattr(column, "to_numpy"):
        column = column.to_numpy()
    if isinstance(column, np.ndarray):
        if column.ndim != 1:
            raise SchemaError(f"`{name}` must be a column with one dimension. Got {column.ndim}.")
        if column.dtype.kind in "iufbUmM":
            return _plain(pl.Series(column), name)
        column = column.tolist()
    if isinstance(column, str | bytes) or not isinstance(column, Iterable):
        raise SchemaError(f"`{name}` must be a column: an array, a series or a list. Got {type(column).__name__}.")
    rows = list(column)
    kinds = {type(row) for row in rows} - {type(None)}
    if len(kinds) == 1 and kinds <= {int, float, str}:
        try:
            return _plain(pl.Series(rows, strict=True), name)
        except (OverflowError, TypeError, UnicodeError, pl.exceptions.PolarsError):
            pass  # integers beyond 64 bits, lone surrogates
    if kinds and _is_time(next(iter(kinds))) and len(kinds) == 1:
        return _plain(pl.Series(rows, strict=False), name)
    return pl.Series([_row_text(row) for row in rows], dtype=pl.String)


def _is_time(kind: type) -> bool:
    import datetime

    return issubclass(kind, datetime.date | np.datetime64)


def _plain(column: pl.Series, name: str) -> pl.Series:
    import polars as pl

    if isinstance(column.dtype, pl.Object):
        return pl.Series([_row_text(row) for row in column.to_list()], dtype=pl.String)
    if isinstance(column.dtype, pl.Categorical | pl.Enum):
        return column.cast(pl.String)
    if isinstance(column.dtype, pl.Binary):
        return column.cast(pl.String, strict=False)  # bytes that are not UTF-8 are empty rows
    if column.dtype.is_nested():
        raise SchemaError(f"`{name}` must hold plain values, not lists or structures.")
    return column


def _row_text(row: object) -> str | None:
    """Canonical text of one object, or None."""
    if isinstance(row, np.generic):
        row = row.item()
    try:
        if isinstance(row, bytes):
            return row.decode()
        if isinstance(row, bool):
            return str(row).lower()
        if isinstance(row, float):
            return str(int(row)) if row.is_integer() and abs(row) < EXACT_FLOAT else None
        if isinstance(row, int | UUID):
            return str(row)
        if isinstance(row, str):
            row.encode()
            return row
    except (UnicodeError, ValueError):
        pass
    return None


def canonical(column: object, name: str) -> pl.Series:
    """The column as 64-bit integers or as text, with missing rows for what is neither.

    >>> canonical([1.0, 2.5, float("nan")], "user").to_list()
    [1, None, None]
    """
    import polars as pl

    plain = series(column, name)
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
        whole = (wide.floor() == wide) & (wide.abs() < EXACT_FLOAT)
        return wide.set(~whole.fill_null(False), None).cast(pl.Int64)
    if kind in (pl.Boolean, pl.Null):
        return plain.cast(pl.String)
    raise SchemaError(f"`{name}` must hold integers or text. Got a column of {kind}.")


def numbers(column: object, name: str) -> npt.NDArray[np.float64]:
    """The column as floats, NaN where a row is not a number.

    >>> numbers(["1.5", "x", None], "value").tolist()
    [1.5, nan, nan]
    """
    import polars as pl

    plain = series(column, name)
    if plain.dtype.is_temporal():
        raise SchemaError(f"`{name}` must hold numbers. Got a column of {plain.dtype}.")
    floats = plain.cast(pl.Float64, strict=False).fill_null(float("nan"))
    return cast("npt.NDArray[np.float64]", floats.to_numpy())
