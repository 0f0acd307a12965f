import hashlib
import os

import numpy as np
import pytest

from dpi.noise import SystemSource, UnsafeSeededSource, uniform_below
from dpi.noise.source import LazyUniform
from statistics_ import assert_law


def test_a_seed_has_one_sequence_of_words():
    """Stored figures rest on it: call by call, SHAKE-256 of the seed and of the number of calls before."""
    source = UnsafeSeededSource(7)
    for call, count in enumerate([3, 1, 0, 2]):
        expected = hashlib.shake_256(f"7/{call}".encode()).digest(8 * count)
        assert source.words(count).tobytes() == expected


@pytest.mark.system
def test_forked_processes_share_no_bits():
    """A child that draws after a fork gets other bits than its parent."""
    source = SystemSource()
    source.words(4)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, source.words(4).tobytes())
        os._exit(0)
    os.close(writer)
    theirs = os.read(reader, 32)
    os.close(reader)
    os.waitpid(child, 0)
    assert theirs != source.words(4).tobytes()


@pytest.mark.system
def test_system_source_asks_the_operating_system_each_time(monkeypatch):
    """Every call reaches os.urandom for exactly the bytes it needs: nothing is kept back."""
    asked = []
    monkeypatch.setattr(os, "urandom", lambda n: asked.append(n) or bytes(n))
    source = SystemSource()
    source.words(3)
    source.words(1)
    assert asked == [24, 8]


@pytest.mark.parametrize("bound", [2, 3, 5, 64, 1000])
def test_uniform_below_is_uniform(bound):
    """Integers below a bound have equal frequencies."""
    source = UnsafeSeededSource(bound)
    draws = [uniform_below(bound, source) for _ in range(3000)]
    assert_law(np.bincount(draws, minlength=bound), np.full(bound, 1 / bound))


def test_uniform_below_a_bound_of_more_than_64_bits():
    """Bounds may exceed a word."""
    bound = 3 << 100
    draws = [uniform_below(bound, SystemSource()) for _ in range(200)]
    assert max(draws) < bound
    assert max(draws) > bound // 8


def test_lazy_uniform_keeps_what_it_knows():
    """Extending a uniform refines its interval and never leaves it."""
    uniform = LazyUniform(5, 3, SystemSource())
    uniform.extend()
    assert uniform.numerator >> 64 == 5
    assert uniform.bits == 67
