"""NDJSON: one JSON object a line, each read by itself.

A reader that infers a type for the column lets one row decide how others are understood: a single `"x"` turns
everybody's 1.0 into the text 1.0. Here each scalar becomes its own canonical text, as `dpi.events.columns` writes that
object: 1, 1.0 and "1" are one id. What is no scalar (null, a list, an object) is missing, by itself; a line that is no
JSON object is dropped, by itself. If a name comes twice in an object, the last one counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from dpi.events.columns import canonical
from dpi.sources.lines import readable

if TYPE_CHECKING:
    import polars as pl

_TRIED = 8
"""Lines of which one gives the form by which most are read."""
_AT = "\0"
"""Where a line stood; no column has this name."""
_FIELDS = 64
"""Of a line with more no form is made, so that nobody's line makes one that is too large."""
_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
_SPACE = r"[ \t]*"
_TEXT = r'"[^"\\\x00-\x1f]*"'
_PLAIN = rf"{_TEXT}|0|-?[1-9][0-9]{{0,17}}"
_SCALAR = rf"(?:{_TEXT}|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?|true|false|null)"


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
        """The canonical texts of the fields, one row for each line that is a JSON object."""
        import polars as pl

        rows = pl.Series(readable(lines).decode().split("\n")[:-1], dtype=pl.String)
        form = next((form for line in rows.head(_TRIED) if (form := _form(line, self._names)) is not None), None)
        if form is None:
            return self._read(rows)
        found = rows.str.extract_groups(form.pattern).struct.unnest()
        found.columns = form.names
        fitting = found[form.names[0]].is_not_null()
        fields = found.select(pl.col(self._names).str.strip_chars('"'))
        if fitting.all():
            return fields
        at = pl.int_range(rows.len(), eager=True)
        others = self._read(rows.filter(~fitting), at.filter(~fitting))
        return pl.concat([fields.with_columns(at.alias(_AT)).filter(fitting), others]).sort(_AT).drop(_AT)

    def _read(self, lines: pl.Series, at: pl.Series | None = None) -> pl.DataFrame:
        """The fields of any lines; with `at`, also where each of those that are objects stood."""
        import polars as pl

        objects = [(row, number) for number, row in enumerate(map(json_object, lines)) if row is not None]
        columns = {
            name: texts([row.get(name) for row, _ in objects], name, exact=name == self._user) for name in self._names
        }
        frame = pl.DataFrame(columns)
        return frame if at is None else frame.with_columns(at.gather([number for _, number in objects]).alias(_AT))


class _Form(NamedTuple):
    """The form of a line: what fits it, and the names of the fields that it takes out."""

    pattern: str
    names: list[str]


def _form(line: str, names: Sequence[str]) -> _Form | None:
    """The form of a line whose fields are scalars, for others that have the same fields in the same order.

    Only speed hangs on it: a field that is wanted fits if it is a text as it stands, without an escape, or an integer
    of up to 18 digits; those are the texts that `json_object` leads to. A line that does not fit is read by that.
    """
    fields = json_object(line)
    if fields is None or len(fields) > _FIELDS or not set(names) <= fields.keys():
        return None
    if not all(map(_NAME.fullmatch, fields)):
        return None
    parts = [f'"{name}"{_SPACE}:{_SPACE}{f"({_PLAIN})" if name in names else _SCALAR}' for name in fields]
    pattern = f"^{_SPACE}\\{{{_SPACE}{f'{_SPACE},{_SPACE}'.join(parts)}{_SPACE}\\}}{_SPACE}$"
    return _Form(pattern, [name for name in fields if name in names])


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
