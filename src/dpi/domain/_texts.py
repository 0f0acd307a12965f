"""All texts of a public alphabet up to a public length: the universe in which values are discovered.

It is declared before any data is seen, like every domain, and far too large to list: texts are numbered, so that one
can be drawn without a list. In a stream it is one bin, "any of these texts"; which of them are frequent is what
discovery measures (`dpi.mechanism.text_histogram`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from dpi.domain._domain import Domain
from dpi.errors import OptionError
from dpi.exact.integers import Integers

LONGEST = 128
"""Bytes."""
_Ranges = list[tuple[int, int]]
ALPHABETS: dict[str, _Ranges] = {
    "text": [(0x20, 0x7E), (0xA0, 0xD7FF), (0xE000, 0x10FFFF)],
    "ascii": [(0x20, 0x7E)],
    "digits": [(0x30, 0x39)],
}
"""Code points: any character of Unicode but for control characters, those of ASCII, and 0 … 9."""
_WORDS = {"text": "characters of any kind", "ascii": "ASCII characters", "digits": "digits"}
_WIDTHS = ((0, 0x7F), (0x80, 0x7FF), (0x800, 0xFFFF), (0x10000, 0x10FFFF))
"""Code points by the number of bytes that UTF-8 has for them: 1 to 4."""


class _Characters(NamedTuple):
    """The characters that have one number of bytes: how many, how many before each range, and the ranges."""

    number: int
    before: list[int]
    ranges: _Ranges


class Texts(Domain):
    """Every text of 1 to `length` bytes (UTF-8) over an alphabet.

    `alphabet` is "text" (any characters but control characters), "ascii" (printable) or "digits"; `characters` is a
    text of all that a value may be made of, instead. What is written in another way is no value of this universe.

    >>> universe = Texts(2, characters="ab")
    >>> [universe.text(rank) for rank in range(universe.count)]
    ['a', 'b', 'aa', 'ab', 'ba', 'bb']
    >>> universe.rank("ba"), universe.rank("c"), Texts(32).count > 2**219
    (4, None, True)
    """

    size = 1

    def __init__(self, length: int = 32, alphabet: str = "text", *, characters: str | None = None) -> None:
        if type(length) is not int or not 1 <= length <= LONGEST:
            raise OptionError(f"`length` must be a whole number of bytes from 1 to {LONGEST}. Got {length!r}.")
        if characters is not None and (not isinstance(characters, str) or alphabet != "text"):
            raise OptionError("give `alphabet` or `characters`, which must be a text, not both.")
        if characters is None and alphabet not in ALPHABETS:
            raise OptionError(f"`alphabet` must be one of: {', '.join(ALPHABETS)}. Got {alphabet!r}.")
        allowed = ALPHABETS["text"]
        if characters is not None and not (
            characters and all(any(a <= ord(each) <= b for a, b in allowed) for each in characters)
        ):
            raise OptionError("`characters` must be at least one character, and no control characters.")
        self.length, self.alphabet = length, alphabet
        self.characters = None if characters is None else "".join(sorted(set(characters)))
        if self.count == 0:
            raise OptionError(f"`length` is too short: no character has {length} bytes or fewer.")

    @cached_property
    def _widths(self) -> list[_Characters]:
        """The characters of 1 … 4 bytes."""
        points = ALPHABETS[self.alphabet] if self.characters is None else [(ord(c), ord(c)) for c in self.characters]
        widths = []
        for first, last in _WIDTHS:
            ranges = [(max(a, first), min(b, last)) for a, b in points if a <= last and b >= first]
            *before, number = accumulate((b - a + 1 for a, b in ranges), initial=0)
            widths.append(_Characters(number, before, ranges))
        return widths

    @cached_property
    def _exact(self) -> list[int]:
        """How many texts have exactly n bytes, for n = 0 … length."""
        counts = [1]
        for n in range(1, self.length + 1):
            widths = enumerate(self._widths[:n], 1)
            counts.append(sum(each.number * counts[n - width] for width, each in widths))
        return counts

    @cached_property
    def _shorter(self) -> list[int]:
        """How many texts have 1 … n - 1 bytes, for n = 1 … length + 1; all of them, at the end."""
        return list(accumulate(self._exact[1:], initial=0))

    @property
    def count(self) -> int:
        """How many texts there are."""
        return self._shorter[-1]

    @property
    def lengths(self) -> dict[int, range]:
        """For every number of bytes that a text can have: the numbers of the texts of that length."""
        shorter = self._shorter
        return {n: range(shorter[n - 1], shorter[n]) for n in range(1, self.length + 1) if shorter[n - 1] < shorter[n]}

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        ranges = [each for characters in self._widths for each in characters.ranges]
        return re.compile("[" + "".join(f"\\U{a:08x}-\\U{b:08x}" for a, b in ranges) + "]+")

    def __contains__(self, text: str) -> bool:
        return self._pattern.fullmatch(text) is not None and len(text.encode()) <= self.length

    def rank(self, text: str) -> int | None:
        """Return the number of a text, 0 … count - 1, shorter ones first; None for one that is not of this universe."""
        if text not in self:
            return None
        left = len(text.encode())
        rank = self._shorter[left - 1]
        for character in text:
            point, width = ord(character), len(character.encode())
            rank += sum(self._widths[w - 1].number * self._exact[left - w] for w in range(1, width))
            left -= width
            _, before, ranges = self._widths[width - 1]
            at = next(i for i, (_, last) in enumerate(ranges) if point <= last)
            rank += (before[at] + point - ranges[at][0]) * self._exact[left]
        return rank

    def text(self, rank: int) -> str:
        """Return the text of a number."""
        left = bisect_right(self._shorter, rank)
        rank -= self._shorter[left - 1]
        made = []
        while left:
            width = 1
            while rank >= (here := self._widths[width - 1].number * self._exact[left - width]):
                rank, width = rank - here, width + 1
            left -= width
            digit, rank = divmod(rank, self._exact[left])
            _, before, ranges = self._widths[width - 1]
            at = bisect_right(before, digit) - 1
            made.append(chr(ranges[at][0] + digit - before[at]))
        return "".join(made)

    def encode(self, column: object) -> Integers:
        """Refuse: only discovery asks what a value of a universe is."""
        raise OptionError("a domain of all texts is for discovery (dpi.Discovery, `dpi domain --discover`).")

    def label(self, code: int) -> str:
        """Return what all texts are called together."""
        self._check_code(code)
        made_of = _WORDS[self.alphabet] if self.characters is None else f"{len(self.characters)} characters"
        return f"texts of up to {self.length} bytes, of {made_of}"

    def _description(self) -> Iterable[object]:
        return [[self.length, self.alphabet, self.characters]]

    def __repr__(self) -> str:
        made_of = "" if self.alphabet == "text" else f", {self.alphabet!r}"
        return f"Texts({self.length}{made_of if self.characters is None else f', characters={self.characters!r}'})"
