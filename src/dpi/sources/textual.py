"""CSV and NDJSON: bytes, cut into lines, parsed in blocks, each line by itself.

**Lines.** A line ends at a newline byte and nowhere else: not at a quote, not at a broken character. So no line decides
where another one begins. A line that is too long is dropped by its own length alone; memory holds at most one such
line.

**CSV.** A record is one physical line, always. A quoted field may hold separators and doubled quotes, but no line
break: if a quote could reach over the end of its line, one row with a quote that is never closed would swallow the rows
of others. A line whose quotes are not closed, or with more or fewer fields than the header, is dropped by itself. No
type is guessed: `007` is the text 007 in every file, whatever the other rows hold. An empty field is missing.

**NDJSON.** A reader that infers a type for the column lets one row decide how others are understood: a single `"x"`
turns everybody's 1.0 into the text 1.0. Here each scalar becomes its own canonical text, as `dpi.events.columns` writes
that object: 1, 1.0 and "1" are one id. What is no scalar (null, a list, an object) is missing, by itself; a line that
is no JSON object is dropped, by itself. If a name comes twice in an object, the last one counts.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Union

import numpy as np
import numpy.typing as npt

from dpi.errors import SchemaError
from dpi.events.columns import canonical
from dpi.exact.integers import Integers
from dpi.exact.silence import silence
from dpi.sources._inputs import BLOCK, StandardInput, open_file
from dpi.sources._source import BYTE_ORDER_MARK, EventFile, Progress, missing

if TYPE_CHECKING:
    import polars as pl

LONGEST_LINE = 1 << 20
"""Bytes of the longest line that is read, unless told otherwise."""
_TRIED = 8
"""Lines of which one gives the form by which most are read."""
_AT = "\0"
"""Where a line stood; no column has this name."""
_FIELDS = 64
"""Of a line with more no form is made, so that no line makes one that is too large."""
Parser = Union["Delimited", "Ndjson"]
"""Turns whole lines into columns of text, one row for each line that is sound."""
_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
_SPACE = r"[ \t]*"
_TEXT = r'"[^"\\\x00-\x1f]*"'
_PLAIN = rf"{_TEXT}|0|-?[1-9][0-9]{{0,17}}"
_SCALAR = rf"(?:{_TEXT}|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?|true|false|null)"


class Textual(EventFile):
    """A file of lines, or standard input (`-`); `form` is "csv" or "ndjson". CSV without a header has `columns`."""

    def __init__(
        self, path: str, form: str, separator: str, longest: int, columns: Sequence[str] | None = None
    ) -> None:
        self.path, self.longest = path, longest
        self.size = 0 if path == "-" else Path(path).stat().st_size
        self.input = StandardInput() if path == "-" else None
        self.has_header = form == "csv" and columns is None
        self._form, self._separator, self._columns = form, separator, list(columns or ())
        if self.has_header and self.input is not None:
            self._columns = self.columns(self.input.readline(longest + 1))
        elif self.has_header:
            with open_file(path) as (file, _):
                self._columns = self.columns(file.readline(longest + 1))

    def columns(self, line: bytes) -> list[str]:
        """Return the columns that a header names."""
        names = header(line, self._separator) if len(line) <= self.longest else None
        if not names or names == [""]:
            raise SchemaError(f"{self.path!r} must begin with a line that names its columns.")
        return names

    def kinds(self) -> dict[str, pl.DataType] | None:
        """Return text for each column; nothing is declared in NDJSON, where a row lacks a field by itself."""
        import polars as pl

        return dict.fromkeys(self._columns, pl.String()) if self._form == "csv" else None

    def parser(self, names: Sequence[str], columns: Sequence[str] | None = None) -> Parser:
        """Return a parser for lines under the file's header, or under another one; refuse one that lacks a column."""
        if self._form == "ndjson":
            return Ndjson(names)
        known = self._columns if columns is None else columns
        if not set(names) & set(known):  # it may be an event: its fields are not shown
            wanted = ", ".join(map(repr, names))
            raise SchemaError(
                f"{self.path!r} must begin with a line that names its columns. It names none of {wanted}."
                if self.has_header
                else f"`columns` must name the columns of {self.path!r}. It names none of {wanted}."
            )
        for name in names:
            if known.count(name) == 0:
                raise missing(self.path, name, known)
            if known.count(name) > 1 and not self.has_header:
                raise SchemaError(f"`columns` must name {name!r} once.")
            if known.count(name) > 1:
                raise SchemaError(f"{self.path!r} must have one column {name!r}. It has {known.count(name)}.")
        return Delimited(known, names, self._separator)

    def check(self, names: Sequence[str]) -> None:
        """Refuse a file that lacks a column, or has it twice."""
        self.parser(names)

    def frames(self, names: Sequence[str], progress: Progress) -> Iterator[pl.DataFrame]:
        """Return the columns, as text."""
        if self.input is not None:
            self.input.take()
            # The header has been read: what follows is not the beginning.
            reader = LineReader(self.longest, self.parser(names), at=int(self.has_header))
            yield from reader.frames(self.input.read, self.input.tell, progress)
            return
        with open_file(self.path) as (file, tell):
            yield from self.reader(names).frames(file.read, tell, progress)

    def reader(self, names: Sequence[str]) -> LineReader:
        """Return who reads the file from its beginning."""
        if self.has_header:
            return LineReader(self.longest, lambda line: self.parser(names, self.columns(line)))
        return LineReader(self.longest, self.parser(names))


class LineReader:
    """Makes events of blocks of bytes from the byte `at` of an input on, where a line begins.

    `parser` parses lines or, if the first line of the input is a header, makes of it what does.
    """

    def __init__(self, longest: int, parser: Parser | Callable[[bytes], Parser], at: int = 0) -> None:
        self._lines, self._parser, self._at = Lines(longest), parser, at

    @property
    def consumed(self) -> int:
        """Bytes of the input up to the end of the last whole line."""
        return self._at + self._lines.consumed

    def feed(self, block: bytes) -> pl.DataFrame | None:
        """Return the events in lines that are whole now; None if there is no such line."""
        mark = BYTE_ORDER_MARK if self.consumed == 0 else b""
        lines = self._lines.feed(block).removeprefix(mark)
        if lines and callable(self._parser):
            first, _, lines = lines.partition(b"\n")
            self._parser = self._parser(first)
        return None if not lines or callable(self._parser) else self._parser.parse(lines)

    def frames(
        self, read: Callable[[int], bytes], tell: Callable[[], int], progress: Progress
    ) -> Iterator[pl.DataFrame]:
        """Return all events of an input, the last line too if it has no newline."""
        while block := read(BLOCK):
            if (frame := self.feed(block)) is not None:
                yield frame
            progress(tell())
        if self._lines.rest and (frame := self.feed(b"\n")) is not None:
            yield frame


class Lines:
    r"""Cuts blocks of bytes into whole lines, whatever the blocks in which they arrive.

    >>> lines = Lines()
    >>> lines.feed(b"one\ntw"), lines.feed(b"o\r\nthr"), lines.rest
    (b'one\n', b'two\n', b'thr')
    """

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._skipping, self._fed = False, 0
        self.rest = b""
        """The beginning of a line that is not whole yet."""
        self.consumed = 0
        """Bytes up to the end of the last whole line: from here on a reader can resume."""

    def feed(self, block: bytes) -> bytes:
        """Return the lines that are whole now, each with its newline; a carriage return before it is dropped."""
        end = block.rfind(b"\n") + 1
        whole = block[:end]
        if end:
            self.consumed = self._fed + end
            whole = whole[whole.find(b"\n") + 1 :] if self._skipping else self.rest + whole
            self.rest, self._skipping = b"", False
        self._fed += len(block)
        if not self._skipping:
            self.rest += block[end:]
            if len(self.rest) > self._longest + 1:  # a carriage return is not part of the line
                self.rest, self._skipping = b"", True
        kept = not_longer(whole, self._longest)
        return kept.replace(b"\r\n", b"\n") if b"\r" in kept else kept


def not_longer(lines: bytes, longest: int) -> bytes:
    """Return the lines of at most `longest` bytes, without counting what ends them."""
    start = 0
    while len(lines) - start > longest:  # from line to line, as far as a short one can be
        end = lines.rfind(b"\n", start, start + longest + 1)
        if end < 0:
            break
        start = end + 1
    else:
        return lines
    text = np.frombuffer(lines, dtype=np.uint8)
    ends = np.flatnonzero(text == ord("\n"))
    sizes = np.diff(ends, prepend=-1)
    kept = sizes - 1 - (text[ends - 1] == ord("\r")) <= longest
    return lines if kept.all() else text[np.repeat(kept, sizes)].tobytes()


def readable(lines: bytes) -> bytes:
    """Return the lines that are UTF-8 without a NUL byte; the others are dropped, each by itself."""
    if _is_readable(lines):
        return lines
    return b"".join(line + b"\n" for line in lines.split(b"\n")[:-1] if _is_readable(line))


def _is_readable(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeError:
        return False
    return b"\0" not in line


# CSV.


def header(line: bytes, separator: str) -> list[str] | None:
    r"""Return the names of the columns, or None if the line is no header.

    >>> header(b'\xef\xbb\xbfuser,"at, local",value\r\n', ",")
    ['user', 'at, local', 'value']
    """
    try:
        return _fields(line.removeprefix(BYTE_ORDER_MARK).decode().rstrip("\r\n"), separator)
    except UnicodeError:
        return None


class Delimited:
    r"""Reads lines of the columns `names` in a file with the columns `columns`.

    >>> Delimited(["user", "at", "value"], ["value", "user"]).parse(b'a,1,"x,y"\nb,2\nc,3,z\n').rows()
    [('z', 'c'), ('x,y', 'a')]
    """

    def __init__(self, columns: Sequence[str], names: Sequence[str], separator: str = ",") -> None:
        self._width = len(columns)
        self._at = {name: columns.index(name) for name in names}
        self._separator = separator

    @silence()
    def parse(self, lines: bytes) -> pl.DataFrame:
        """Return the fields of whole lines, one row for each line that is sound; lines with quotes come last."""
        import polars as pl

        lines = readable(lines)
        text = np.frombuffer(lines, dtype=np.uint8)
        if (frame := self._regular(lines, text)) is not None:
            return frame
        ends = np.flatnonzero(text == ord("\n"))
        sizes = np.diff(ends, prepend=-1)

        def counts(where: npt.NDArray[np.bool_]) -> Integers:
            return np.diff(np.searchsorted(np.flatnonzero(where), ends), prepend=0)

        # A byte order mark is taken away by some readers if it happens to come first: such a line is odd, too.
        odd = counts((text == ord('"')) | (text == BYTE_ORDER_MARK[0])) > 0
        sound = ~odd & (sizes > 1) & (counts(text == ord(self._separator)) + 1 == self._width)
        plain = text[np.repeat(sound, sizes)].tobytes()
        read = self._read(plain) if plain else None
        if read is None or read.height != sound.sum():  # a guard: no version of the reader may take two rows for one
            read = self._odd(plain.decode())
        return pl.concat([read, self._odd(text[np.repeat(odd, sizes)].tobytes().decode())]) if odd.any() else read

    def _regular(self, lines: bytes, text: npt.NDArray[np.uint8]) -> pl.DataFrame | None:
        """Return all lines at once, if each is sound and without quotes, as in most files; None if one is not.

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

    def _read(self, lines: bytes) -> pl.DataFrame | None:
        """Return lines without quotes, by a reader that takes what is not there for missing; None if it refuses."""
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
        """Return lines one by one, each with a reader of its own."""
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


# NDJSON.


class Ndjson:
    r"""Reads the fields `names` of each line; the first one holds ids.

    >>> lines = b'{"user": 1.0, "value": 1e300}\n{"user": "1"\n{"user": "1", "value": [2]}\n[]\n'
    >>> Ndjson(["user", "value"]).parse(lines).rows()
    [('1', '1e+300'), ('1', None)]
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    @silence()
    def parse(self, lines: bytes) -> pl.DataFrame:
        """Return the canonical texts of the fields, one row for each line that is a JSON object."""
        import polars as pl

        rows = pl.Series(readable(lines).decode().split("\n")[:-1], dtype=pl.String)
        form = next((form for line in rows.head(_TRIED) if (form := _form(line, self._names)) is not None), None)
        if form is None:
            return self._read(rows).drop(_AT)
        pattern, names = form
        groups = rows.str.extract_groups(pattern).struct.unnest()
        groups.columns = names
        fitting = groups[names[0]].is_not_null()
        fields = groups.select(pl.col(self._names).str.strip_chars('"'))
        if fitting.all():
            return fields
        at = pl.int_range(rows.len(), eager=True, dtype=pl.Int64)
        others = self._read(rows.filter(~fitting))
        others = others.with_columns(at.filter(~fitting).gather(others[_AT]).alias(_AT))
        return pl.concat([fields.with_columns(at.alias(_AT)).filter(fitting), others]).sort(_AT).drop(_AT)

    def _read(self, lines: pl.Series) -> pl.DataFrame:
        """Return the fields of any lines, and where each of those that are objects stood."""
        import polars as pl

        objects = [(number, row) for number, row in enumerate(map(json_object, lines)) if row is not None]
        columns = {
            name: texts([row.get(name) for _, row in objects], name, exact=name == self._names[0])
            for name in self._names
        }
        return pl.DataFrame({**columns, _AT: pl.Series([number for number, _ in objects], dtype=pl.Int64)})


def _form(line: str, names: Sequence[str]) -> tuple[str, list[str]] | None:
    """Return what fits a line whose fields are scalars, and others with the same fields in the same order.

    With it come the names of the fields that it takes out. Only speed hangs on it: a field that is wanted fits if it is
    a text as it stands, without an escape, or an integer of up to 18 digits; those are the texts that `json_object`
    leads to. A line that does not fit is read by that.
    """
    fields = json_object(line)
    if fields is None or len(fields) > _FIELDS or not set(names) <= fields.keys():
        return None
    if not all(map(_NAME.fullmatch, fields)):
        return None
    parts = [f'"{name}"{_SPACE}:{_SPACE}{f"({_PLAIN})" if name in names else _SCALAR}' for name in fields]
    pattern = f"^{_SPACE}\\{{{_SPACE}{f'{_SPACE},{_SPACE}'.join(parts)}{_SPACE}\\}}{_SPACE}$"
    return pattern, [name for name in fields if name in names]


def texts(column: list[object], name: str, *, exact: bool) -> pl.Series:
    """Return canonical texts of scalars.

    With `exact`, as for ids, a float too large to be exact is missing; it is a number all the same, and a numeric bin
    can hold it.
    """
    import polars as pl

    return canonical(column, name, exact=exact).cast(pl.String)


def json_object(line: str) -> dict[str, object] | None:
    """Return the JSON object in a line; None if it is something else."""
    line = line.strip(" \t\r")
    try:
        try:
            row, end = _decode(line)
        except json.JSONDecodeError:
            return None
        except ValueError:  # an integer of more digits than Python reads
            row, end = _decode_long(line)
    except (ValueError, RecursionError):
        return None
    return row if end == len(line) and isinstance(row, dict) else None


def _whole(digits: str) -> int | str:
    """Return an integer or, if it has more digits than Python reads, its text: it drops no other field of its line."""
    try:
        return int(digits)
    except ValueError:
        return digits


_decode = json.JSONDecoder().raw_decode
_decode_long = json.JSONDecoder(parse_int=_whole).raw_decode
