"""Picking rows of an experiment, and numbers in them."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dpi_research.reproduce.experiment import Row, Rows, Value


def select(rows: Rows, /, **wanted: Value) -> list[Row]:
    """The rows with these values; None: those that lack it.

    >>> select([{"a": 1, "b": 2}, {"a": 3, "b": 2}], a=3)
    [{'a': 3, 'b': 2}]
    """
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def distinct(rows: Rows, name: str) -> list[Value]:
    """What an entry is in these rows, in their order.

    >>> distinct([{"a": 2}, {"a": 1}, {"a": 2}, {}], "a")
    [2, 1]
    """
    return list(dict.fromkeys(row[name] for row in rows if row.get(name) is not None))


def value(row: Row, name: str) -> float:
    """An entry that is a number; NaN where it is empty.

    >>> value({"slot": 3}, "slot")
    3.0
    """
    cell = row[name]
    return float("nan") if cell is None else float(cell)


def column(rows: Rows, name: str) -> npt.NDArray[np.float64]:
    """The numbers of a column.

    >>> column([{"a": 1}, {"a": 3}], "a").tolist()
    [1.0, 3.0]
    """
    return np.array([row[name] for row in rows], dtype=np.float64)


def mean(rows: Rows, name: str, /, **wanted: Value) -> float:
    """Of a column, over the rows with these values; NaN if there are none.

    >>> mean([{"a": 1, "b": 2}, {"a": 3, "b": 2}], "a", b=2)
    2.0
    """
    some = [value(row, name) for row in select(rows, **wanted) if row.get(name) is not None]
    return float(np.mean(some)) if some else float("nan")


def course(rows: Rows, x: str, y: str, /, **wanted: Value) -> tuple[list[float], list[float]]:
    """The numbers of a column from small to large, and the means of another one there.

    >>> course([{"a": 2, "b": 5}, {"a": 1, "b": 6}, {"a": 2, "b": 7}], "a", "b")
    ([1.0, 2.0], [6.0, 6.0])
    """
    own = select(rows, **wanted)
    places = sorted({value(row, x) for row in own if row[x] is not None})
    return places, [mean(own, y, **{x: place}) for place in places]


def number(value: float, digits: int = 3) -> str:
    """For a table: some digits, or a dash.

    >>> number(0.0012345), number(float("nan"))
    ('0.00123', '–')
    """
    return "–" if math.isnan(value) else f"{value:.{digits}g}"
