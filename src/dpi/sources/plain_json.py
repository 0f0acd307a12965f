"""NDJSON as programs write it, at the speed of a CSV reader: lines of one shape are cut at their quotes.

A line of JSON without a backslash has its texts between quotes, and everything else outside of them:

    {"user":"ada","at":12,"value":"x"}   is cut into   {  user  :  ada  ,  at  :12,  value  :  x  }

Lines that are cut into as many pieces as a sample, with the same names of fields and the same marks in between, are
flat objects like that one: texts and numbers are read off their pieces. Whether a line is like that one, and what is
read of it, does not depend on others: it is what `dpi.sources.ndjson` reads of it, which is also given all other lines.

Numbers are read here if they are written as their canonical text is: integers of up to 15 digits, and fractions with up
to four digits of which the last is not 0.

Sees events; keeps none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpi.exact.integers import Integers
from dpi.sources.lines import counts_by_line

if TYPE_CHECKING:
    import polars as pl

SHAPES = 4
"""Shapes that are looked for among the lines of a block: programs write a few kinds of events into one file."""
_WIDEST = 200
"""Quotes of a line at most."""
_NUMBER = r"(0|-?[1-9][0-9]{0,14}|-?(?:0|[1-9][0-9]{0,9})\.[0-9]{0,3}[1-9])"
_NAMED = re.compile(rf"( *: *)(?:{_NUMBER}( *[,}}] *))?")
"""What follows a name: a text, or a number and the next name, or a number and the end."""
_TOLD = re.compile(r" *[,}] *")
"""What follows a text: the next name, or the end."""


@dataclass(frozen=True)
class Shape:
    """What flat objects of the same fields have in common: the pieces outside of texts, and the fields' names."""

    outside: tuple[str | tuple[str, str], ...]
    """Each as it is or, if it holds a number, what stands before and after that."""
    fields: dict[str, int]
    """By name, the number of the piece that holds the value."""

    @classmethod
    def of(cls, line: str) -> Shape | None:
        """The shape of a line; None if it is no flat object, or one that has a name twice.

        >>> Shape.of('{"user":"ada","at":12}')
        Shape(outside=('{', ':', ',', (':', '}')), fields={'user': 3, 'at': 6})
        """
        pieces = line.split('"')
        outside: list[str | tuple[str, str]] = [pieces[0]]
        names, at = pieces[1:2], list[int]()
        is_named, end = True, ""
        for place, piece in list(enumerate(pieces))[2::2]:
            found = (_NAMED if is_named else _TOLD).fullmatch(piece)
            if found is None or "}" in end:
                return None
            end, number = piece, found[2] if is_named else None
            outside.append(piece if number is None else (found[1], found[3]))
            if is_named:
                at.append(place + 1 if number is None else place)
            is_named = not is_named or number is not None
            if is_named and "}" not in end:
                names += pieces[place + 1 : place + 2]
        flat = pieces[0].strip(" ") == "{" and "}" in end and len(set(names)) == len(names) == len(at)
        return cls(tuple(outside), dict(zip(names, at, strict=True))) if flat else None

    def read(self, lines: bytes, names: Sequence[str]) -> tuple[pl.DataFrame, pl.Series] | None:
        """The values of lines with as many quotes, and which lines have this shape; None if they cannot be cut."""
        import polars as pl

        width = 2 * len(self.outside) - 1
        cut = pl.read_csv(lines, has_header=False, separator='"', quote_char=None, infer_schema=False)
        if cut.width != width:
            return None
        pieces = cut.columns
        numbers = {
            2 * n: pl.col(pieces[2 * n]).str.extract(f"^{re.escape(each[0])}{_NUMBER}{re.escape(each[1])}$", 1)
            for n, each in enumerate(self.outside)
            if isinstance(each, tuple)
        }
        alike = [pl.col(pieces[2 * n]) == each for n, each in enumerate(self.outside) if isinstance(each, str)]
        alike += [number.is_not_null() for number in numbers.values()]
        for name, at in self.fields.items():
            alike.append(pl.col(pieces[at - 1 if at in numbers else at - 2]).fill_null("") == name)
        values = {
            name: numbers.get(at, pl.col(pieces[at]).fill_null(""))
            if (at := self.fields.get(name, 0))
            else pl.lit(None, pl.String)
            for name in names
        }
        found = cut.select(
            pl.all_horizontal(alike).fill_null(False).alias("alike"), *(v.alias(f"={n}") for n, v in values.items())
        )
        return found.select(pl.exclude("alike").name.map(lambda name: name[1:])), found["alike"]


class Found(NamedTuple):
    """What was read of a block of lines, which lines those are, and which are left."""

    frames: list[pl.DataFrame]
    places: list[Integers]
    """For each frame the numbers of its lines."""
    others: bytes
    left: Integers
    """The numbers of the lines that are left."""


def plain_objects(lines: bytes, names: Sequence[str]) -> Found:
    r"""The fields `names` of lines that have one of the commonest shapes, as texts; and all other lines.

    >>> found = plain_objects(b'{"user":"ada","at":1e3}\n{"user":"ada","at":12}\n[]\n', ["at", "value"])
    >>> [frame.rows() for frame in found.frames], found.others, found.left.tolist()
    ([[('12', None)]], b'{"user":"ada","at":1e3}\n[]\n', [0, 2])
    """
    text = np.frombuffer(lines, dtype=np.uint8)
    ends = np.flatnonzero(text == ord("\n"))
    sizes = np.diff(ends, prepend=-1)
    quotes = counts_by_line(text == ord('"'), ends)
    # Controls are not allowed in texts, escapes are for others, and a mark before the first byte is taken away by some.
    odd = counts_by_line((text == ord("\\")) | ((text < ord(" ")) & (text != ord("\n"))), ends) > 0
    left = ~odd & (quotes > 0) & (quotes <= _WIDEST) & (quotes % 2 == 0) & (text[ends - sizes + 1] == ord("{"))
    frames, places, read = [], list[Integers](), np.zeros(ends.size, dtype=np.bool_)
    for count in _commonest(quotes[left]):
        among = left & (quotes == count)
        here = np.flatnonzero(among)
        samples = [lines[ends[n] - sizes[n] + 1 : ends[n]].decode() for n in here[[0, here.size // 2, -1]].tolist()]
        shape = next(filter(None, map(Shape.of, samples)), None)
        if shape is None:
            continue
        found = shape.read(lines if among.all() else text[np.repeat(among, sizes)].tobytes(), names)
        if found is None or found[1].len() != here.size:  # no version of the reader may take two lines for one
            continue
        alike = found[1].to_numpy()
        frames.append(found[0] if alike.all() else found[0].filter(found[1]))
        places.append(here[alike])
        read[places[-1]] = True
    others = b"" if read.all() else text[np.repeat(~read, sizes)].tobytes()
    return Found(frames, places, others, np.flatnonzero(~read))


def _commonest(counts: Integers) -> list[int]:
    numbers = np.bincount(counts)
    return [int(n) for n in np.argsort(numbers, kind="stable")[::-1][:SHAPES] if numbers[n]]
