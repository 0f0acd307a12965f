from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.errors import OptionError
from dpi.noise import UnsafeSeededSource
from dpi_research.baselines.w_event import Absorption, BudgetAbsorption, BudgetDistribution, Distribution
from statistics_ import assert_variance
from strategies import few
from transcript import transcript_loss

REPLICATES = few(6_000, 20_000)

MECHANISMS = {"bd": BudgetDistribution, "ba": BudgetAbsorption}
WINDOW = 5


def maker(name, bins=2, window=WINDOW):
    """A mechanism with ε = 1."""
    return lambda source: MECHANISMS[name](epsilon=1, bins=bins, window=window, unsafe_source=source)


@given(st.integers(1, 8), st.lists(st.booleans(), max_size=60))
def test_no_window_has_more_than_half(window, wishes):
    """Whatever is published when, publications of any w slots cost at most ε/2, and those of t slots what is stated."""
    for division, most in (
        (Distribution(window), lambda slots: min(Fraction(slots, 4), Fraction(-(-slots // window), 2))),
        (Absorption(window), lambda slots: Fraction(slots, 2 * window)),
    ):
        spent = []
        for slot, wish in enumerate(wishes, 1):
            offer = division.offer(slot, spent[-1] if spent else Fraction(0))
            spent.append(offer if wish or slot == 1 else Fraction(0))
            assert spent[-1] <= division.largest
            assert sum(spent[-window:]) <= Fraction(1, 2)
            assert sum(spent) <= division.most(slot) == most(slot)


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("seed", range(6))
def test_a_window_of_a_user_costs_at_most_epsilon(name, seed):
    """Along random transcripts the exact loss of a user in any w slots is at most ε; releases see noise alone."""
    make, slots = maker(name), 30
    others = [np.array([4, 9])] * slots
    for start in range(0, slots - WINDOW, 4):
        user = [np.array([1, 0]) if start <= t < start + WINDOW else np.zeros(2, dtype=int) for t in range(slots)]
        pure, _ = transcript_loss(make, [a + b for a, b in zip(others, user, strict=True)], others, seed)
        assert pure <= 1


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("slots", [1, 2, 13, 40])
def test_a_user_in_every_slot_loses_at_most_what_is_stated(name, slots):
    """Over twenty transcripts the exact loss stays below the stated bound, and comes near it."""
    make = maker(name)
    losses = [
        transcript_loss(make, [np.array([4, 9])] * slots, [np.array([3, 9])] * slots, seed)[0] for seed in range(20)
    ]
    stated = Fraction(make(None).user_epsilon(slots)).limit_denominator(10**6)
    assert max(losses) <= stated
    assert max(losses) > stated / 5


@pytest.mark.parametrize("name", MECHANISMS)
def test_one_record_costs_at_most_its_share(name):
    """No transcript loses more about one record than ε·record_share."""
    make, slots = maker(name), 20
    for seed in range(10):
        for place in range(0, slots, 3):
            stream = [np.array([4 + (t == place), 9]) for t in range(slots)]
            pure, _ = transcript_loss(make, stream, [np.array([4, 9])] * slots, seed)
            assert pure <= make(None).record_share


def course(mechanism, wishes):
    """The budgets of slots in which the test says so."""
    asked, budgets = mock.Mock(side_effect=wishes[1:]), []
    with mock.patch.object(type(mechanism), "_differs", asked):
        for _ in wishes:
            mechanism.update(5)
            budgets.append(mechanism.budget)
    return budgets


def test_publications_have_the_published_budgets():
    """BD: ε/4, ε/8, … in a window, and half of what leaves it; BA: (j + 1)·ε/(2w) after j skipped slots, then none."""
    yes, no = True, False
    assert course(BudgetDistribution(epsilon=64, window=4), [yes] * 5) == [16, 8, 4, 2, 9]
    # The fourth publication took three shares, so two slots may not even ask; the next has one share again.
    absorbing = BudgetAbsorption(epsilon=64, window=4)
    assert course(absorbing, [yes, no, no, yes, yes]) == [8, 0, 0, 24, 0]


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_publication_has_the_noise_of_its_budget(name):
    """The first release has variance 2/e² over 20,000 bins, within six standard errors (false alarm below 10^-8)."""
    mechanism = MECHANISMS[name](epsilon=1, bins=REPLICATES, window=3, unsafe_source=UnsafeSeededSource(1))
    release = mechanism.update(np.full(REPLICATES, 7))
    assert_variance(release - 7, 2 / float(mechanism.budget) ** 2)


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_constant_stream_keeps_its_first_release(name):
    """With many bins the test hardly errs: nothing is published again, so the error stays that of the first release."""
    mechanism = MECHANISMS[name](epsilon=2, bins=5_000, window=3, unsafe_source=UnsafeSeededSource(4))
    first = mechanism.update(np.full(5_000, 50))
    budgets = []
    for _ in range(2):
        last = mechanism.update(np.full(5_000, 50))
        budgets.append(mechanism.budget)
    if name == "bd":
        assert budgets == [0, 0]
        np.testing.assert_array_equal(first, last)
    else:  # absorbed shares make a fresh release better than the first, and it is published
        assert budgets[0] or budgets[1]


def test_a_window_needs_a_slot():
    """A window of no slots is refused."""
    with pytest.raises(OptionError, match="window"):
        BudgetDistribution(epsilon=1, window=0)


def test_budgets_stay_short_for_ever():
    """After hundreds of publications a budget is still a multiple of 2^-40 of ε, and a window still keeps to ε/2."""
    mechanism, spent = BudgetDistribution(epsilon=1, window=3), []
    with mock.patch.object(BudgetDistribution, "_differs", mock.Mock(return_value=True)):
        for _ in range(few(300, 3000)):
            mechanism.update(5)
            spent.append(mechanism.spent)
            assert sum(spent[-3:]) <= Fraction(1, 2)
    assert max(share.denominator for share in spent) <= 1 << 40
