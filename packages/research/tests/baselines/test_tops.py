import copy
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpi.errors import OptionError
from dpi.exact.integers import GRAINS
from dpi.noise import UnsafeSeededSource, exponential_mechanism
from dpi_research.baselines.topl import HybridReport, SquareWave, ToPL
from dpi_research.baselines.tops import PREDICTORS, SCORE_UNITS, BaryTree, ToPS, node_weight
from exact_loss import exact_loss, stated
from strategies import few


def coefficients(fan_out, levels, leaves):
    """How much each noise draw enters the prefix after so many leaves: one run per draw, with that draw alone."""

    def prefix(chosen):
        calls = iter(range(10**6))
        tree = BaryTree(fan_out, levels, lambda grains: grains + (GRAINS if next(calls) == chosen else 0))
        for _ in range(leaves):
            total = tree.add(0)
        return total, next(calls)

    draws = prefix(-1)[1]
    return np.array([prefix(i)[0] for i in range(draws)])


@pytest.mark.parametrize(("fan_out", "levels"), [(2, 3), (3, 3), (4, 2), (16, 2)])
def test_a_prefix_has_the_stated_variance(fan_out, levels):
    """The sum of squared coefficients of all noises is Σ d_j·b^j(b-1)/(b^(j+1)-1), for every number of leaves."""
    tree = BaryTree(fan_out, levels, lambda grains: grains)
    most = min(fan_out**levels - 1, 40)
    for leaves in range(1, most + 1):
        exact = float((coefficients(fan_out, levels, leaves) ** 2).sum())
        assert tree.weights(leaves) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("fan_out", [2, 5])
def test_a_node_is_the_best_estimate_of_its_subtree(fan_out):
    """The weight of a height-2 node is that of the least-squares estimate from the node and its children."""
    children, own = float(fan_out), 1.0  # variances of the two independent estimates of the node's sum
    assert node_weight(fan_out, 2) == pytest.approx(1 / (1 / children + 1 / own))


def test_without_noise_prefixes_are_true():
    """Consistency keeps what is right: with no noise every prefix is the exact sum."""
    tree = BaryTree(3, 3, lambda grains: grains)
    values = np.random.default_rng(0).integers(0, 9, 26)
    prefixes = [tree.add(int(v) * GRAINS) for v in values]
    np.testing.assert_allclose(prefixes, np.cumsum(values), rtol=1e-12)


def make(source, **options):
    """A mechanism with a threshold learnt from three values."""
    chosen = {"epsilon": Fraction(1, 2), "slots": 30, "prefix": 3, "largest": 9, "fan_out": 3, "dropped": 0} | options
    return ToPS(**chosen, unsafe_source=source)


@pytest.mark.parametrize("slots", [1, 3, 9, 10, 27, 30])
@pytest.mark.parametrize("dropped", [0, 1])
def test_the_trees_loss_is_exact(slots, dropped):
    """A user who moves every value after the prefix by the threshold loses (ε/h)·Σ b^l·⌊t/b^l⌋, besides the prefix."""
    loss = exact_loss(lambda s: make(s, dropped=dropped), [1, 2, 3] + [9] * slots, [1, 2, 3] + [0] * slots)
    mechanism = make(None, dropped=dropped)
    assert loss == stated(mechanism, 3 + slots) - 3 * Fraction(1, 2)


@given(st.lists(st.integers(0, 12), min_size=4, max_size=4), st.integers(0, 3), st.integers(0, 12))
def test_a_value_moves_all_scores_one_way_by_at_most_one(values, place, other):
    """So the exponential mechanism at rate ε is ε-DP for one value, and k·ε-DP for k."""
    mechanism = ToPS(epsilon=1, slots=10, prefix=4, largest=12)
    changed = [*values[:place], other, *values[place + 1 :]]
    one, two = (mechanism.scores(np.array(v) * GRAINS) for v in (values, changed))
    moves = two - one
    assert set(moves.tolist()) <= {0, SCORE_UNITS} or set(moves.tolist()) <= {0, -SCORE_UNITS}


def test_scores_are_the_published_ones():
    """#{x ≤ θ} - m - θ·(3m/(c₀(n - m)))·√(2(b - 1)h³/ε²), within the rounding of 2^-20."""
    mechanism = ToPS(epsilon=0.5, slots=300, prefix=5, largest=10, fan_out=16)
    values = np.array([1, 4, 4, 8, 20])
    scores = mechanism.scores(values * GRAINS) / SCORE_UNITS
    assert mechanism.height == 3
    for theta, score in zip(range(1, 11), scores, strict=True):
        noise = math.sqrt(2 * 15 * 27 / 0.25)
        assert score == pytest.approx((values <= theta).sum() - 5 - theta * 3 * 5 / (60 * 300) * noise, abs=2e-6)


def test_the_threshold_is_near_the_best():
    """P(q ≤ max q - (ln|Θ| + s)/ε) ≤ e^-s, measured on 20,000 choices, with six standard errors (alarm < 10^-8)."""
    mechanism = ToPS(epsilon=1, slots=100, prefix=30, largest=40)
    scores = mechanism.scores(np.random.default_rng(3).integers(0, 30, 30) * GRAINS)
    source, runs = UnsafeSeededSource(6), few(6_000, 20_000)
    chosen = scores[[exponential_mechanism(scores, mechanism.rate / SCORE_UNITS, source) for _ in range(runs)]]
    for s in (0.0, 1.0, 2.0):
        limit = scores.max() - (math.log(scores.size) + s) * SCORE_UNITS
        assert np.mean(chosen <= limit) <= math.exp(-s) + 6 * math.sqrt(math.exp(-s) / runs)


def test_inside_a_block_the_recent_mean_is_repeated():
    """The first block starts with θ/2; later ones repeat the last block's mean; the last slot puts the block right."""
    mechanism = make(UnsafeSeededSource(1), epsilon=1000, dropped=1, slots=12)
    for value in (9, 9, 9):
        mechanism.update(value)
    theta = mechanism.threshold
    releases = [float(mechanism.update(value)[0]) for value in (4, 5, 6, 1, 1, 1)]
    cut = [min(value, theta) for value in (4, 5, 6, 1, 1, 1)]
    assert releases[:2] == pytest.approx([theta / 2, theta])
    assert releases[2] == pytest.approx(sum(cut[:3]), abs=1)
    assert releases[3] - releases[2] == pytest.approx(releases[2] / 3)
    assert releases[5] == pytest.approx(sum(cut), abs=1)
    assert mechanism.variance(mechanism.slot - 1) is None
    assert mechanism.variance(mechanism.slot) == pytest.approx(2 * 2 * (theta * 2 / 1000) ** 2)


def test_predictors():
    """Each is what it is called."""
    blocks = [1.0, 5.0, 3.0]
    assert {name: rule(blocks) for name, rule in PREDICTORS.items()} == pytest.approx(
        {"recent": 3.0, "mean": 3.0, "median": 3.0, "exponential": 0.6 * 3 + 0.4 * (0.6 * 5 + 0.4 * 1)}
    )


# The local twin.


def draws(seed):
    """A function of uniform numbers, and quick."""
    rng = np.random.default_rng(seed)
    return lambda: float(rng.random())


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_the_square_wave_is_private_and_complete(epsilon):
    """Densities are p and q = p·e^-ε, they integrate to one, and reports follow them (six standard errors, < 10^-7)."""
    wave = SquareWave(epsilon)
    assert wave.p / wave.q == pytest.approx(math.exp(epsilon))
    np.testing.assert_allclose(wave.transition(50).sum(axis=0), 1)
    uniform, value, runs = draws(1), 0.31, few(6_000, 20_000)
    reports = np.array([wave.report(value, uniform) for _ in range(runs)])
    assert reports.min() >= -wave.width / 2
    assert reports.max() <= 1 + wave.width / 2
    near = np.mean(np.abs(reports - value) <= wave.width / 2)
    left = np.mean(reports < value - wave.width / 2)
    assert abs(near - wave.p * wave.width) < 6 * 0.5 / math.sqrt(runs)
    assert abs(left - wave.q * value) < 6 * 0.5 / math.sqrt(runs)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("value", [-1.0, 0.0, 0.4])
def test_hybrid_reports_are_unbiased_with_the_stated_variance(epsilon, value):
    """Mean and mean square over 40,000 reports in six standard errors (false alarm < 10^-7); exact above ε = 0.61."""
    rule, uniform, runs = HybridReport(epsilon), draws(5), few(10_000, 40_000)
    reports = np.array([rule.report(value, uniform) for _ in range(runs)])
    variance = rule.variance if epsilon > 0.61 else rule.variance - value**2
    assert abs(reports.mean() - value) < 6 * math.sqrt(variance / runs)
    squares = (reports - value) ** 2
    assert abs(squares.mean() - variance) < 6 * squares.std() / math.sqrt(runs) + 1e-9
    if epsilon > 0.61:
        top = (math.exp(epsilon / 2) + 1) / (math.exp(epsilon / 2) - 1)
        assert np.abs(reports).max() <= max(top, rule._two_points) + 1e-12


@settings(max_examples=30)
@given(st.floats(-1, 1), st.floats(-1, 1), st.floats(0.1, 4))
def test_two_point_reports_are_private(one, other, epsilon):
    """The probabilities of either point under two values differ by at most e^ε."""
    point = HybridReport(epsilon)._two_points
    p, q = ((1 + v / point) / 2 for v in (one, other))
    assert p / q <= math.exp(epsilon) * (1 + 1e-12)
    assert (1 - p) / (1 - q) <= math.exp(epsilon) * (1 + 1e-12)


def test_the_distribution_is_recovered_from_reports():
    """From 20,000 reports at ε = 4 the estimated mean and the share of the lower half are right within 0.03."""
    rng, wave = np.random.default_rng(4), SquareWave(4.0)
    values = rng.beta(2, 6, 20_000)
    uniform = draws(9)
    shares = wave.estimate(np.array([wave.report(float(value), uniform) for value in values]), 64)
    centres = (np.arange(64) + 0.5) / 64
    assert float(shares @ centres) == pytest.approx(values.mean(), abs=0.03)
    assert float(shares[:32].sum()) == pytest.approx(np.mean(values < 0.5), abs=0.03)


def test_local_sums_have_the_stated_variance():
    """Errors of many sums over their deviation have mean square one in six standard errors (false alarm < 10^-8)."""
    errors = []
    learnt = ToPL(epsilon=1, slots=4, prefix=1, largest=10, grid=8, unsafe_source=UnsafeSeededSource(0))
    learnt.update(5)
    for seed in range(few(500, 1500)):
        mechanism = copy.copy(learnt)
        mechanism._source = UnsafeSeededSource(seed)
        for value in (3, 20, 0, 1):
            release = mechanism.update(value)
        truth = sum(min(value, mechanism.threshold) for value in (3, 20, 0, 1))
        errors.append((float(release[0]) - truth) / math.sqrt(mechanism.variance(5)))
    squares = np.array(errors) ** 2
    assert abs(squares.mean() - 1) < 6 * squares.std() / math.sqrt(squares.size)


def test_the_threshold_weighs_noise_against_what_is_cut():
    """With all mass at a tenth of the range the threshold is there; with few slots it is lower."""
    mechanism = ToPL(epsilon=1, slots=10**6, prefix=1, largest=100, grid=100)
    shares = np.zeros(100)
    shares[9] = 1.0
    assert mechanism.best_threshold(shares) == pytest.approx(10, abs=1)
    assert ToPL(epsilon=1, slots=2, prefix=1, largest=100, grid=100).best_threshold(shares) < 2


def test_bad_options_are_refused():
    """More bins than one, an unknown predictor, a fan-out of one."""
    for bad in ({"bins": 2}, {"predictor": "oracle"}, {"fan_out": 1}, {"dropped": -1}):
        with pytest.raises(OptionError):
            make(None, **bad)
    with pytest.raises(OptionError, match="PerBin"):
        ToPL(epsilon=1, slots=3, bins=2)


@pytest.mark.parametrize("value", [-0.8, 0.0, 0.5])
def test_piecewise_reports_are_private(value):
    """Near the value lies the share s/(s + 1) of the reports, so densities differ by s·(C + 1)/(C - 1) = s² = e^ε."""
    epsilon, runs, uniform = 1.4, few(6_000, 20_000), draws(8)
    rule, s = HybridReport(epsilon), math.exp(epsilon / 2)
    top = (s + 1) / (s - 1)
    left = (top + 1) / 2 * value - (top - 1) / 2
    reports = np.array([rule._piecewise(value, uniform) for _ in range(runs)])
    near = np.mean((left <= reports) & (reports <= left + top - 1))
    assert abs(near - s / (s + 1)) < 6 * 0.5 / math.sqrt(runs)
    assert s * (top + 1) / (top - 1) == pytest.approx(math.exp(epsilon))
    outside = reports[(reports < left) | (reports > left + top - 1)]
    lower = (left + top) / (top + 1)  # the share of the rest that lies below
    assert abs(np.mean(outside < left) - lower) < 6 * 0.5 / math.sqrt(outside.size)
