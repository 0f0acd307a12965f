"""Laws that are read off a sampler's own draws."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpi.noise import geometric
from dpi_audit.samplers import (
    RATE,
    boundary,
    exponential_law,
    exponential_loss,
    geometric_loss,
    noise_loss,
    permute_and_flip_law,
    permute_and_flip_loss,
    selection_law,
)


def test_a_boundary_is_where_the_sampler_changes_its_mind():
    """Of a sampler with a known law, P(g ≥ j) = e^(-j/s), to far more digits than a float has."""
    for level in (1, 5, 200):
        found = boundary(lambda source: int(geometric(1, Fraction(3), source)[0][0]), lambda g, j=level: g >= j)
        assert float(found) == pytest.approx(math.exp(-level / 3), rel=1e-12)


@pytest.mark.parametrize("loss", [noise_loss, exponential_loss, permute_and_flip_loss])
def test_shipped_samplers_lose_what_they_claim(loss):
    """All of it, and no more."""
    finding = loss()
    assert not finding.violates
    assert finding.ratio == pytest.approx(1, abs=1e-9)


def test_probabilities_of_a_choice_are_the_exponential_mechanisms():
    """The law read off the draws is the formula."""
    scores = (0, 3, 1)
    weights = np.exp([float(RATE) * score for score in scores])
    found = [math.exp(log) for log in exponential_law(scores).logarithms.values()]
    assert found == pytest.approx((weights / weights.sum()).tolist(), rel=1e-12)


def test_permute_and_flip_has_its_published_law():
    """For two candidates, the worse one is chosen with probability e^(-gap·rate)/2."""
    found = permute_and_flip_law((0, 2)).logarithms[0]
    assert found == pytest.approx(-2 * float(RATE) - math.log(2))


@pytest.mark.parametrize("scale", [Fraction(2), Fraction(26, 10)])
def test_a_sampler_of_another_scale_is_found_out(scale):
    """Noise of scale 2 that claims scale 2.5 loses a quarter more; too much noise loses less than claimed."""
    finding = geometric_loss(lambda source: int(geometric(1, scale, source)[0][0]), Fraction(5, 2), [0])
    assert finding.ratio == pytest.approx(2.5 / float(scale))
    assert finding.violates == (scale < Fraction(5, 2))


def test_a_choice_that_cannot_be_made_has_probability_zero():
    """A candidate without an interval is an output that tells."""
    law = selection_law(lambda source: 2 * int(source.words(1)[0] >> np.uint64(63)), 3)
    assert law.logarithms[1] == -math.inf
