"""NDJSON: one JSON object a line, each read by itself.

A reader that infers a type for the column lets one row decide how others are understood: a single `"x"` turns
everybody's 1.0 into the text 1.0. Here each scalar becomes its own canonical text, as `dpi.events.columns` writes that
object: 1, 1.0 and "1" are one id. What is no scalar (null, a list, an object) is missing, by itself; a line that is no
JSON object is dropped, by itself. If a name comes twice in an object, the last one counts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpi.events.columns import canonical
from dpi.sources.lines import readable
from dpi.sources.plain_json import plain_objects

if TYPE_CHECKING:
    import polars as pl


class Ndjson:
    r"""Reads the fields `names` of each line; `user` is the one that holds ids.

    >>> lines = b'{"user": 1.0, "value": 1e300}\n{"user": "1"\n{"user": "1", "value": [2]}\n[]\n'
    >>> Ndjson("user", ["user", "value"]).parse(lines).rows()
    [('1', '1e+300'), ('1', None)]
    """

    def __init__(self, user: str, names: Sequence[str]) -> None:
        self._user = user
        self._names = names

    def parse(self, lines: bytes) -> pl.DataFrame:
        """The canonical texts of the fields, one row for each line that is a JSON object, in their order."""
        import polars as pl

        found = plain_objects(readable(lines), self._names)
        frames, places = found.frames, found.places
        if found.others or not frames:
            objects = [json_object(line) for line in found.others.decode().split("\n")[:-1]]
            frames.append(self._any([row for row in objects if row is not None]))
            places.append(found.left[[row is not None for row in objects]])
        if len(frames) == 1:
            return frames[0]
        return pl.concat(frames)[np.argsort(np.concatenate(places))]

    def _any(self, rows: Sequence[dict[str, object]]) -> pl.DataFrame:
        """Objects of every shape."""
        import polars as pl

        return pl.DataFrame(
            {name: texts([row.get(name) for row in rows], name, exact=name == self._user) for name in self._names}
        )


def texts(column: list[object], name: str, *, exact: bool) -> pl.Series:
    """Canonical texts of scalars.

    With `exact`, as for ids, a float too large to be exact is missing; it is a number all the same, and a numeric bin
    can hold it.
    """
    import polars as pl

    return canonical(column, name, exact=exact).cast(pl.String)


def json_object(line: str) -> dict[str, object] | None:
    """The JSON object in a line; None if it is something else."""
    line = line.strip(" \t\r")
    try:
        row, end = _read(line)
    except (ValueError, RecursionError):
        return None
    return row if end == len(line) and isinstance(row, dict) else None


def _read(line: str) -> tuple[object, int]:
    """The JSON value at the start of a line, and where it ends."""
    try:
        return _decode(line)
    except json.JSONDecodeError:
        raise
    except ValueError:  # an integer of more digits than Python reads
        return _decode_long(line)


def _whole(digits: str) -> int | str:
    """An integer or, if it has more digits than Python reads, its text: no field drops the others of its line."""
    try:
        return int(digits)
    except ValueError:
        return digits


_decode = json.JSONDecoder().raw_decode
_decode_long = json.JSONDecoder(parse_int=_whole).raw_decode
