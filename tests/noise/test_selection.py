import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpi.errors import OptionError
from dpi.noise import SystemSource, UnsafeSeededSource, exponential_mechanism, permute_and_flip
from dpi.noise.selection import _exponential_exact
from dpi.noise.source import LazyUniform
from statistics_ import assert_law

scores = st.lists(st.integers(-4, 4), min_size=2, max_size=4)


def exponential_law(q, rate):
    """e^(rate·q) over its sum."""
    weights = [math.exp(rate * (x - max(q))) for x in q]
    return [w / sum(weights) for w in weights]


def permute_and_flip_law(q, rate):
    """All orders enumerated: the first heads wins."""
    p = [math.exp(rate * (x - max(q))) for x in q]
    law = [0.0] * len(q)
    orders = list(itertools.permutations(range(len(q))))
    for order in orders:
        alive = 1.0
        for i in order:
            law[i] += alive * p[i] / len(orders)
            alive *= 1 - p[i]
    return law


@pytest.mark.parametrize(
    ("mechanism", "law"),
    [(exponential_mechanism, exponential_law), (permute_and_flip, permute_and_flip_law)],
)
def test_choices_have_their_exact_law(mechanism, law):
    """Frequencies follow the law, enumerated over all orders for permute-and-flip."""
    q, rate = np.array([3, 0, 2, 3, -1]), Fraction(2, 3)
    source = UnsafeSeededSource(5)
    draws = [mechanism(q, rate, source) for _ in range(30_000)]
    assert_law(np.bincount(draws, minlength=5), law(q.tolist(), float(rate)))


@given(scores, st.data())
def test_loss_is_at_most_twice_the_rate(q, data):
    """For neighbours whose scores differ by at most one, every choice's log-ratio is at most 2·rate, for both laws."""
    other = [x + data.draw(st.integers(-1, 1)) for x in q]
    for law in (exponential_law, permute_and_flip_law):
        for a, b in zip(law(q, 0.7), law(other, 0.7), strict=True):
            assert abs(math.log(a / b)) <= 1.4 + 1e-9


@given(scores)
def test_permute_and_flip_is_never_worse(q):
    """The expected score of permute-and-flip is at least that of the exponential mechanism at the same rate."""
    a = sum(p * x for p, x in zip(permute_and_flip_law(q, 0.7), q, strict=True))
    b = sum(p * x for p, x in zip(exponential_law(q, 0.7), q, strict=True))
    assert a >= b - 1e-12


@settings(max_examples=50)
@given(st.lists(st.integers(-50, 50), min_size=1, max_size=30), st.integers(0, 2**64 - 1))
def test_fast_and_exact_choice_agree(q, word):
    """For the same uniform, the float path and the integer path choose the same candidate."""

    class First(UnsafeSeededSource):
        def words(self, count):
            drawn = super().words(count)
            return np.array([word], dtype=np.uint64) if self._calls == 1 else drawn

    array, source = np.array(q), First(9)
    exact = _exponential_exact(array.max() - array, Fraction(1, 3), LazyUniform(int(source.words(1)[0]), 64, source))
    assert exponential_mechanism(array, Fraction(1, 3), First(9)) == exact


def test_no_weight_is_truncated_to_zero():
    """A candidate whose weight underflows a float (e^-800) is chosen where U falls into its interval."""
    gaps = np.array([800, 0])
    first = LazyUniform(0, 1200, SystemSource())  # U < 2^-1200 < e^-800
    assert _exponential_exact(gaps, Fraction(1), first) == 0


def test_work_of_selection_does_not_depend_on_the_scores():
    """Both mechanisms ask for the same number of random words, whatever the scores."""

    class Counting:
        def __init__(self):
            self.asked = 0
            self._source = SystemSource()

        def words(self, count):
            self.asked += count
            return self._source.words(count)

    for mechanism in (exponential_mechanism, permute_and_flip):
        asked = []
        for q in (np.zeros(1000, dtype=np.int64), np.arange(1000) * 1000):
            source = Counting()
            mechanism(q, Fraction(1), source)
            asked.append(source.asked)
        assert abs(asked[0] - asked[1]) <= 4


def test_bad_scores_are_refused():
    """Empty scores, floats and spans beyond 50 bits are errors in one sentence."""
    for bad in (np.array([], dtype=np.int64), np.array([0.5]), np.array([[1]]), np.array([-(2**49), 2**49])):
        with pytest.raises(OptionError, match="`scores` must"):
            permute_and_flip(bad, Fraction(1), SystemSource())
