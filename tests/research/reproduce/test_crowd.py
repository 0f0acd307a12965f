"""A crowd without users is played as a `Stream` with all its users would be."""

import numpy as np
import pytest

import dpi
from dpi.domain import Categories
from dpi.errors import OptionError
from dpi.exact.integers import GRAINS
from dpi.research.datasets.generators import populate, published
from dpi.research.reproduce.crowd import Cohorts, Played, without_replacement
from dpi.research.reproduce.systems import SYSTEMS, System, open_stream
from dpi.stream.closing import Offer

BINS = 12


def slots(count: int) -> list[np.ndarray]:
    """Counts of some slots."""
    return [counts for counts, _ in published(np.random.default_rng(3), count, BINS, 40)]


@pytest.mark.parametrize("churn", [0.0, 1.0])
@pytest.mark.parametrize("system", SYSTEMS)
def test_releases_are_those_of_all_users(system: System, churn: float) -> None:
    """Where all users of a slot have the same account, nothing is drawn: every bit must agree."""
    data = [np.full(BINS, 40) + np.arange(BINS) * (slot % 3) for slot in range(8)]
    largest = max(int(counts.sum()) for counts in data)
    data = [np.append(counts[:-1], largest - counts[:-1].sum()) for counts in data]  # nobody rests
    domain = Categories(range(BINS), other=None)
    crowd = Played(open_stream(system, domain, 2, seed=5), churn=churn, seed=5)
    everybody = open_stream(system, domain, 2, seed=5)
    pairs = populate(((c, c / c.sum()) for c in data), np.random.default_rng(0), churn=churn)
    for counts, slot in zip(data, pairs, strict=True):
        one, other = crowd.release(counts), everybody.release(slot.users, slot.values)
        assert one.epsilon == other.epsilon
        assert np.array_equal(one.pdf, other.pdf)
        assert np.array_equal(one.accumulated, other.accumulated)


def test_payers_of_a_mixed_crowd_have_the_same_mean() -> None:
    """With 30 % churn and accounts for two slots, the weighted total is that of the ledger with all users."""
    domain, budget = Categories(range(BINS), other=None), dpi.Ledger(slots=2)
    counts = np.full(BINS, 200)
    totals: dict[str, list[float]] = {"crowd": [], "everybody": []}
    for seed in range(12):
        crowd = Played(open_stream("ledger", domain, 200, seed=seed, ledger=budget), churn=0.3, seed=seed)
        everybody = open_stream("ledger", domain, 200, seed=seed, ledger=budget)
        pairs = populate(((counts, counts / counts.sum()) for _ in range(6)), np.random.default_rng(seed), churn=0.3)
        for slot in pairs:
            last = crowd.release(counts).total, everybody.release(slot.users, slot.values).total
        totals["crowd"].append(last[0])
        totals["everybody"].append(last[1])
    expected = counts.sum() * (1 - 0.7**2)
    for found in totals.values():
        assert np.mean(found) == pytest.approx(expected, abs=4 * np.std(found) / np.sqrt(12) + 1)


def test_cohorts_keep_the_number_of_users_and_lose_a_share() -> None:
    """Nobody appears or is lost but by churn."""
    cohorts = Cohorts(0.25, np.random.default_rng(0))
    for users in (10_000, 12_000, 5_000):
        cohorts.step(users)
        assert cohorts.sizes.sum() == users
    cohorts = Cohorts(0.25, np.random.default_rng(0))
    for _ in range(3):
        cohorts.step(100_000)
    assert cohorts.births.tolist() == [0, 1, 2]
    assert cohorts.sizes / 100_000 == pytest.approx([0.5625, 0.1875, 0.25], abs=0.01)


def test_a_draw_without_replacement_is_a_part() -> None:
    """No bin gives more than it has, at sizes of real slots."""
    rng = np.random.default_rng(1)
    counts = np.array([5, 0, 7_000_000, 9])
    drawn = without_replacement(counts, 6_000_000, rng)
    assert drawn.sum() == 6_000_000
    assert (drawn <= counts).all()


def test_wrong_churn_is_refused() -> None:
    """A share is between 0 and 1."""
    with pytest.raises(OptionError, match="churn"):
        Cohorts(1.5, np.random.default_rng(0))


def test_no_weight_is_above_one() -> None:
    """What enters the histogram is at most one unit for each user."""
    domain = Categories(range(BINS), other=None)
    crowd = Played(open_stream("ledger", domain, 1, seed=0), churn=0.2)
    for counts in slots(10):
        offer = Offer.drawn(crowd._state, crowd._allocation, crowd._slot, crowd._source)
        crowd._cohorts.step(int(counts.sum()))
        grains = crowd._grains(counts, offer)
        assert (grains <= counts * GRAINS).all()
        crowd._slot += 1
