"""Noise from given words, drawn twice: by `dpi.noise`, and by the sampler that is extracted from `proofs/Sampler.v`.

    python tests/sampler_oracle.py            # writes tests/proofs/sampler_words.json anew, with the extracted sampler

The words of the file begin uniforms exactly where a result changes: floats cannot tell there, and further words must.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np

from dpi.noise.exponential import FAST_BITS
from dpi.noise.laplace import SATURATION
from dpi.noise.source import WORD_BITS, RandomSource

PROOFS = Path(__file__).resolve().parent.parent / "proofs"
STORED = Path(__file__).resolve().parent / "proofs/sampler_words.json"
NEEDED = ("Laplace", "Mass", "Draws", "Exponent", "Floats", "Sampler", "ExtractSampler")
BASE = 1 << WORD_BITS
GUARD = 64
"""How many bits the extracted sampler has in reserve: it asks for a word where they do not suffice, once in 2^64."""


def build(folder: Path) -> Path:
    """Extract the sampler and compile it; returns the program."""
    for name in (*(f"{name}.v" for name in NEEDED), "sampler_oracle.ml"):
        shutil.copy(PROOFS / name, folder)
    compiled = ["ocamlfind", "ocamlopt", "-package", "zarith", "-linkpkg", "sampler.mli", "sampler.ml"]
    for command in (
        *(["coqc", "-q", f"{name}.v"] for name in NEEDED),
        [*compiled, "sampler_oracle.ml", "-o", "sampler"],
    ):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "sampler"


def ask(program: Path, questions: Iterable[str]) -> list[list[str]]:
    """The answers of the extracted sampler: how many words it drew, and what it returns."""
    script = "".join(f"{question}\n" for question in questions)
    answer = subprocess.run([program], input=script.encode(), capture_output=True, check=True).stdout
    return [line.split() for line in answer.decode().splitlines()]


class Played:
    """A source that plays given words and none besides."""

    def __init__(self, words: Iterable[int]) -> None:
        self.left = list(words)

    def words(self, count: int) -> np.ndarray:
        """The next words."""
        assert count <= len(self.left), "more words than were given"
        head, self.left = self.left[:count], self.left[count:]
        return np.array(head, dtype=np.uint64)


class Recorded:
    """A source that keeps a list of what another gave."""

    def __init__(self, source: RandomSource) -> None:
        self.source = source
        self.given: list[int] = []

    def words(self, count: int) -> np.ndarray:
        """The next words of the other."""
        words = self.source.words(count)
        self.given += words.tolist()
        return words


@dataclass
class Case:
    """Values, a scale, and words for their noise."""

    name: str
    scale: Fraction
    values: list[int]
    words: list[int]

    @property
    def bits(self) -> int:
        """How many bits the low digit has: of a word they are the first, and its coin is the rest."""
        return max(0, int(self.scale).bit_length() - FAST_BITS)

    def question(self) -> str:
        """What to ask the extracted sampler."""
        numbers = [GUARD, BASE, 1 << self.bits, BASE >> self.bits, self.scale.numerator, self.scale.denominator]
        return " ".join(map(str, ("noise", *numbers, len(self.values), *self.values, *self.words)))


def cut(values: Iterable[int]) -> list[int]:
    """What `dpi.noise` makes of noisy values at the end: cut to ± 2^61."""
    return [max(-SATURATION, min(SATURATION, value)) for value in values]


def power(exponent: Fraction, bits: int) -> int:
    """The first bits of e^-exponent."""
    with mpmath.workprec(bits + 200):
        value = mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator)
        return int(mpmath.floor(value * mpmath.mpf(2) ** bits))


def beside(exponent: Fraction, bits: int, rng: random.Random) -> Iterator[list[int]]:
    """Numbers next to e^-exponent: the first bits, and further words that decide.

    The interval of the first bits has the border inside, so that only one, two or three words more tell the side. The
    intervals next to it are decided by the first bits.
    """
    whole = power(exponent, bits + 3 * WORD_BITS)
    first, digits = whole >> 3 * WORD_BITS, [whole >> shift & BASE - 1 for shift in (2 * WORD_BITS, WORD_BITS, 0)]
    for depth in range(3):
        for step in (-1, 1):
            if 0 <= digits[depth] + step < BASE:
                yield [first, *digits[:depth], digits[depth] + step]
        yield [first, *digits[:depth], rng.randrange(BASE), rng.randrange(BASE)][: depth + 2]
    for neighbour in (first - 1, first + 1):
        if 0 < neighbour < 1 << bits:
            yield [neighbour]


def settled(words: list[int], bits: int, decided: Callable[[int, int], bool], rng: random.Random) -> list[int]:
    """As many of the words as decide, and further ones where they do not."""
    number, used = words[0], 1
    while not decided(number, bits):
        words = [*words, rng.randrange(BASE)] if used == len(words) else words
        number, used, bits = number << WORD_BITS | words[used], used + 1, bits + WORD_BITS
    return words[:used]


def one_floor(scale: Fraction) -> Callable[[int, int], bool]:
    """Whether floor(-scale · ln U) is the same for all U from number to number + 1, in 2^-bits."""

    def floor(number: int, bits: int) -> int:
        with mpmath.workprec(2 * bits + 200):
            return int(mpmath.floor(mpmath.log(mpmath.mpf(2) ** bits / number) * scale.numerator / scale.denominator))

    return lambda number, bits: number > 0 and floor(number, bits) == floor(number + 1, bits)


def one_side(exponent: Fraction) -> Callable[[int, int], bool]:
    """Whether e^-exponent is outside of the numbers from number to number + 1, in 2^-bits."""
    return lambda number, bits: number != power(exponent, bits)


SCALES = [
    Fraction(1, 1000), Fraction(1, 100), Fraction(1, 2), Fraction(2), Fraction(25, 3), Fraction(1 << 24, 10),
    Fraction((1 << 29) + 1, 3), Fraction((1 << 30) - 1), Fraction(1 << 31), Fraction((1 << 40) + 7, 3),
    Fraction((1 << 64) + 1, 5), Fraction(1 << 80),
]  # fmt: skip
"""From no noise to speak of up to the largest: from 2^30 on a word is split."""
VALUES = [0, 5, -7, 1 << 60, -(1 << 60), 123456789]


def cases() -> Iterator[Case]:
    """Words at borders, at both ends of all words, and some of no kind."""
    for number, scale in enumerate(SCALES):
        rng = random.Random(number)
        bits = Case("", scale, [], []).bits
        heads = [[0, 0], [0], [1], [BASE - 1], [BASE // 2], *([rng.randrange(1, BASE)] for _ in VALUES)]
        for j in sorted({1, 2, int(scale) >> bits, 3 * (int(scale) >> bits) + 1} - {0}):
            exponent = j * (1 << bits) / scale
            if exponent > 250:
                continue
            zeros = int(exponent / 44)  # words of e^-exponent that are zero, or nearly so
            for first, *more in beside(exponent, (zeros + 1) * WORD_BITS, rng):
                heads.append([*([0] * (zeros - 1)), *divmod(first, BASE), *more] if zeros else [first, *more])
        heads += [[rng.randrange(1, BASE)] for _ in range(len(heads) % 2)]
        rng.shuffle(heads)
        heads = [settled(head, WORD_BITS, one_floor(scale / (1 << bits)), rng) for head in heads]
        lows: list[list[int]] = []
        if bits:
            largest, coins = (1 << bits) - 1, WORD_BITS - bits
            digits = [0, 1, largest, rng.randint(0, largest), rng.randint(0, largest)]
            marked = [(r, coin) for r in digits for coin in ([[0]] if r == 0 else beside(r / scale, coins, rng))]
            rng.shuffle(marked)
            marked += [(rng.randint(0, largest), [rng.randrange(1 << coins)]) for _ in heads]
            for r, coin in marked[: len(heads)]:
                first, *more = settled(coin, coins, one_side(r / scale), rng)
                lows.append([r << coins | first, *more])
        words = [head[0] for head in heads] + [word for head in heads for word in head[1:]]
        words += [low[0] for low in lows] + [word for low in lows for word in low[1:]]
        words += [rng.randrange(BASE) for _ in lows]
        values = [VALUES[i % len(VALUES)] for i in range(len(heads) // 2)]
        yield Case(f"scale {scale}", scale, values, words)


def stored() -> list[tuple[Case, list[int]]]:
    """The cases of the file, each cut to the words that are drawn, and what the extracted sampler makes of them."""
    return [
        (Case(name, Fraction(scale), values, [int(word, 16) for word in words]), noisy)
        for name, scale, values, words, noisy in json.loads(STORED.read_text())
    ]


def write(program: Path) -> None:
    """Write the file."""
    rows = []
    for case, (used, *noisy) in zip(cases(), ask(program, (case.question() for case in cases())), strict=True):
        words = [f"{word:x}" for word in case.words[: int(used)]]
        rows.append(json.dumps([case.name, str(case.scale), case.values, words, [int(value) for value in noisy]]))
    STORED.write_text("[\n" + ",\n".join(rows) + "\n]\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        write(build(Path(name)))
    sys.exit(0)
