"""Releases stand beside the truth of their own slots, and of all slots so far."""

import numpy as np
import pytest

from dpi_research.datasets.generators import drifting, published
from dpi_research.reproduce.play import SYSTEMS, Pair, Reference, System, follow

BINS = 8


def test_errors_are_those_by_hand() -> None:
    """Two bins: KL = 0.75·ln 1.5 + 0.25·ln 0.5, MSE = 0.25²."""
    pair = Pair(np.array([0.75, 0.25]), np.array([0.5, 0.5]))
    assert pair.mse == pytest.approx(0.0625)
    assert pair.kl == pytest.approx(0.75 * np.log(1.5) + 0.25 * np.log(0.5))


@pytest.mark.parametrize("system", ["truth", "uniform"])
def test_references_know_all_or_nothing(system: Reference) -> None:
    """The truth has no error, and the uniform guess that of 1/bins; neither costs anything."""
    data = list(published(np.random.default_rng(0), 5, BINS, 50))
    sums = np.zeros(BINS)
    for (counts, _), moment in zip(data, follow(system, iter(data), BINS, 0, churn=0.0, seed=0), strict=True):
        sums += counts
        assert moment.users == counts.sum()
        assert moment.own.truth == pytest.approx(counts / counts.sum())
        assert moment.accumulated.truth == pytest.approx(sums / sums.sum())
        expected = moment.own.truth if system == "truth" else np.full(BINS, 1 / BINS)
        assert np.array_equal(moment.own.released, expected)
        assert moment.spent == 0


def test_the_truth_is_the_slots_own() -> None:
    """Not the PDF that its users were drawn from."""
    [(counts, rate)] = drifting(np.random.default_rng(0), 1, BINS, 30)
    [moment] = follow("uniform", iter([(counts, rate)]), BINS, 0, churn=0.0, seed=0)
    assert np.array_equal(moment.own.truth, counts / 30)
    assert not np.allclose(moment.own.truth, rate)


@pytest.mark.parametrize("system", SYSTEMS)
def test_nobody_loses_more_than_epsilon(system: System) -> None:
    """What is spent grows up to ε and no further."""
    data = published(np.random.default_rng(0), 30, BINS, 50)
    spent = [moment.spent for moment in follow(system, data, BINS, 0.5, churn=0.05, seed=0)]
    assert spent == sorted(spent)
    assert 0 < spent[0] <= spent[-1] <= 0.5


@pytest.mark.parametrize("system", ["strict", "converging"])
def test_a_series_does_not_depend_on_churn(system: System) -> None:
    """Everybody pays in every slot: the tables show one number for all churns."""
    data = list(published(np.random.default_rng(0), 4, BINS, 50))
    some, others = (list(follow(system, iter(data), BINS, 1, churn=churn, seed=3)) for churn in (0.0, 1.0))
    for one, other in zip(some, others, strict=True):
        assert np.array_equal(one.own.released, other.own.released)
        assert np.array_equal(one.accumulated.released, other.accumulated.released)
