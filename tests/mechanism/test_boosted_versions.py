"""States of earlier versions are read."""

import hashlib
import json

import numpy as np

from dpi.budget import Epsilon
from dpi.domain import Categories
from dpi.mechanism.base import Measurement
from dpi.mechanism.boosted import Boosted


def test_a_state_of_version_3_goes_on():
    """Its messages had been aged to the next slot: they are kept, with no age, and no walk told apart."""
    mechanism, domain = Boosted(), Categories(["a", "b", "c"], other=None)
    state = mechanism.initial(domain)
    for slot in range(3):
        counts = np.array([900, 80, 20], dtype=np.int64) << 32
        state, _ = mechanism.update(state, Measurement(slot, Epsilon.at_most("0.1"), counts))
    now = mechanism.to_bytes(state)
    magic = b"dpi boosted state 4\n"
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
