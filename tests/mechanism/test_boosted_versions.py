"""States of earlier versions are read."""

import hashlib
import json

import numpy as np

from dpi.budget import Epsilon
from dpi.domain import Categories, Hashed
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import Histogram
from dpi.mechanism.base import Measurement
from dpi.mechanism.boosted import Boosted
from dpi.mechanism.boosted.experts import Walked
from dpi.mechanism.boosted.quiet import parts, whole
from dpi.noise import UnsafeSeededSource


def test_a_state_of_version_3_goes_on():
    """Its messages had been aged to the next slot: they are kept, with no age, and no walk told apart."""
    mechanism, domain = Boosted(), Categories(["a", "b", "c"], other=None)
    state = mechanism.initial(domain)
    for slot in range(3):
        counts = np.array([900, 80, 20], dtype=np.int64) << 32
        state, _ = mechanism.update(state, Measurement(slot, Epsilon.at_most("0.1"), counts))
    now = mechanism.to_bytes(state)
    magic = b"dpi boosted state 5\n"
    line, _, arrays = now[len(magic) + 32 :].partition(b"\n")
    header = json.loads(line)
    del header["age"]
    messages = 2 * state.pool.mean.nbytes
    body = json.dumps(header).encode() + b"\n" + arrays[:messages] + arrays[messages + state.walk.nbytes :]
    old = b"dpi boosted state 3\n" + hashlib.blake2b(body, digest_size=32).digest() + body
    read = mechanism.from_bytes(domain, old)
    assert read.age == 0
    assert not read.walk.any()
    for name in ("log_weights", "odds", "population"):
        assert getattr(read, name).tobytes() == getattr(state, name).tobytes()
    assert read.pool.variance.tobytes() == state.pool.variance.tobytes()
    _, estimate = mechanism.update(read, Measurement(3, Epsilon.at_most("0.1"), counts))
    assert abs(estimate.pdf.sum() - 1) < 1e-9


def test_a_huge_state_of_version_4_goes_on():
    """It had a whole row for every tracker: with all bins loud it gives what the same rows give now, bit for bit."""
    mechanism, domain = Boosted(), Hashed(10_000, bytes(32))
    counts = np.zeros(domain.size, dtype=np.int64)
    counts[:50] = np.arange(50, 0, -1) * 40 << 24
    state, source = mechanism.initial(domain), UnsafeSeededSource(2)
    for slot in range(4):
        measurement = mechanism.measure(state, Histogram(counts, GRAINS), Epsilon.at_most("0.1"), slot, source)
        state, _ = mechanism.update(state, measurement)
    assert 0 < state.loud.at.size < domain.size
    line, _, _ = mechanism.to_bytes(state)[len(b"dpi boosted state 5\n") + 32 :].partition(b"\n")
    every = whole(Walked(state.pool, state.walk), state.loud)
    header = {**json.loads(line), "pool": every.walk.shape}
    del header["loud"]
    arrays = (*parts(every), state.log_weights, state.odds, state.population)
    body = json.dumps(header).encode() + b"\n" + b"".join(array.tobytes() for array in arrays)
    old = b"dpi boosted state 4\n" + hashlib.blake2b(body, digest_size=32).digest() + body
    read = mechanism.from_bytes(domain, old)
    assert read.loud.at.size == domain.size
    one, estimate = mechanism.update(state, measurement)
    other, again = mechanism.update(read, measurement)
    assert estimate.pdf.tobytes() == again.pdf.tobytes()
    assert mechanism.to_bytes(one) == mechanism.to_bytes(other)
