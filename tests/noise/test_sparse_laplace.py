import itertools
import math
from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpi.errors import OptionError
from dpi.noise import UnsafeSeededSource, add_laplace, sparse_laplace
from dpi.noise.laplace import SATURATION
from dpi.noise.sparse_laplace import Rounding, others, passing, tail
from dpi_audit.samplers import PRECISION, boundary
from statistics_ import assert_law

CASES = [
    (4, 1, Fraction(2)),
    (115**32, 2_665_000_000, Fraction(1 << 24)),  # one of them passes in about a thousand draws
]


def exactly(trials, threshold, scale):
    """The binomial distribution function of the number of noises at or above the threshold, to 300 digits."""
    p = mpmath.exp(-mpmath.mpf(threshold) * scale.denominator / scale.numerator)
    p /= 1 + mpmath.exp(-mpmath.mpf(scale.denominator) / scale.numerator)

    def below(k):
        term = mpmath.exp(trials * mpmath.log1p(-p))
        terms = [term := term * (trials - j + 1) / j * p / (1 - p) if j else term for j in range(k + 1)]
        return mpmath.fsum(terms)

    return p, below


@pytest.mark.parametrize(("trials", "threshold", "scale"), CASES)
def test_the_unit_interval_is_cut_exactly_where_the_law_does(trials, threshold, scale):
    """The borders of U between two results, found by bisection to 2^-256, are those of the distribution function."""
    with mpmath.workdps(300):
        _, below = exactly(trials, threshold, scale)
        for k in (0, 1):
            found = boundary(lambda source: passing(trials, threshold, scale, source), lambda n, k=k: n <= k)
            border = mpmath.mpf(found.numerator) / found.denominator
            assert abs(border - below(k)) < mpmath.mpf(2) ** (2 - PRECISION)


@pytest.mark.parametrize(("trials", "threshold", "scale"), [*CASES, (256**128, 710 * 5, Fraction(5))])
def test_the_tail_lies_between_its_bounds_and_they_close_in(trials, threshold, scale):
    """Of 40 digits the two bounds of P(Z ≥ θ) differ in the last ones alone, and the truth lies between."""
    with mpmath.workdps(300):
        p, _ = exactly(trials, threshold, scale)
        low, high = (mpmath.mpf(str(bound)) for bound in tail(threshold, scale, Rounding.to(40)))
        assert low < p < high
        assert (high - low) / p < mpmath.mpf(10) ** -30


def test_the_law_is_binomial():
    """Frequencies of 1,500 draws follow Binomial(6, p) (false alarm 10^-7)."""
    source = UnsafeSeededSource(5)
    drawn = [passing(6, 2, Fraction(2), source) for _ in range(1_500)]
    with mpmath.workdps(50):
        _, below = exactly(6, 2, Fraction(2))
        law = [float(below(k) - (below(k - 1) if k else 0)) for k in range(7)]
    assert_law(np.bincount(drawn, minlength=7), law)


@pytest.mark.parametrize(("trials", "threshold"), [(-1, 1), (5, 0)])
def test_what_has_no_tail_is_refused(trials, threshold):
    """A threshold of zero is passed by half of the noise and more: the formula is that of one and above."""
    with pytest.raises(OptionError, match="at least"):
        passing(trials, threshold, Fraction(1), UnsafeSeededSource(1))
    assert passing(0, 1, Fraction(1), UnsafeSeededSource(1)) == 0


SCALE, THRESHOLD, UNIVERSE = Fraction(2), 2, 4
HIGHEST = 5
"""Sums from here on are one cell."""


def dense(numbers):
    """The law of what is shown of a universe that is listed: for each value nothing, or a sum from the threshold on."""
    q = math.exp(-1 / SCALE)

    def cell(number, y):
        return (1 - q) / (1 + q) * q ** abs(y - number)

    laws = []
    for number in numbers:
        law = {y: cell(number, y) for y in range(THRESHOLD, HIGHEST)}
        law[HIGHEST] = sum(cell(number, y) for y in range(HIGHEST, 200))
        law[None] = 1 - sum(law.values())
        laws.append(law)
    return {shown: math.prod(law[y] for law, y in zip(laws, shown, strict=True)) for shown in itertools.product(*laws)}


def drawn(occupied, source):
    """One draw of the sparse sampler, as a row of the dense law."""
    places = sorted(occupied)
    values = np.array([occupied[place] for place in places], dtype=np.int64)
    passed, empty = sparse_laplace(values, set(places), UNIVERSE, SCALE, THRESHOLD, source)
    shown = {places[at]: y for at, y in passed.items()} | empty
    return tuple(None if v not in shown else min(shown[v], HIGHEST) for v in range(UNIVERSE))


@pytest.mark.parametrize("occupied", [{1: 3, 2: 0}, {}, {0: 1, 1: 0, 2: 0, 3: 4}], ids=["two of four", "none", "all"])
def test_the_law_is_that_of_noise_on_every_value(occupied):
    """Joint frequencies of what is shown, and how large, follow the dense law; also if all or none are occupied.

    A value that is listed with a zero is as one that is not. False alarm 10^-7 each.
    """
    law = dense([occupied.get(v, 0) for v in range(UNIVERSE)])
    assert sum(law.values()) == pytest.approx(1)
    source = UnsafeSeededSource(sum(occupied) + len(occupied))
    found = Counter(drawn(occupied, source) for _ in range(1_200))
    assert set(found) <= set(law)
    assert_law([found[shown] for shown in law], list(law.values()))


def test_the_dense_law_is_that_of_the_noise():
    """What the tests here compare with is what `add_laplace` draws on a listed universe (false alarm 10^-7)."""
    numbers = np.array([0, 3, 0, 0])
    law = dense(numbers.tolist())
    noisy = add_laplace(np.tile(numbers, 20_000), SCALE, UnsafeSeededSource(3)).reshape(-1, 4)
    rows = [tuple(min(y, HIGHEST) if y >= THRESHOLD else None for y in row) for row in noisy.tolist()]
    found = Counter(rows)
    assert_law([found[shown] for shown in law], list(law.values()))


def test_no_output_of_neighbours_is_more_than_e_to_the_shift_as_likely():
    """Exact ratios over all outputs of a small universe, for every way in which a user moves two values by one."""
    base = [0, 3, 1, 0]
    for at, step in itertools.product(range(4), (1, -1)):
        other = [number + step * (v == at) for v, number in enumerate(base)]
        one, two = dense(base), dense(other)
        worst = max(abs(math.log(one[shown] / two[shown])) for shown in one)
        assert worst <= 1 / SCALE + 1e-12
        assert worst > 0.2 / SCALE


def test_sets_of_others_are_equally_likely():
    """Each of the six pairs of four values that are free, of seven (false alarm 10^-7)."""
    source = UnsafeSeededSource(8)
    found = Counter(tuple(others(2, {1, 3, 5}, 7, source)) for _ in range(2_000))
    assert set(found) == set(itertools.combinations((0, 2, 4, 6), 2))
    assert_law(list(found.values()), [1 / 6] * 6)


def test_a_universe_that_cannot_be_listed_takes_no_longer():
    """Of 2^2040 values nobody's pass as rarely as the threshold says, and a large one of somebody's does."""
    threshold = round(50 * (2040 * math.log(2) + math.log(10**9)))
    passed, empty = sparse_laplace(
        np.array([10**6, 1]), {17, 2**1000}, 2**2040, Fraction(50), threshold, UnsafeSeededSource(2)
    )
    assert (list(passed), empty) == ([0], {})


def test_sums_beyond_what_is_stored_are_cut_as_all_noise_is():
    """At a scale of 2^64 grains excesses have more than 61 bits."""
    _, empty = sparse_laplace(np.zeros(0, dtype=np.int64), set(), 40, Fraction(1 << 64), 5, UnsafeSeededSource(1))
    assert max(empty.values()) == SATURATION


def test_the_highest_threshold_is_passed_by_what_is_cut_there():
    """At a scale of 2^62 grains, P(sum ≥ 2^61) is e^(-1/2)/2 for a zero and e^(-1/4)/2 for 2^60 (false alarm 10^-7)."""
    source, cells = UnsafeSeededSource(6), Counter()
    for _ in range(1_000):
        passed, empty = sparse_laplace(np.array([1 << 60]), {0}, 2, Fraction(1 << 62), SATURATION, source)
        assert {*passed.values(), *empty.values()} <= {SATURATION}
        cells[bool(passed), bool(empty)] += 1
    p, q = math.exp(-1 / 4) / 2, math.exp(-1 / 2) / 2
    law = {(a, b): (p if a else 1 - p) * (q if b else 1 - q) for a in (True, False) for b in (True, False)}
    assert_law([cells[cell] for cell in law], list(law.values()))


@pytest.mark.parametrize("threshold", [0, -3, SATURATION + 1])
def test_a_threshold_has_its_range(threshold):
    """From one, where the tail's formula begins, to where sums are cut."""
    with pytest.raises(OptionError, match="threshold"):
        sparse_laplace(np.array([1]), {0}, 4, Fraction(1), threshold, UnsafeSeededSource(1))


def test_more_values_than_there_are_is_refused():
    """A universe holds what is counted in it."""
    with pytest.raises(OptionError, match="different values"):
        sparse_laplace(np.array([1, 2]), {0, 1}, 1, Fraction(1), 5, UnsafeSeededSource(1))
