"""States as bytes: any tree of dataclasses, tuples, numbers and arrays."""

import hashlib
from dataclasses import dataclass

import numpy as np
import pytest

from dpi.errors import OlderState, StateError
from dpi.mechanism.codec import decode, digested, encode, freeze

MAGIC = b"dpi leaf 2\n"


@dataclass(frozen=True, eq=False)
class Leaf:
    """A number, a text and an array."""

    number: float
    name: str
    array: np.ndarray


@dataclass(frozen=True, eq=False)
class Tree:
    """Leaves, as many as there are."""

    leaves: tuple[Leaf, ...]
    flag: bool
    empty: np.ndarray


def tree():
    """Return a tree of two leaves."""
    one = Leaf(0.1, "one", np.arange(6, dtype=np.int32).reshape(2, 3))
    return Tree((one, Leaf(-1e300, "zwei", np.array([0.1, 0.2]))), True, np.zeros((3, 0)))


def test_a_tree_comes_back_as_it_was():
    """Numbers, texts and arrays are equal, with their types and shapes."""
    data = encode(MAGIC, tree())
    again = decode(Tree, MAGIC, data, "a tree")
    assert encode(MAGIC, again) == data
    assert again.flag is True
    assert [(leaf.number, leaf.name) for leaf in again.leaves] == [(0.1, "one"), (-1e300, "zwei")]
    assert again.leaves[0].array.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert again.leaves[0].array.dtype == np.int32
    assert again.empty.shape == (3, 0)


def test_the_digest_ends_where_the_rest_begins():
    """A store seals what comes before; bytes that are no state have no digest."""
    data = encode(MAGIC, tree())
    end = digested(data)
    assert data[len(MAGIC) : end] == hashlib.blake2b(data[end:], digest_size=32).digest()
    assert digested(b"something else") == 0


def test_other_bytes_are_refused():
    """A changed byte, another kind of state, and one of an earlier version."""
    data = encode(MAGIC, tree())
    with pytest.raises(StateError, match="the state of a tree is damaged"):
        decode(Tree, MAGIC, data[:-1] + bytes([data[-1] ^ 1]), "a tree")
    with pytest.raises(StateError, match="not written by this version of a tree"):
        decode(Tree, MAGIC, b"x" + data, "a tree")
    with pytest.raises(OlderState, match="earlier version"):
        decode(Tree, MAGIC, encode(b"dpi leaf 1\n", tree()), "a tree")


def test_frozen_arrays_are_read_only():
    """Those of every leaf."""
    frozen = tree()
    freeze(frozen)
    for array in (frozen.leaves[0].array, frozen.leaves[1].array):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 1
