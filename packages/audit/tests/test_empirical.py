"""Empirical bounds hold as often as they say, whenever one stops, and find what is broken with few runs."""

import math
import os
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import dpi
from dpi.errors import OptionError
from dpi.noise import UnsafeSeededSource
from dpi_audit import Bound, Finite, Joint, Laplace, Point, black_box, lower_bound, neighbours
from dpi_audit.empirical import _bound, _choose, draw
from dpi_audit.small import VALUES, stream
from statistics_ import assert_law

FALSE_ALARM = 1e-7


def randomised_response(epsilon, chance, noise=3):
    """A coin that tells the truth with probability e^ε/(1 + e^ε), among coins that tell nothing."""

    def run(with_user, runs):
        truth = chance.random(runs) < math.exp(epsilon) / (1 + math.exp(epsilon))
        answer = np.where(truth, with_user, not with_user).astype(float)
        return np.column_stack([answer, chance.integers(0, 2, size=(runs, noise))])

    return run


AUDITS, ERROR = 120 if os.environ.get("DPI_SLOW") else 60, 0.2


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
@pytest.mark.parametrize("stop_early", [True, False])
def test_bounds_are_too_high_no_more_often_than_stated(epsilon, stop_early):
    """Of 60 audits (120, if DPI_SLOW is set) of a known ε at error 0.2, too many are wrong with probability below 10⁻⁷.

    With `stop_early` an audit stops at the first look whose bound is above the true ε.
    """
    box = randomised_response(epsilon, np.random.default_rng(1))
    claimed = epsilon if stop_early else math.inf
    bounds = [lower_bound(box, claimed=claimed, most_runs=520, error=ERROR).epsilon for _ in range(AUDITS)]
    wrong = sum(bound > epsilon for bound in bounds)
    assert stats.binom.sf(wrong - 1, AUDITS, ERROR) > FALSE_ALARM
    assert epsilon == 0 or max(bounds) > 0.3  # the audits do find something


def test_testing_on_the_runs_that_were_learnt_from_would_be_found_out():
    """The test above can fail: events that are chosen and tested on the same runs are wrong too often."""
    audits, chance, wrong = 240, np.random.default_rng(2), 0
    for _ in range(audits):
        one, other = chance.normal(size=(2, 64, 20))
        event = _choose(one, other, 32, ERROR)
        wrong += _bound(event.counts(one[32:], other[32:]), 32, ERROR) > 0
    assert stats.binom.sf(wrong - 1, audits, ERROR) < FALSE_ALARM


@pytest.mark.parametrize(("epsilon", "most_runs"), [(2.0, 2_100), (4.0, 1_100)])
def test_twice_the_claim_is_found_with_few_runs(epsilon, most_runs):
    """A mechanism that loses twice what it claims is caught within so many runs (with a seeded generator)."""
    box = randomised_response(epsilon, np.random.default_rng(3))
    bound = lower_bound(box, claimed=epsilon / 2, most_runs=most_runs)
    assert bound.epsilon > epsilon / 2
    assert bound.runs <= most_runs


def test_nothing_is_found_where_nothing_is():
    """Two streams with one law have a bound of zero, up to the stated error of 10⁻⁶."""
    chance = np.random.default_rng(4)
    bound = lower_bound(lambda with_user, runs: chance.normal(size=(runs, 4)), most_runs=4_000)
    assert bound.epsilon == 0


def test_constant_outputs_tell_nothing_and_different_ones_tell():
    """Without variation there is no bound; a constant that differs is found at once."""
    assert lower_bound(lambda with_user, runs: np.ones((runs, 2)), most_runs=500).epsilon == 0
    assert lower_bound(lambda with_user, runs: np.full((runs, 1), float(with_user)), most_runs=500).epsilon > 1


def test_infinite_and_missing_numbers_are_outputs_like_others():
    """NaN with the user and infinity without tell the two apart."""
    bound = lower_bound(lambda with_user, runs: np.full((runs, 1), math.nan if with_user else math.inf), most_runs=500)
    assert bound.epsilon > 1


def test_the_audit_stops_early():
    """No run is made after the claim is passed."""
    box = randomised_response(8.0, np.random.default_rng(5))
    bound = lower_bound(box, claimed=0.5, most_runs=100_000)
    assert bound.looks < 5
    assert bound.runs == 64 * 2**bound.looks


@pytest.mark.parametrize("rows", [np.ones(4), np.ones((3, 2))])
def test_a_black_box_returns_a_row_for_each_run(rows):
    """Anything else is refused."""
    with pytest.raises(OptionError, match="one row of numbers"):
        lower_bound(lambda with_user, runs: rows)


def test_an_error_that_is_none_is_refused():
    """It is a probability."""
    with pytest.raises(OptionError, match="`error`"):
        lower_bound(lambda with_user, runs: np.ones((runs, 1)), error=0)


def test_streams_are_black_boxes():
    """Runs of whole streams give PDFs and totals; a stream that spends far more than it claims is caught.

    A look at 64 runs a side proves ε ≥ 1 only if at most one of them tells nothing, so that there must be room for
    the looks after it: at 256 runs a side the same rate of such runs proves more than 3.
    """
    make = stream(epsilon=40, budget=dpi.Ledger(slots=1), unsafe_source=UnsafeSeededSource(3))
    box = black_box(make, neighbours.alone(1, VALUES))
    assert box(True, 3).shape == (3, 4)
    bound = lower_bound(box, claimed=1.0, most_runs=2_048)
    assert isinstance(bound, Bound)
    assert bound.epsilon > 1


def test_runs_of_different_length_are_told_apart():
    """A number that is missing in one stream is an output like any other."""
    bound = lower_bound(lambda with_user, runs: np.zeros((runs, 2 if with_user else 3)), most_runs=500)
    assert bound.epsilon > 1


def test_transcripts_of_a_law_follow_it():
    """Outputs that are drawn from a session's laws have the laws' frequencies; others cannot be drawn."""
    law = Joint((Finite({"x": math.log(0.3), "y": math.log(0.7)}), Point(1), Laplace(np.array([4]), Fraction(1, 100))))
    source = UnsafeSeededSource(6)
    draws = [draw(law, source) for _ in range(4_000)]
    counts = [sum(draw[0] == name for draw in draws) for name in "xy"]
    assert_law(counts, [0.3, 0.7])
    assert {(draw[1], int(draw[2][0])) for draw in draws} == {(1, 4)}
    with pytest.raises(OptionError, match="cannot be drawn"):
        draw(object(), source)
