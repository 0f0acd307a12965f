"""Cells of rows as numbers; a row may also hold text, or nothing."""

from __future__ import annotations

from dpi.reproduce.experiment import Row, Rows


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
    """A column of numbers.

    >>> numbers([{"slot": 3}, {"slot": 4}], "slot")
    [3.0, 4.0]
    """
    return [number(row, name) for row in rows]
