"""Reading rows: numbers out of cells, and rows of one kind."""

from __future__ import annotations

from dpi.reproduce.experiment import Row, Rows, Value


def number(row: Row, name: str) -> float:
    """A cell that holds a number.

    >>> number({"slot": 3}, "slot")
    3.0
    """
    value = row[name]
    if not isinstance(value, int | float):
        raise TypeError(f"{name} is no number")
    return float(value)


def numbers(rows: Rows, name: str) -> list[float]:
    """A column of numbers."""
    return [number(row, name) for row in rows]


def where(rows: Rows, **values: Value) -> list[Row]:
    """The rows that have these values.

    >>> where([{"kind": "a", "slot": 1}, {"kind": "b"}], kind="a")
    [{'kind': 'a', 'slot': 1}]
    """
    return [row for row in rows if all(row.get(name) == value for name, value in values.items())]


def distinct(rows: Rows, name: str) -> list[Value]:
    """The values of a column, in order of appearance.

    >>> distinct([{"x": 2}, {"x": 1}, {"x": 2}], "x")
    [2, 1]
    """
    return list(dict.fromkeys(row[name] for row in rows if name in row))
