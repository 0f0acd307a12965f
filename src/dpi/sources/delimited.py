"""CSV: lines of fields, all of them text.

A record is one physical line, always. A quoted field may hold separators and doubled quotes, but no line break: if a
quote could reach over the end of its line, one row with a quote that is never closed would swallow the rows of others.
A line whose quotes are not closed, or with more or fewer fields than the header, is dropped by itself.

No type is guessed: `007` is the text 007 in every file, whatever the other rows hold. An empty field is missing.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpi.sources.lines import BYTE_ORDER_MARK, counts_by_line, readable

if TYPE_CHECKING:
    import polars as pl


def header(line: bytes, separator: str) -> list[str] | None:
    r"""The names of the columns, or None if the line is no header.

    >>> header(b'\xef\xbb\xbfuser,"at, local",value\r\n', ",")
    ['user', 'at, local', 'value']
    """
    try:
        text = line.removeprefix(BYTE_ORDER_MARK).decode().rstrip("\r\n")
    except UnicodeError:
        return None
    return _fields(text, separator)


class Delimited:
    r"""Reads lines of the columns `names` in a file with the columns `columns`.

    >>> Delimited(["user", "at", "value"], ["value", "user"]).parse(b'a,1,"x,y"\nb,2\nc,3,z\n').rows()
    [('z', 'c'), ('x,y', 'a')]
    """

    def __init__(self, columns: Sequence[str], names: Sequence[str], separator: str = ",") -> None:
        self._width = len(columns)
        self._at = {name: columns.index(name) for name in names}
        self._separator = separator

    def parse(self, lines: bytes) -> pl.DataFrame:
        """The fields of whole lines, one row for each line that is sound; lines with quotes come last."""
        import polars as pl

        lines = readable(lines)
        text = np.frombuffer(lines, dtype=np.uint8)
        if (frame := self._regular(lines, text)) is not None:
            return frame
        ends = np.flatnonzero(text == ord("\n"))
        sizes = np.diff(ends, prepend=-1)
        # A byte order mark is taken away by some readers if it happens to come first: such a line is odd, too.
        odd = counts_by_line((text == ord('"')) | (text == BYTE_ORDER_MARK[0]), ends) > 0
        sound = ~odd & (sizes > 1) & (counts_by_line(text == ord(self._separator), ends) + 1 == self._width)
        frames = [self._plain(text[np.repeat(sound, sizes)].tobytes(), int(sound.sum()))]
        if odd.any():
            frames.append(self._odd(text[np.repeat(odd, sizes)].tobytes().decode()))
        return pl.concat(frames)

    def _regular(self, lines: bytes, text: npt.NDArray[np.uint8]) -> pl.DataFrame | None:
        """All lines at once, if each is sound and without quotes, as in most files; None if one is not.

        There are as many separators as all lines should have together. If none has fewer than it should, none has more.
        One that has fewer lacks its last field, so where no last field is missing, no line is looked at by itself.
        """
        if b'"' in lines or BYTE_ORDER_MARK[:1] in lines or self._width == 1 or not lines:
            return None
        count = np.count_nonzero(text == ord("\n"))
        if np.count_nonzero(text == ord(self._separator)) != (self._width - 1) * count:
            return None
        frame = self._read(lines)
        if frame is None or frame.height != count:
            return None
        last = [name for name, at in self._at.items() if at == self._width - 1]
        if last and not frame[last[0]].has_nulls():
            return frame
        marks = text.take(np.flatnonzero((text == ord(self._separator)) | (text == ord("\n"))))
        return frame if marks.tobytes() == (self._separator.encode() * (self._width - 1) + b"\n") * count else None

    def _plain(self, lines: bytes, count: int) -> pl.DataFrame:
        """Lines that have the right number of separators, and no quotes: at full speed."""
        import polars as pl

        if not lines:
            return pl.DataFrame(schema=dict.fromkeys(self._at, pl.String))
        frame = self._read(lines)
        if frame is None or frame.height != count:  # a guard: no version of the reader may take two rows for one
            return self._odd(lines.decode())
        return frame

    def _read(self, lines: bytes) -> pl.DataFrame | None:
        """Lines without quotes, by a reader that takes what is not there for missing; None if it refuses them."""
        import polars as pl

        positions = sorted(set(self._at.values()))
        try:
            frame = pl.read_csv(
                lines,
                has_header=False,
                columns=positions,
                separator=self._separator,
                quote_char=None,
                infer_schema=False,
            )
        except pl.exceptions.PolarsError:
            return None
        return pl.DataFrame([frame.to_series(positions.index(at)).alias(name) for name, at in self._at.items()])

    def _odd(self, text: str) -> pl.DataFrame:
        """Line by line, each with a reader of its own."""
        import polars as pl

        rows = [_fields(line, self._separator) for line in text.split("\n")[:-1]]
        whole = [row for row in rows if row is not None and len(row) == self._width]
        columns = {name: [row[at] or None for row in whole] for name, at in self._at.items()}
        return pl.DataFrame(columns, schema=dict.fromkeys(self._at, pl.String))


def _fields(line: str, separator: str) -> list[str] | None:
    if '"' not in line:
        return line.split(separator)
    try:
        return next(csv.reader([line], delimiter=separator, strict=True))
    except (csv.Error, StopIteration):
        return None
