"""Laws: exact ratios, and outputs that are really the worst."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpi
from dpi.errors import OptionError
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import Histogram
from dpi.testing.laws import Choices, Finite, Joint, Laplace, Point, law_of

vectors = st.lists(st.integers(-40, 40), min_size=1, max_size=4)


@given(vectors, st.integers(1, 50), st.randoms(use_true_random=False))
def test_no_output_of_laplace_noise_is_worse_than_the_worst(values, scale, random):
    """The worst output's ratio is Σ|h - h′|/scale, and no other output exceeds it."""
    other = [value + random.randint(-9, 9) for value in values]
    one, two = (Laplace(np.array(v), Fraction(scale)) for v in (values, other))
    worst = one.worst(two)
    assert one.worst(two, outward=random.randint(1, 10**9)).loss == worst.loss
    assert worst.loss == Fraction(sum(abs(a - b) for a, b in zip(values, other, strict=True)), scale)
    for _ in range(20):
        output = np.array([random.randint(-60, 60) for _ in values])
        assert one.log_ratio(two, output) <= worst.loss
        assert one.log_ratio(two, output) == -two.log_ratio(one, output)


def test_laplace_ratios_are_the_ratios_of_its_probabilities():
    """The rational number is the logarithm of the quotient of the two densities."""
    one, two, scale = 5, 2, 3
    for y in range(-10, 20):
        density = [math.exp(-abs(y - value) / scale) for value in (one, two)]
        ratio = Laplace(np.array([one]), Fraction(scale)).log_ratio(Laplace(np.array([two]), Fraction(scale)), [y])
        assert float(ratio) == pytest.approx(math.log(density[0] / density[1]))


def test_laws_of_another_form_are_told_apart_for_sure():
    """Another scale, another number of bins or another kind of output is an infinite loss."""
    law = Laplace(np.array([1, 2]), Fraction(1))
    for other in (Laplace(np.array([1]), Fraction(1)), Laplace(np.array([1, 2]), Fraction(2)), Point(0)):
        assert math.isinf(law.log_ratio(other, np.array([1, 2])))
        assert math.isinf(Joint((law,)).log_ratio(Joint((other,)), (np.array([1, 2]),)))
    assert math.isinf(Joint((law, law)).worst(Joint((law,))).loss)
    assert math.isinf(Finite({0: 0.0}).worst(Point(0)).loss)


def test_parts_of_a_joint_law_add_up():
    """Independent outputs lose the sum of what each loses."""
    one, two = Laplace(np.array([3]), Fraction(2)), Laplace(np.array([2]), Fraction(2))
    assert Joint((Point("x"), one, one)).worst(Joint((Point("x"), two, two))).loss == 1


def test_the_choices_of_the_published_mechanism_are_searched_to_the_end_with_one_draw():
    """With one draw the worst measurement found is the worst of all pairs of query and synopsis."""
    mechanism = dpi.Published(dpi.mechanism.published.DirichletPool(6, 40), draws=1)
    state = mechanism.initial(dpi.Categories(["a", "b", "c"], other=None))
    laws = [
        Choices(mechanism, state, Histogram(np.array(h) * GRAINS, GRAINS), dpi.budget.Epsilon.at_most(1))
        for h in ([5, 1, 0], [4, 1, 0])
    ]
    worst = laws[0].worst(laws[1])
    every = [
        laws[0].log_ratio(laws[1], np.array([query, synopsis]))
        for query in range(len(state.queries))
        for synopsis in range(6)
    ]
    assert worst.loss == pytest.approx(max(every))
    assert worst.loss > 0


def test_a_mechanism_without_a_likelihood_is_refused():
    """What has no law can only be audited as a black box."""
    with pytest.raises(OptionError, match="no likelihood is known"):
        law_of(object(), None, Histogram(np.zeros(1, dtype=np.int64), GRAINS), dpi.budget.Epsilon.at_most(1))
