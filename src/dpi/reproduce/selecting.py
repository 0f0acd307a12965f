"""Rows of an experiment by what stands in them."""

from __future__ import annotations

from statistics import mean

from dpi.reproduce.experiment import Row, Rows, Value


def where(rows: Rows, **wanted: Value) -> list[Row]:
    """The rows with these entries; None: those that lack it.

    >>> where([{"a": 1, "b": 2}, {"a": 1, "b": 3}], a=1, b=3)
    [{'a': 1, 'b': 3}]
    """
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def distinct(rows: Rows, name: str) -> list[Value]:
    """What an entry is in these rows, in their order.

    >>> distinct([{"a": 2}, {"a": 1}, {"a": 2}, {}], "a")
    [2, 1]
    """
    return list(dict.fromkeys(row[name] for row in rows if row.get(name) is not None))


def average(rows: Rows, name: str, **wanted: Value) -> float | None:
    """The mean of an entry over the rows with these others; None where there are none.

    >>> average([{"a": 1, "b": 2}, {"a": 1, "b": 4}, {"a": 2, "b": 9}], "b", a=1)
    3.0
    """
    found = [float(value) for row in where(rows, **wanted) if (value := row.get(name)) is not None]
    return mean(found) if found else None
