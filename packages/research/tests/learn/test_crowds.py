"""Worlds in aggregate have the sums that individuals have."""

import numpy as np

from dpi.estimator.prices import Options
from dpi_research.learn.budgets import Listed
from dpi_research.learn.crowds import crowds, spread_out, thin
from dpi_research.learn.individuals import individuals, people
from dpi_research.learn.records import record
from dpi_research.learn.worlds import Kind, World, draw_world

SLOTS, SEEDS = 14, 120


def world():
    """Regulars with habits who turn into others, and newcomers: two laws."""
    kinds = [
        Kind(900, 20.0, 0.6, 0.05, 0.9, 0, turn=0.1, into=1),
        Kind(100, 0.0, 0.3, 0.05, 0.5, 1),
        Kind(0, 150.0, 1.0, 1.0, 0.0, 1),
    ]
    laws = np.log(np.array([[0.5, 0.3, 0.15, 0.05], [0.1, 0.2, 0.3, 0.4]]))
    return World(5, 4, SLOTS, 1.0, kinds, laws, np.zeros(2), period=7, activity=-0.1 * np.arange(7))


def sums(play):
    """Payments by histogram and bin, users by bin, newcomers, and who came again, of all slots."""
    rows = [(slot.paid, slot.users, [slot.newcomers], slot.members, np.hstack(slot.again)) for _, slot in play]
    return np.array([np.concatenate([np.ravel(part) for part in row]) for row in rows])


def listed(w, seed, options):
    """A price list that heard what the one of `crowds` hears for the seed, whoever asks it now."""
    budget = Listed(4, 1.0, options)
    asked = [each for each, _ in crowds(w, budget, seed)]
    return Recorded(budget.histogram(), asked)


class Recorded:
    """A budget whose slots are known."""

    accounts, partial = True, False

    def __init__(self, histogram, asked):
        self._histogram, self._asked = histogram, asked

    def histogram(self):
        """The histogram of users by payments."""
        return self._histogram

    def ask(self, slot):
        """What was asked."""
        return self._asked[slot]


def test_sums_have_the_mean_and_the_spread_of_individuals():
    """Of 35 sums in each of 14 slots: z of means below 6, deviations alike; false alarms below 10^-6 and 10^-5."""
    w, options = world(), Options(width=2)
    played = [
        np.array([sums(play(seed)) for seed in range(SEEDS)])
        for play in (
            lambda seed: crowds(w, Listed(4, 1.0, options), seed),
            lambda seed: individuals(people(w, seed), 4, listed(w, seed, options)),
        )
    ]
    means, spreads = [rows.mean(0) for rows in played], [rows.std(0) for rows in played]
    error = np.sqrt((spreads[0] ** 2 + spreads[1] ** 2) / SEEDS) + 1e-9
    seen = means[1] > 3 * means[1].max() * 1e-4
    assert (np.abs(means[0] - means[1]) / (error + 0.01 * means[1]))[seen].max() < 6
    ratio = np.log(spreads[0] + 1e-9) - np.log(spreads[1] + 1e-9)
    assert abs(np.median(ratio[spreads[1] > 0.05 * means[1].clip(1e-3)])) < 0.1


def test_thinning_is_binomial_on_both_sides_of_the_normal_law():
    """Mean and variance of few and of many; all stay, none stay. False alarms below 10^-6."""
    rng = np.random.default_rng(1)
    for people_, part in ((20.0, 0.3), (5000.0, 0.3)):
        drawn = thin(rng, np.full(20_000, people_), part)
        spread = people_ * part * (1 - part)
        assert abs(drawn.mean() - people_ * part) < 6 * np.sqrt(spread / 20_000)
        assert abs(drawn.var() / spread - 1) < 6 * np.sqrt(2.2 / 20_000)
        assert drawn.min() >= 0
        assert drawn.max() <= people_
    assert (thin(rng, np.full(9, 7.0), 1.0) == 7).all()
    assert (thin(rng, np.full(9, 7.0), 0.0) == 0).all()


def test_visits_keep_their_number():
    """Spreading visits over bins neither loses nor makes any."""
    rng = np.random.default_rng(2)
    laws = rng.dirichlet(np.ones(30), 2)
    visits = np.array([[5.0, 100_000.0], [0.0, 3000.0]])
    assert np.allclose(spread_out(rng, visits, laws).sum(-1), visits)


def test_worlds_are_functions_of_their_seed():
    """The same seed gives the same record, another one another; all numbers are finite."""
    one, again, other = (record(seed, longest=60, most_bins=40) for seed in (20_001, 20_001, 20_002))
    assert np.array_equal(one.paid, again.paid)
    assert one.paid.shape != other.paid.shape or not np.array_equal(one.paid, other.paid)
    for seed in range(20_100, 20_130):
        found = record(seed, longest=60, most_bins=40)
        assert np.isfinite(found.paid).all()
        assert (found.price > 0).all()
        assert (found.newcomers >= 0).all()


def test_worlds_are_of_many_kinds():
    """Large and small, long and short, boring and not, with and without seasons that are declared or not."""
    worlds = [draw_world(seed) for seed in range(20_000, 20_300)]
    assert 0.3 < np.mean([not w.happenings for w in worlds]) < 0.8
    assert {w.period for w in worlds} == {None, 7, 24}
    assert {w.declared for w in worlds if w.period} == {True, False}
    assert max(w.slots for w in worlds) > 1000
    assert min(w.bins for w in worlds) == 2
    assert {each.what for w in worlds for each in w.happenings} == {
        "jump", "launch", "removal", "migration", "holiday", "campaign", "outage", "reshuffle"
    }  # fmt: skip
