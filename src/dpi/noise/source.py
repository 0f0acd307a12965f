"""Random bits, and uniform numbers whose bits are drawn only as far as a decision needs them."""

from __future__ import annotations

import hashlib
import os
from typing import Protocol

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

WORD_BITS = 64


class RandomSource(Protocol):
    """Where random bits come from."""

    def words(self, count: int) -> Words:
        """`count` independent uniform 64-bit words."""
        ...


class SystemSource:
    """The operating system's generator, asked anew at every call.

    Nothing is kept between calls, so a forked process shares no bits with its parent.

    >>> SystemSource().words(3).shape
    (3,)
    """

    def words(self, count: int) -> Words:
        """`count` independent uniform 64-bit words."""
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)

    def __repr__(self) -> str:
        return "SystemSource()"


class UnsafeSeededSource:
    """A reproducible generator, for tests alone: whoever knows the seed can subtract the noise.

    >>> a, b = UnsafeSeededSource(1), UnsafeSeededSource(1)
    >>> bool((a.words(4) == b.words(4)).all())
    True
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._calls = 0

    def words(self, count: int) -> Words:
        """Return the next `count` words of the seed's sequence of calls."""
        label = f"{self._seed}/{self._calls}".encode()
        self._calls += 1
        return np.frombuffer(hashlib.shake_256(label).digest(8 * count), dtype=np.uint64)

    def __repr__(self) -> str:
        return f"UnsafeSeededSource({self._seed})"


class LazyUniform:
    """A true uniform on [0, 1), known so far to lie in [numerator, numerator + 1) / 2^bits.

    >>> u = LazyUniform(1, 1, UnsafeSeededSource(0))
    >>> u.extend()
    >>> u.bits, u.numerator >> 64
    (65, 1)
    """

    def __init__(self, numerator: int, bits: int, source: RandomSource) -> None:
        self.numerator = numerator
        self.bits = bits
        self._source = source

    def extend(self) -> None:
        """Draw 64 further bits."""
        self.numerator = appended(self.numerator, int(self._source.words(1)[0]))
        self.bits += WORD_BITS


def appended(numerator: int, word: int) -> int:
    """Return the first bits of a number with 64 further ones."""
    return numerator << WORD_BITS | word


def leading(number: int, width: int, bits: int) -> int:
    """Return the first `bits` of the `width` bits of a number: uniform if the number is."""
    return number >> (width - bits)


def uniform_below(bound: int, source: RandomSource) -> int:
    """Return a uniform integer in 0 … bound - 1, exactly, by rejection.

    >>> uniform_below(1, SystemSource())
    0
    """
    bits = (bound - 1).bit_length()
    words = -(-bits // WORD_BITS)
    while True:
        value = leading(int.from_bytes(source.words(words).tobytes(), "little"), words * WORD_BITS, bits)
        if value < bound:
            return value
