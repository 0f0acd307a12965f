import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpi.errors import OptionError
from dpi.noise import UnsafeSeededSource
from dpi_research.baselines.boosting import (
    RAMP,
    QueryBoosting,
    best_on_simplex,
    dyadic_queries,
    first_database,
)

OPTIONS = {"epsilon": 1000, "bins": 4, "rows": 40, "rounds": 4, "sample": 5}


def make(**options):
    """A mechanism whose noise is negligible unless told otherwise."""
    return QueryBoosting(**(OPTIONS | {"unsafe_source": UnsafeSeededSource(1)} | options))


def answers(mechanism, counts):
    """The clean answers, as the mechanism computes them."""
    return mechanism._queries @ np.array(counts)


@given(
    st.lists(st.integers(0, 30), min_size=4, max_size=4),
    st.integers(0, 3),
    st.lists(st.floats(0.01, 1), min_size=4, max_size=4),
)
def test_one_record_moves_a_score_by_at_most_what_is_charged(counts, place, weights):
    """|a - a'| ≤ 2ρ/μ and one unit of rounding, for any synopsis and any query."""
    mechanism = make()
    synopsis = np.array(weights) / sum(weights)
    more = [count + (i == place) for i, count in enumerate(counts)]
    one, two = (mechanism._score(np.minimum(answers(mechanism, c), 40), synopsis) for c in (counts, more))
    assert np.abs(one - two).max() <= 2 * RAMP / (0.1 * 40) + 1


def test_the_ramp_is_the_published_one():
    """1 up to λ, -1 from λ + μ, 1 - 2(error - λ)/μ between, within 2^-16."""
    mechanism = make(queries=np.eye(4, dtype=np.int64))
    truth = np.array([0, 2, 5, 20])
    errors = truth / 40
    expected = np.clip(1 - 2 * (errors - 0.1) / 0.1, -1, 1)
    synopsis = np.zeros(4)
    np.testing.assert_allclose(mechanism._score(truth, synopsis) / RAMP, expected, atol=2 / RAMP)


def test_the_draws_cost_what_the_formula_says():
    """ε_s = 2kαρT(T - 1)/μ up to rounding of scores; T rounds of answers take the rest of ε exactly."""
    mechanism = make()
    alpha = 0.5 * math.log(1.2 / 0.8)
    formula = 2 * 5 * alpha * 4 * 3 / (40 * 0.1)
    assert formula <= float(mechanism.sample_epsilon) <= formula * (1 + 1e-3)
    assert mechanism.sample_epsilon + 4 * mechanism.base_epsilon == mechanism.rate
    assert float(mechanism.scale) == pytest.approx(5 / float(mechanism.base_epsilon))


@settings(max_examples=50)
@given(st.lists(st.integers(0, 10), min_size=4, max_size=4), st.integers(0, 3), st.integers(1, 4))
def test_the_exact_loss_of_a_draw_is_within_its_charge(counts, place, past):
    """The law of one draw, computed for two neighbours after `past` rounds, moves by at most e^(4α·past·ρ/μ)."""
    mechanism = make()
    rng = np.random.default_rng(past)
    synopses = rng.dirichlet(np.ones(4), past)
    more = [count + (i == place) for i, count in enumerate(counts)]
    laws = []
    for histogram in (counts, more):
        truth = np.minimum(answers(mechanism, histogram), 40)
        total = sum(mechanism._score(truth, synopsis) for synopsis in synopses)
        weights = np.exp(-float(mechanism.alpha) / RAMP * (total - total.min()))
        laws.append(weights / weights.sum())
    moved = 2 / (0.1 * 40) + 1 / RAMP
    assert np.abs(np.log(laws[0] / laws[1])).max() <= 2 * float(mechanism.alpha) * past * moved * (1 + 1e-9)


def test_the_potential_falls_while_synopses_are_good():
    """Z_t ≤ (1 - 4η²)^(t/2)·|Q| in every round up to which each synopsis was λ-accurate on 1/2 + η of its weights."""
    checked = 0
    for seed in range(20):
        mechanism = make(rounds=6, sample=12, unsafe_source=UnsafeSeededSource(seed))
        counts = np.random.default_rng(seed).multinomial(40, [0.4, 0.3, 0.2, 0.1])
        mechanism.update(counts)
        truth = answers(mechanism, counts)
        total = np.zeros(truth.size)
        for past, synopsis in enumerate(mechanism._synopses):
            weights = np.exp(-float(mechanism.alpha) * total)
            good = np.abs(truth / 40 - mechanism._queries @ synopsis) <= 0.1
            if weights[good].sum() / weights.sum() < 0.5 + mechanism.eta:
                break
            total += mechanism._score(truth, synopsis) / RAMP
            potential = np.exp(-float(mechanism.alpha) * total).sum()
            assert potential <= (1 - 4 * mechanism.eta**2) ** ((past + 1) / 2) * truth.size * (1 + 1e-6)
            checked += 1
    assert checked > 50


def test_enough_rounds_make_every_median_accurate():
    """With synopses that are good on more than 1/2 + η of the weights, all medians are (λ + μ)-accurate."""
    queries = dyadic_queries(4)
    rounds = math.floor(2 * math.log(len(queries)) / -math.log(1 - 4 * 0.3**2)) + 1  # as published
    mechanism = make(rounds=rounds, sample=14, eta=0.3, mu=0.2)
    counts = np.array([20, 12, 6, 2])
    mechanism.update(counts)
    errors = np.abs(mechanism.answer(queries) - queries @ counts / 40)
    assert errors.max() <= 0.1 + 0.2


@settings(max_examples=40)
@given(st.lists(st.floats(-0.2, 1.2), min_size=5, max_size=5), st.floats(0.01, 0.4))
def test_the_exact_generator_is_the_lexicographically_first(noisy, tolerance):
    """It equals the first of all |X|^n row sequences, tried in order; ⊥ exactly if there is none."""
    queries, rows = dyadic_queries(3), 3
    expected = None
    for database in product(range(3), repeat=rows):
        shares = np.bincount(database, minlength=3) / rows
        if np.all(np.abs(queries @ shares - np.array(noisy)) <= tolerance):
            expected = shares.tolist()
            break
    found = first_database(queries, np.array(noisy), rows, tolerance)
    assert (None if found is None else found.tolist()) == expected


def test_the_exact_generator_boosts_a_tiny_universe():
    """With little noise releases are within λ/2 and the noise of the truth; an impossible slot gives ⊥, hence NaN."""
    mechanism = make(bins=3, rows=6, generator="exact", lam=0.4, rounds=3, sample=8)
    release = mechanism.update([3, 2, 1])
    assert np.abs(release - [3, 2, 1]).max() <= 6 * (0.4 / 2 + 0.1)
    assert np.isnan(mechanism.update([0, 0, 0])).all()
    with pytest.raises(OptionError, match="simplex"):
        first_database(np.eye(50, dtype=np.int64), np.zeros(50), 50, 0.1)


@settings(max_examples=30)
@given(st.lists(st.floats(-0.5, 1.5), min_size=7, max_size=7), st.integers(0, 1000))
def test_the_linear_programme_finds_the_best_pdf(noisy, seed):
    """Its largest error is at most that of 200 random PDFs, and it is a PDF."""
    queries = dyadic_queries(4)
    found = best_on_simplex(queries, np.array(noisy))
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1)
    others = np.random.default_rng(seed).dirichlet(np.full(4, 0.5), 200)
    best = np.abs(others @ queries.T - np.array(noisy)).max(axis=1).min()
    assert np.abs(queries @ found - np.array(noisy)).max() <= best + 1e-6


def test_what_was_not_asked_is_spread_evenly():
    """Of all PDFs that fit the answers best, the one nearest to uniform is taken, not a corner of them."""
    pdf = best_on_simplex(np.array([[1, 0, 0, 0, 0]]), np.array([0.6]))
    np.testing.assert_allclose(pdf, [0.6, 0.1, 0.1, 0.1, 0.1], atol=1e-5)


def test_the_published_noise_carries_a_delta():
    """With `base_delta` the noise is 2√(2k·ln(1/δ))/ε_b and the user's loss is infinite unless δ is granted."""
    mechanism = make(epsilon=50, base_delta=1e-9)
    expected = 2 * math.sqrt(2 * 5 * math.log(1e9)) / float(mechanism.base_epsilon)
    assert float(mechanism.scale) == pytest.approx(expected)
    assert mechanism.delta == pytest.approx(4e-9)
    assert mechanism.user_epsilon(10) == math.inf
    assert mechanism.user_epsilon(10, 1, 1e-6) == pytest.approx(500)


def test_refusals():
    """Options that cannot be paid for, or make no sense, are refused."""
    with pytest.raises(OptionError, match="drawing queries alone costs"):
        make(epsilon=1)
    for bad in ({"eta": 0.5}, {"lam": 0}, {"mu": 1}, {"generator": "magic"}, {"queries": np.eye(3)}, {"rows": 1 << 25}):
        with pytest.raises(OptionError):
            make(**bad)
