"""A term is what numpy computes: the solver's arithmetic agrees with arrays on numbers that are known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpi.budget import billing
from dpi.exact.integers import GRAINS, capped, fraction_ceil, fraction_floor, halves, proportional
from dpi.noise.exponential import split
from dpi.noise.laplace import saturated
from dpi.stream.prefix_tree import node_cut, slot_cut
from dpi_research.baselines._gaussian import cut
from solver import counterexample

LARGEST = (1 << 63) - 1
signed = st.integers(-LARGEST, LARGEST)
CASES = {
    "fraction_floor": (fraction_floor, st.integers(1, 1 << 50).map(lambda w: (w // 3, w))),
    "fraction_ceil": (lambda g, a: fraction_ceil(a, g), st.tuples(st.integers(0, GRAINS), st.integers(0, 1 << 61))),
    "proportional": (
        proportional,
        st.tuples(st.integers(0, GRAINS), st.integers(0, 1 << 38), st.integers(1 << 38, 1 << 50)),
    ),
    "halves": (halves, st.tuples(signed)),
    "capped": (
        lambda high, low: capped(high, low, 60),
        st.tuples(st.integers(-(1 << 62), 1 << 62), st.integers(0, LARGEST)),
    ),
    "saturated": (
        lambda value, high, low: saturated(value, high, low, 20),
        st.tuples(st.integers(-(1 << 60), 1 << 60), signed, st.integers(-(1 << 20), 1 << 20)),
    ),
    "cut": (lambda high, low: cut(high, low, 20), st.tuples(signed, st.integers(-(1 << 20), 1 << 20))),
    "split": (lambda word: split(word, 44), st.tuples(st.integers(0, (1 << 64) - 1))),
    "affordable": (billing.affordable, st.integers(1, 1 << 50).map(lambda e: (GRAINS // 2, e // 3, e))),
    "left": (billing.left, st.tuples(st.integers(0, 1 << 50), st.integers(0, 1 << 50))),
    "weight": (billing.weight, st.tuples(signed)),
    "node_cut": (node_cut, st.tuples(signed)),
    "slot_cut": (lambda grains: slot_cut(grains, 484), st.tuples(st.integers(0, LARGEST))),
}


@pytest.mark.parametrize("name", CASES)
def test_terms_compute_what_arrays_compute(name):
    """On known numbers of every range and sign, a function's result on terms is its result on an array."""
    function, inputs = CASES[name]
    kind = "uint64" if name == "split" else "int64"

    @settings(max_examples=8, deadline=None)
    @given(inputs)
    def check(numbers):
        arrays = function(*(np.array([number], dtype=kind) for number in numbers))
        expected = [int(array[0]) for array in (arrays if isinstance(arrays, tuple) else (arrays,))]

        def statement(p):
            terms = function(*(p.integer(f"input {i}", n, n, kind) for i, n in enumerate(numbers)))
            for term, number in zip(terms if isinstance(terms, tuple) else (terms,), expected, strict=True):
                p.claim("the same number", term.z == number)

        assert counterexample(statement) is None

    check()


def test_a_statement_with_a_branch_is_followed_both_ways():
    """What holds on one side of an `if` alone is no proof."""

    def statement(p):
        x = p.integer("x", 0, 10)
        y = x if x < 5 else x - 5
        p.claim("small", y.z < 5)

    assert counterexample(statement) is not None
    assert "x = 10" in counterexample(statement)


def test_an_intermediate_that_overflows_is_found():
    """Even where the result would fit."""
    assert "a product fits int64" in counterexample(lambda p: p.integer("x", 0, 1 << 62) * 2 - 5)
    assert counterexample(lambda p: p.integer("x", 0, 1 << 61) * 2 - 5) is None
