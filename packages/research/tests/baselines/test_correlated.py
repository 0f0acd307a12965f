import math
from fractions import Fraction

import numpy as np
import pytest

from dpi.errors import OptionError
from dpi.exact.integers import GRAINS
from dpi.noise import UnsafeSeededSource
from dpi_research.baselines.factorisations import (
    BufferedToeplitz,
    Buffers,
    SquareRoot,
    coefficients,
    rational_approximation,
)
from dpi_research.baselines.honaker import Honaker
from statistics_ import assert_variance
from strategies import few
from transcript import play, transcript_loss

REPLICATES = few(6_000, 20_000)
SLOTS = 40

COUNTERS = {
    "square root": lambda source, bins=1: SquareRoot(epsilon=1, slots=SLOTS, bins=bins, unsafe_source=source),
    "blt": lambda source, bins=1: BufferedToeplitz(epsilon=1, slots=SLOTS, bins=bins, unsafe_source=source),
    "honaker": lambda source, bins=1: Honaker(epsilon=1, slots=SLOTS, bins=bins, unsafe_source=source),
}
GOLDEN = Buffers((0.0122853238, 0.1878393665), (0.9999528892, 0.9857068667))
"""Published optimal buffers for 10^5 slots."""


@pytest.mark.parametrize("name", COUNTERS)
def test_one_record_costs_rho_and_no_more(name):
    """Over all places of one record, the exact ρ of a transcript is at most the stated one, and nearly reached."""
    make, losses = COUNTERS[name], []
    for slot in range(SLOTS):
        moved = [3] * SLOTS
        moved[slot] += 1
        losses.append(transcript_loss(make, moved, [3] * SLOTS, seed=slot)[1])
    rho = make(None).rho
    assert max(losses) <= rho
    assert max(losses) > rho * Fraction(4, 5)


@pytest.mark.parametrize("name", COUNTERS)
@pytest.mark.parametrize("slots", [1, 2, 7, 32, 40])
def test_a_user_in_every_slot_loses_what_is_stated(name, slots):
    """The exact ρ of a transcript, with two records a slot, is four times `loss`; for BLT within its rounding."""
    make = COUNTERS[name]
    _, rho = transcript_loss(make, [5] * slots, [3] * slots)
    stated = make(None).loss(slots).scaled(Fraction(2)).rho
    if name == "blt":
        assert stated * (1 - Fraction(1, 10**5)) <= rho <= stated
    else:
        assert rho == stated


def test_rounding_moves_the_noise_by_at_most_a_grain_a_slot():
    """Over 4,000 slots of a transcript, one record moves what BLT adds noise to by C's column within one grain.

    The decaying sums are floats; the test has their error too, and it stays below a thousandth of a grain.
    """
    slots, make = 4000, lambda source: BufferedToeplitz(epsilon=1, slots=4000, unsafe_source=source)
    one, other = (play(make, [first] + [3] * (slots - 1), spread=100.0) for first in (4, 3))
    moved = np.array([int(a[0]) - int(b[0]) for (a, _), (b, _) in zip(one.gaussian, other.gaussian, strict=True)])
    column = make(None).matrix.coefficients(slots) * GRAINS
    assert np.abs(moved - column).max() <= 1.001


def test_stated_user_losses_have_the_closed_forms():
    """Square root: Σ(Σf)², 1607.65 at t = 50 (and 2t²/π); Honaker: Σ 4^l·⌊t/2^l⌋."""
    counter = SquareRoot(epsilon=1, slots=50)
    energy = float(counter.loss(50).rho / counter.rho) * counter.energy
    assert energy == pytest.approx(1607.65, abs=0.01)
    tree = Honaker(epsilon=1, slots=50)
    expected = sum(4**j * (37 >> j) for j in range(6))
    assert tree.loss(37).rho == tree.rho * Fraction(expected, 6)


def test_partial_energies_are_the_known_ones():
    """S_5, S_50, S_1000, S_2700, and the asymptotic (ln n + γ + 4·ln 2)/π."""
    squares = np.cumsum(coefficients(2700) ** 2)
    for n, value in ((5, 1.563049), (50, 2.309923), (1000, 3.265003), (2700, 3.581215)):
        assert squares[n - 1] == pytest.approx(value, abs=1e-6)
    assert squares[-1] == pytest.approx((math.log(2700) + 0.5772156649 + 4 * math.log(2)) / math.pi, abs=1e-4)
    product = np.convolve(coefficients(60), coefficients(60))[:60]
    np.testing.assert_allclose(product, 1.0, rtol=1e-12)


@pytest.mark.parametrize("name", COUNTERS)
@pytest.mark.parametrize("slots", [1, 6, 8, 23])
def test_releases_are_unbiased_with_the_stated_variance(name, slots):
    """Mean and variance over 20,000 independent bins, each within six standard errors (false alarm below 10^-7)."""
    mechanism = COUNTERS[name](UnsafeSeededSource(slots), REPLICATES)
    for slot in range(1, slots + 1):
        release = mechanism.update(np.full(REPLICATES, slot))
    errors = release - slots * (slots + 1) // 2
    variance = mechanism.variance(slots)
    assert abs(errors.mean()) < 6 * math.sqrt(variance / REPLICATES)
    assert_variance(errors, variance, kurtosis=3.0)


def test_stated_variances_are_the_published_ones():
    """σ²·S_T·S_t; σ²·H·Σ 1/(2 - 2^-j); each with σ² = 1/(2ρ)."""
    root, tree = SquareRoot(epsilon=1, slots=SLOTS), Honaker(epsilon=1, slots=SLOTS)
    squares = np.cumsum(coefficients(SLOTS) ** 2)
    for t in range(1, SLOTS + 1):
        sigma = 1 / (2 * float(root.rho))
        assert root.variance(t) == pytest.approx(sigma * squares[-1] * squares[t - 1], rel=1e-6)
        nodes = sum(1 / (2 - 2.0**-j) for j in range(6) if t >> j & 1)
        assert tree.variance(t) == pytest.approx(sigma * 6 * nodes)


def root_loss(buffers, slots):
    """√(energy · decoder energy): the largest deviation at σ = 1. No Toeplitz matrix has less than S_T."""
    return math.sqrt(buffers.energy(slots) * float(buffers.decoder_energy(slots)[-1]))


def test_the_golden_buffers_have_the_golden_loss():
    """At n = 10^5 the published optimum has a root loss of 5.29675, 1.1355 times 1 + ln(n)/π."""
    assert root_loss(GOLDEN, 100_000) == pytest.approx(5.29675, abs=1e-5)
    assert root_loss(GOLDEN, 100_000) / (1 + math.log(1e5) / math.pi) == pytest.approx(1.1355, abs=1e-4)
    mechanism = BufferedToeplitz(epsilon=1, slots=100_000, buffers=GOLDEN)
    deviation = math.sqrt(mechanism.variance(100_000) * 2 * float(mechanism.rho))
    assert deviation == pytest.approx(5.29675, rel=2e-5)


@pytest.mark.parametrize("matrix", [GOLDEN, rational_approximation(5, 1000), rational_approximation(8, 1000)])
def test_the_inverse_is_the_inverse(matrix):
    """C times its inverse is 1, the inverse's inverse is C, and the energy is that of the coefficients."""
    one = np.convolve(matrix.coefficients(200), matrix.inverse().coefficients(200))[:200]
    np.testing.assert_allclose(one, np.eye(1, 200)[0], atol=1e-9)
    np.testing.assert_allclose(matrix.inverse().inverse().weights, matrix.weights, rtol=1e-5)
    assert matrix.energy(200) == pytest.approx(float((matrix.coefficients(200) ** 2).sum()), rel=1e-9)


def test_the_rational_approximation_is_near_the_best():
    """Five buffers stay within 5 % of 1 + ln(n)/π up to 10^5 slots, nine within 3 %; S_T is a bound from below."""
    for n in (50, 1000, 10_000, 100_000):
        best = 1 + math.log(n) / math.pi
        least = float((coefficients(n) ** 2).sum())
        assert least <= root_loss(rational_approximation(5, n), n) <= 1.05 * best
        assert least <= root_loss(rational_approximation(9, n), n) <= 1.031 * best


def test_the_rational_approximation_approaches_the_root():
    """The coefficients of nine buffers are those of 1/√(1 - x) within 2 %, for the first 200."""
    np.testing.assert_allclose(rational_approximation(9, 10_000).coefficients(200), coefficients(200), rtol=0.1)
    worst = [np.abs(rational_approximation(d, 10_000).coefficients(200) / coefficients(200) - 1).max() for d in (3, 9)]
    assert worst[1] < worst[0] / 3


def test_memory_is_as_stated():
    """The square root holds 2t numbers, BLT d + 1, Honaker's tree 2H + 1."""
    counters = {name: make(UnsafeSeededSource(0)) for name, make in COUNTERS.items()}
    for _ in range(10):
        for counter in counters.values():
            counter.update(1)
    assert {name: counter.memory for name, counter in counters.items()} == {"square root": 20, "blt": 6, "honaker": 13}


def test_correlated_noise_is_better_than_the_tree():
    """At 1,000 slots the largest deviations are in the order square root < BLT < Honaker < a plain tree."""
    options = {"epsilon": 1, "slots": 1000}
    root, blt, tree = SquareRoot(**options), BufferedToeplitz(**options), Honaker(**options)
    largest = [max(m.variance(t) for t in (511, 767, 1000)) for m in (root, blt, tree)]
    assert largest == sorted(largest)
    assert largest[-1] < float(tree.noise_variance) * 9


def test_bad_options_are_refused():
    """Too many slots, impossible buffers."""
    with pytest.raises(OptionError, match="slots"):
        SquareRoot(epsilon=1, slots=1 << 17)
    with pytest.raises(OptionError, match="slots"):
        BufferedToeplitz(epsilon=1, slots=10**8)
    for weights, decays in (((-0.1,), (0.5,)), ((0.1,), (1.0,)), ((0.9,), (0.5,))):
        with pytest.raises(OptionError, match="buffers"):
            BufferedToeplitz(epsilon=1, slots=9, buffers=Buffers(weights, decays))
    for bad in ((), ((0.1,), (0.5, 0.4))):
        with pytest.raises((OptionError, TypeError)):
            Buffers(*bad)
    with pytest.raises(OptionError, match="buffers"):
        rational_approximation(11, 10)
