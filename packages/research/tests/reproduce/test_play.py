"""A crowd without users is played as a `Stream` with all its users would be; the truth stands beside its releases."""

import numpy as np
import polars as pl
import pytest

import dpi
from dpi.domain import Categories
from dpi.errors import OptionError
from dpi.exact.integers import GRAINS, Integers
from dpi.stream.closing import Offer
from dpi_research.datasets.generators import drifting, populate, published
from dpi_research.reproduce.play import (
    SYSTEMS,
    Cohorts,
    Pair,
    Played,
    Reference,
    System,
    follow,
    open_stream,
    without_replacement,
)
from strategies import few

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
    runs = few(6, 12)
    for seed in range(runs):
        crowd = Played(open_stream("ledger", domain, 200, seed=seed, ledger=budget), churn=0.3, seed=seed)
        everybody = open_stream("ledger", domain, 200, seed=seed, ledger=budget)
        pairs = populate(((counts, counts / counts.sum()) for _ in range(6)), np.random.default_rng(seed), churn=0.3)
        for slot in pairs:
            last = crowd.release(counts).total, everybody.release(slot.users, slot.values).total
        totals["crowd"].append(last[0])
        totals["everybody"].append(last[1])
    expected = counts.sum() * (1 - 0.7**2)
    for found in totals.values():
        assert np.mean(found) == pytest.approx(expected, abs=4 * np.std(found) / np.sqrt(runs) + 1)


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


@pytest.mark.parametrize(
    "budget", [dpi.Ledger(), dpi.Ledger(policy=dpi.budget.spend_first)], ids=["by class", "spend first"]
)
def test_cohorts_pay_what_their_users_would(budget: dpi.Ledger) -> None:
    """If all users have one value nothing is drawn: with any churn every bit and every account agree."""
    domain, rng = Categories(range(3), other=None), np.random.default_rng(9)
    crowd = Played(open_stream("ledger", domain, 2, seed=5, ledger=budget), churn=0.2, seed=5)
    everybody = open_stream("ledger", domain, 2, seed=5, ledger=budget)
    for slot in range(40):
        counts = np.array([0, int(rng.integers(300, 400)), 0])
        one = crowd.release(counts)
        left, sizes = crowd.remaining()
        births = crowd._cohorts.births
        users = [f"{birth} {i}" for birth, size in zip(births, sizes, strict=True) for i in range(size)]
        other = everybody.release(users, [1] * len(users))
        assert np.array_equal(one.pdf, other.pdf)
        assert (one.total, one.epsilon, one.epsilon_spent) == (other.total, other.epsilon, other.epsilon_spent)
        firsts = everybody._accounts.remaining(pl.Series([f"{birth} 0" for birth in births]), slot)
        assert left.tolist() == [float(amount) for amount in firsts]
    assert len(births) > 15  # so that the classes had several cohorts


def grains_of(crowd: Played, counts: Integers) -> tuple[Integers, list[int]]:
    """The histograms by class of the next slot, and how many grains the bills of each class have."""
    offer = Offer.draw(crowd._state, crowd._allocation, crowd._slot, crowd._source)
    crowd._cohorts.step(int(counts.sum()))
    bill = crowd._accounts.bill(crowd._cohorts.ids, offer.epsilon, crowd._slot, share=offer.share, groups=offer.groups)
    due = [int((bill.weights * crowd._cohorts.sizes)[bill.group_index == m].sum()) for m in range(offer.histograms)]
    grains = crowd._grains(counts, offer)
    crowd._slot += 1
    return grains.reshape(offer.histograms, -1), due


def test_each_user_is_in_one_class_with_at_most_one_unit() -> None:
    """What enters a histogram is what the users of its classes are billed for, and no bin gives more than it has."""
    crowd = Played(open_stream("ledger", Categories(range(BINS), other=None), 1, seed=0), churn=0.2)
    most, every = 0, [*slots(30)]
    for counts in every[:10]:
        crowd.release(counts)
    for counts in every[10:]:
        grains, due = grains_of(crowd, counts)
        most = max(most, sum(billed > 0 for billed in due))
        assert (grains.sum(axis=0) <= counts * GRAINS).all()
        light = crowd._cohorts.sizes.sum()  # cohorts that count as one: less than a grain for each user
        assert np.abs(grains.sum(axis=1) - due).max() <= light
    assert most > 1


def test_values_are_dealt_to_classes_at_random() -> None:
    """The users of a class have the values that a draw without replacement gives, on average and in its spread."""
    counts, drawn, runs = np.array([900, 90, 10]), [], few(100, 300)
    for seed in range(runs):
        stream = open_stream("ledger", Categories(range(3), other=None), 1, seed=0)
        crowd = Played(stream, churn=0.3, seed=seed)
        grains_of(crowd, counts)
        grains, _ = grains_of(crowd, counts)
        newcomers = crowd._cohorts.sizes[-1]
        assert grains[0].sum() == newcomers * GRAINS
        drawn.append(grains[0] / GRAINS - newcomers * counts / 1000)
    found = np.array(drawn)
    variance = 300 * counts / 1000 * (1 - counts / 1000) * 700 / 999
    assert np.abs(found.mean(axis=0)).max() < 4 * np.sqrt(variance.max() / runs)
    assert found.var(axis=0) == pytest.approx(variance, rel=4.3 * np.sqrt(2 / runs))  # 4.3 standard errors


FEW_BINS = 8


def test_errors_are_those_by_hand() -> None:
    """Two bins: KL = 0.75·ln 1.5 + 0.25·ln 0.5, MSE = 0.25²."""
    pair = Pair(np.array([0.75, 0.25]), np.array([0.5, 0.5]))
    assert pair.mse == pytest.approx(0.0625)
    assert pair.kl == pytest.approx(0.75 * np.log(1.5) + 0.25 * np.log(0.5))


@pytest.mark.parametrize("system", ["truth", "uniform"])
def test_references_know_all_or_nothing(system: Reference) -> None:
    """The truth has no error, and the uniform guess that of 1/bins; neither costs anything."""
    data = list(published(np.random.default_rng(0), 5, FEW_BINS, 50))
    sums = np.zeros(FEW_BINS)
    for (counts, _), moment in zip(data, follow(system, iter(data), FEW_BINS, 0, churn=0.0, seed=0), strict=True):
        sums += counts
        assert moment.users == counts.sum()
        assert moment.own.truth == pytest.approx(counts / counts.sum())
        assert moment.accumulated.truth == pytest.approx(sums / sums.sum())
        expected = moment.own.truth if system == "truth" else np.full(FEW_BINS, 1 / FEW_BINS)
        assert np.array_equal(moment.own.released, expected)
        assert moment.spent == 0


def test_the_truth_is_the_slots_own() -> None:
    """Not the PDF that its users were drawn from."""
    [(counts, rate)] = drifting(np.random.default_rng(0), 1, FEW_BINS, 30)
    [moment] = follow("uniform", iter([(counts, rate)]), FEW_BINS, 0, churn=0.0, seed=0)
    assert np.array_equal(moment.own.truth, counts / 30)
    assert not np.allclose(moment.own.truth, rate)


@pytest.mark.parametrize("system", SYSTEMS)
def test_nobody_loses_more_than_epsilon(system: System) -> None:
    """What is spent grows up to ε and no further."""
    data = published(np.random.default_rng(0), 30, FEW_BINS, 50)
    spent = [moment.spent for moment in follow(system, data, FEW_BINS, 0.5, churn=0.05, seed=0)]
    assert spent == sorted(spent)
    assert 0 < spent[0] <= spent[-1] <= 0.5


@pytest.mark.parametrize("system", ["strict", "converging"])
def test_a_series_does_not_depend_on_churn(system: System) -> None:
    """Everybody pays in every slot: the tables show one number for all churns."""
    data = list(published(np.random.default_rng(0), 4, FEW_BINS, 50))
    some, others = (list(follow(system, iter(data), FEW_BINS, 1, churn=churn, seed=3)) for churn in (0.0, 1.0))
    for one, other in zip(some, others, strict=True):
        assert np.array_equal(one.own.released, other.own.released)
        assert np.array_equal(one.accumulated.released, other.accumulated.released)
