import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpi.errors import OptionError
from dpi.noise import (
    SystemSource,
    UnsafeSeededSource,
    bernoulli_exp,
    exponential_choices,
    exponential_mechanism,
    permute_and_flip,
)
from dpi.noise._selection import _exponential_exact, _gaps
from dpi.noise.source import LazyUniform
from dpi_audit.samplers import coins_law, selection_law
from statistics_ import assert_law
from strategies import few

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
    draws = [mechanism(q, rate, source) for _ in range(few(10_000, 30_000))]
    assert_law(np.bincount(draws, minlength=5), law(q.tolist(), float(rate)))


RATE = Fraction(7, 10)


def drawn_laws(q):
    """The laws of both mechanisms as their own draws show them, to 2^-256."""
    gaps = _gaps(np.array(q)).tolist()
    coin = coins_law(lambda gap, source: bool(bernoulli_exp(np.array([gap]), RATE, source)[0]), gaps)
    choice = selection_law(lambda source: exponential_mechanism(np.array(q), RATE, source), len(q))
    return [[math.exp(law.logarithms[i]) for i in range(len(q))] for law in (choice, coin)]


@settings(max_examples=few(3, 50), deadline=None)
@given(scores, st.data())
def test_both_laws_are_those_of_their_formulas_and_lose_at_most_twice_the_rate(q, data):
    """For neighbours whose scores differ by at most one, every choice's log-ratio is at most 2·rate, for both laws.

    The expected score of permute-and-flip is at least that of the exponential mechanism at the same rate.
    """
    other = [x + data.draw(st.integers(-1, 1)) for x in q]
    sides = [(scored, drawn_laws(scored)) for scored in (q, other)]
    for one, two in zip(*(laws for _, laws in sides), strict=True):
        for a, b in zip(one, two, strict=True):
            assert abs(math.log(a / b)) <= 2 * RATE + 1e-9
    for scored, laws in sides:
        exponential, flipped = (sum(p * x for p, x in zip(law, scored, strict=True)) for law in laws)
        assert flipped >= exponential - 1e-12
        for law, formula in zip(laws, (exponential_law, permute_and_flip_law), strict=True):
            assert law == pytest.approx(formula(scored, float(RATE)), rel=1e-12)


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


class Zeros:
    """A source of U = 0: it lies in the interval of the first candidate, however narrow that is."""

    def words(self, count):
        """No bit is set."""
        return np.zeros(count, dtype=np.uint64)


@pytest.mark.parametrize("mechanism", [exponential_mechanism, permute_and_flip])
def test_a_weight_that_underflows_is_not_zero(mechanism):
    """A candidate of weight e^-800 can be chosen, by way of the fast path too: no output is ever impossible."""
    assert mechanism(np.array([0, 800]), Fraction(1), Zeros()) == 0


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
    """Empty scores, floats and matrices are errors in one sentence: never the size of a score."""
    for bad in (np.array([], dtype=np.int64), np.array([0.5]), np.array([[1]]), np.array([1], dtype=np.uint64)):
        for mechanism in (exponential_mechanism, permute_and_flip):
            with pytest.raises(OptionError, match="`scores` must"):
                mechanism(bad, Fraction(1), SystemSource())


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(-1), Fraction(64) + Fraction(1, 10**9)])
def test_rates_out_of_range_are_refused(rate):
    """A rate is public: it must be above 0 and at most 64."""
    for mechanism in (exponential_mechanism, permute_and_flip):
        with pytest.raises(OptionError, match="`rate` must"):
            mechanism(np.array([1, 2]), rate, SystemSource())
        assert mechanism(np.array([1, 1 << 20]), Fraction(64), SystemSource()) == 1


def test_gaps_are_exact_over_all_of_64_bits():
    """From the lowest to the highest integer there are 2^64 - 1 steps, and none of them is lost."""
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    assert _gaps(np.array([low, 0, high - 1, high])).tolist() == [2**64 - 1, 2**63 - 1, 1, 0]


def test_a_wide_span_keeps_its_law():
    """The law depends on gaps alone: at a rate of 2^-61, scores 2^61 apart have odds of e to one."""
    q, source = np.array([-(2**60), 2**60, 2**60]), UnsafeSeededSource(6)
    for mechanism, law in ((exponential_mechanism, exponential_law), (permute_and_flip, permute_and_flip_law)):
        draws = [mechanism(q, Fraction(1, 2**61), source) for _ in range(few(6_000, 20_000))]
        assert_law(np.bincount(draws, minlength=3), law([-1, 0, 0], 1.0))


class Scripted:
    """Hands out given words, then counts how many were asked for."""

    def __init__(self, *given):
        self.given, self.asked = list(given), 0

    def words(self, count):
        """The next given words."""
        self.asked += count
        return np.array([self.given.pop(0) for _ in range(count)], dtype=np.uint64)


def test_several_choices_are_those_of_one_after_the_other():
    """The same words give the same choices, one that only further bits decide (U = 1/2 of two equals) among them."""
    for scores in (np.array([0, 3, -5, 3]), np.array([4, 4])):
        words = [*UnsafeSeededSource(8).words(20).tolist(), *[1 << 63] * 20]
        one, several = Scripted(*words), Scripted(*words)
        expected = [exponential_mechanism(scores, Fraction(1, 3), one) for _ in range(25)]
        assert exponential_choices(scores, Fraction(1, 3), several, 25) == expected
        assert several.asked == one.asked
        assert one.asked == 25 or scores.size == 2
    assert one.asked > 25


def test_the_exact_path_decides_at_any_span():
    """With a weight that no decimal can hold, e^(-2^70), the choice is still made, and only by bits of U."""
    gaps = np.array([2**64 - 1, 0], dtype=np.uint64)
    source = Scripted(0, 0, 5)
    assert _exponential_exact(gaps, Fraction(64), LazyUniform(0, 64, source)) == 1
    assert source.asked == 3  # while all bits are zero, U may still be below any positive number


@pytest.mark.parametrize(
    "q", [[0, 0, 0], [5, 1, 3, 0, 2], [0, 7], [1, 0, 0, 1], list(range(12)), [0, -40, 3, -41]], ids=str
)
def test_floats_never_decide_a_choice_next_to_a_border(q):
    """A few steps of 2^-64 on either side of every border, and up to 2^40 away, the choice is that of whole numbers."""
    rate, array = Fraction(1, 3), np.array(q)
    with mpmath.workprec(300):
        weights = [mpmath.exp(mpmath.mpf(x - max(q)) / 3) for x in q]
        borders = [int(mpmath.floor(sum(weights[: i + 1]) / sum(weights) * 2**64)) for i in range(len(q) - 1)]
    for i, border in enumerate(borders):
        for step in (0, 1, 2, 3, 50, 1 << 8, 1 << 10, 1 << 14, 1 << 20, 1 << 40):
            for word in {border - step, border + step}:
                if not 0 <= word < 1 << 64:
                    continue
                chosen = exponential_mechanism(array, rate, Scripted(word, *[1 << 63] * 8))
                exact = _exponential_exact(_gaps(array), rate, LazyUniform(word, 64, Scripted(*[1 << 63] * 8)))
                assert chosen == exact
                if step > 1 and abs(word - border) < min(
                    abs(word - b) for b in [*borders[:i], *borders[i + 1 :], -1 << 70]
                ):
                    assert (chosen <= i) == (word < border)
