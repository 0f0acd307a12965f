import hashlib
import json
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest

from clocked_users import play
from dpi.errors import StateError
from dpi.mechanism import cells
from dpi.mechanism.cells import dynamics
from dpi.mechanism.cells.activity import Activity
from dpi.mechanism.cells.factors import Alike


@pytest.fixture(scope="module")
def state():
    """A state after a few slots."""
    rng = np.random.default_rng(1)
    *_, (last, _) = play([(np.arange(200), rng.integers(0, 7, 200)) for _ in range(10)], 7, classes=4)
    return last


def test_bytes_come_back_bit_for_bit(state):
    """A state and the state of its bytes have the same bytes."""
    data = cells.to_bytes(state)
    assert cells.to_bytes(cells.from_bytes(data)) == data


def test_a_fresh_state_has_bytes_too():
    """Also before the first slot."""
    data = cells.to_bytes(cells.initial(5, 3))
    assert cells.to_bytes(cells.from_bytes(data)) == data


@pytest.mark.parametrize("damage", [lambda d: d[:-1], lambda d: d[:-1] + bytes([d[-1] ^ 1]), lambda d: b"x" + d])
def test_damage_is_noticed(state, damage):
    """A byte that is missing, changed or added is refused."""
    with pytest.raises(StateError):
        cells.from_bytes(damage(cells.to_bytes(state)))


def test_arrays_are_read_only(state):
    """What a state holds cannot be changed."""
    for array in (state.cells.mean, state.pool.messages.mean, state.moments, state.absent.mean):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_its_size_is_classes_times_bins():
    """Some ten numbers for each class and bin, and the messages of four laws."""
    small, large = (len(cells.to_bytes(cells.initial(1000, classes))) for classes in (2, 12))
    assert (large - small) / (10 * 1000 * 8) == pytest.approx(8, abs=0.5)


@pytest.mark.parametrize("bins", [2, 1000, 20_000])
def test_the_classes_of_a_domain_keep_the_state_small(bins):
    """Below 18 megabytes, where messages of the laws alone are not more."""
    assert len(cells.to_bytes(cells.initial(bins, cells.classes_of(bins)))) < 18e6


NEW = {
    6: (".looked", ".sizes."),
    4: (".cells.walk", ".laws.seen", ".laws.foreseen", ".drift."),
    2: (".missing",),
}
"""Arrays by the version that brought them."""


def of_version(state, version):
    """The bytes that an older version would have written; weights of dynamics that it did not know are left out."""
    magic, body = b"dpi cells state %d\n" % version, cells.to_bytes(state)[18 + 32 :]
    line, _, numbers = body.partition(b"\n")
    header = json.loads(line) | {name: {"seen": 1.0, "foreseen": 2.0} for name in ("laws", "sizes")}
    del header["alike"], header["sizes_alike"]
    if version < 5:
        del header["heard"]
    if version == 1:
        del header["activity"]
    unknown = tuple(name for brought, names in NEW.items() for name in names if version < brought)
    at, kept = 0, []
    numbers = np.frombuffer(numbers, dtype="<f8")
    for path, array in arrays(state):
        here = numbers[at : at + array.size].reshape(array.shape)
        at += array.size
        if version < 4 and path.endswith("weights") and not path.endswith("log_weights"):
            here = here[..., : dynamics.old(version)]
        if not path.startswith(unknown):
            kept.append(here.tobytes())
    body = json.dumps(header).encode() + b"\n" + b"".join(kept)
    return magic + hashlib.blake2b(body, digest_size=32).digest() + body


def arrays(part, path=""):
    """The arrays of a state and where each is."""
    if isinstance(part, np.ndarray):
        yield path, part
    elif is_dataclass(part):
        for field in fields(part):
            yield from arrays(getattr(part, field.name), f"{path}.{field.name}")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_state_of_an_older_version_is_read(state, version):
    """What it lacks is as at the beginning, all else is kept."""
    old = of_version(state, version)
    read = cells.from_bytes(old)
    begun = cells.initial(state.bins, state.classes)
    assert cells.holds(old)
    assert (read.cells.mean == state.cells.mean).all()
    assert (read.moments == state.moments).all()
    assert (read.missing == (begun if version == 1 else state).missing).all()
    assert read.activity == (Activity() if version == 1 else state.activity)
    assert (read.cells.walk == 0).all()
    assert (read.drift.offset == begun.drift.offset).all()
    assert (read.laws.each == begun.laws.each).all()
    own = dynamics.old(version) - 3 * (1 if version == 1 else 2)
    share = 1 - dynamics.PRIOR[-2:].sum()
    np.testing.assert_allclose(read.cells.weights[..., :own], share * state.cells.weights[..., :own])
    assert cells.from_bytes(cells.to_bytes(read)).slot == state.slot


@pytest.mark.parametrize("version", [4, 5])
def test_a_state_of_a_version_before_only_lacks_what_intervals_are_scaled_by(state, version):
    """And, before the fifth, what was heard; all else is kept, bit for bit."""
    read = cells.from_bytes(of_version(state, version))
    assert read.heard == (state.heard if version == 5 else 0)
    assert read.laws_alike == read.sizes_alike == Alike()
    assert (read.sizes.foreseen.sum(), read.looked.sum()) == (0, 0)
    learned = {name: getattr(state, name) for name in ("heard", "laws_alike", "sizes_alike", "sizes", "looked")}
    whole = replace(read, **learned)
    assert cells.to_bytes(whole) == cells.to_bytes(state)


def test_a_state_of_before_sizes_were_compared_learns_that_anew(state):
    """The sixth version did not know at first how far sizes are off together."""
    data = cells.to_bytes(state)
    begin = data.index(b"\n") + 1
    line, _, numbers = data[begin + 32 :].partition(b"\n")
    header = json.loads(line)
    del header["sizes_alike"]
    body = json.dumps(header).encode() + b"\n" + numbers
    read = cells.from_bytes(data[:begin] + hashlib.blake2b(body, digest_size=32).digest() + body)
    assert read.sizes_alike == Alike()
    assert cells.to_bytes(replace(read, sizes_alike=state.sizes_alike)) == data
