"""A count of active users: prices that all of a histogram pay, exact losses, a kept state, numbers that hold."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpi
from dpi.budget.classes import Bounds, GroupBudget, Priced
from dpi.budget.epsilon import LARGEST, UNITS, Epsilon
from dpi.errors import OptionError, StateError
from dpi.estimator.prices import TOP
from dpi.exact.integers import GRAINS
from dpi.mechanism.active_users import ActiveUsers
from dpi.mechanism.base import Measurement
from dpi_audit import neighbours, small
from dpi_audit.exact import worst_of
from dpi_audit.session import StreamSession

ONE = dpi.Categories(["active"], other=None)
COUNT = {"domain": ONE, "mechanism": ActiveUsers(), "budget": dpi.Ledger()}


def play(slots, numbers, mechanism=ActiveUsers(), held=UNITS, seed=0):  # noqa: B008 - it is frozen
    """The states and estimates of a stream whose groups have so many users that pay all of the price, with noise."""
    rng, state, bounds = (
        np.random.default_rng(seed),
        mechanism.initial(ONE, TOP + 1),
        Bounds.initial(Epsilon(held), TOP),
    )
    for slot in range(slots):
        bounds, groups = bounds.draw(slot, mechanism.request_payments(state, slot))
        users = np.array(numbers(slot, len(groups)), dtype=float)
        noise = np.array([rng.laplace(scale=UNITS / group.epsilon.units) for group in groups])
        values = np.round(np.clip((users + noise) * GRAINS, -(2.0**62), 2.0**62)).astype(np.int64)
        measured = Measurement(slot, max(group.epsilon for group in groups), values, groups=groups)
        state, estimate = mechanism.update(state, measured)
        yield state, estimate, groups


def steady(slot, groups):
    """10,000 users who return and 500 who are new, in whichever histograms there are."""
    returning = [10_000, *[0] * 3] if groups < 3 else [1_000, 2_000, 7_000] if groups == 4 else [2_000, 8_000]
    return [10_500] if groups == 1 else [500, *returning[: groups - 1]]


def test_all_of_a_histogram_have_one_price():
    """Priced by class below what their shares say, so that whoever has an eighth of the most left pays the same."""
    for slot, (_, _, groups) in enumerate(play(120, steady)):
        assert [group.classes[0].number for group in groups] == sorted({m for m in (0, 1, 5, 37) if m <= slot})
        assert groups[-1].classes[-1].number == min(slot, TOP)
        for group in groups[1:]:
            assert len({due.epsilon for due in group.classes}) == 1
            for due in group.classes:
                assert group.epsilon.units <= due.most_left * due.steps // 4096
                assert due.steps <= 2048


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-1e7, 1e9), st.floats(-1e7, 1e9)), min_size=1, max_size=12),
    st.sampled_from([UNITS // 1000, UNITS, LARGEST]),
    st.sampled_from([None, 2, 168]),
)
def test_whatever_is_measured_numbers_are_finite_and_prices_are_taken(totals, held, season):
    """Noise of any size, tiny ε and large, a season that is not there: budgets that `Bounds` takes, finite numbers."""

    def numbers(slot, groups):
        return [totals[slot % len(totals)][0], *[totals[slot % len(totals)][1]] * (groups - 1)]

    for state, estimate, groups in play(30, numbers, ActiveUsers(season), held):
        assert groups[0].classes[0].number == 0
        told = [estimate.total, estimate.total_variance, *estimate.people]
        assert np.isfinite(told).all()
        assert not np.isinf(estimate.across).any()
        assert min(told) >= 0
        assert np.isfinite(state.prices).all()
        assert 0 < state.prices[0] <= 0.85


def test_numbers_hold_on_a_steady_stream():
    """Of 200 slots with 10,500 users the interval has the truth in 95 of 100 or more, and numbers are near."""
    said = [estimate for _, estimate, _ in play(200, steady)]
    inside = [abs(each.total - 10_500) <= 1.96 * each.total_variance**0.5 for each in said]
    assert np.mean(inside) >= 0.95
    assert np.median([abs(each.total / 10_500 - 1) for each in said]) < 0.03
    assert (
        np.mean([abs(each.people.newcomers - 500) <= 1.96 * each.people.newcomers_variance**0.5 for each in said[1:]])
        > 0.9
    )


@pytest.mark.parametrize("restart_every", [None, 3])
def test_a_user_loses_no_more_than_is_stated(restart_every):
    """Exactly, a user in every slot beside others; along transcripts near the truth and far from it."""

    def opened():
        return StreamSession(small.stream(**COUNT), restart_every=restart_every)

    pairs = [neighbours.every_slot(8, ["active"]), neighbours.every_slot(24, ["active"])]
    found = worst_of(opened, pairs)
    assert not found.violates
    assert found.ratio > 0.3


def test_a_state_is_kept_bit_by_bit():
    """Bytes give the same state, and it goes on alike; damage, other options and other domains are told."""
    mechanism = ActiveUsers(7)
    *_, (state, _, _) = play(20, steady, mechanism)
    kept = mechanism.from_bytes(ONE, mechanism.to_bytes(state))
    assert mechanism.to_bytes(kept) == mechanism.to_bytes(state)
    assert mechanism.request_payments(kept, 20) == mechanism.request_payments(state, 20)
    asked = mechanism.request_payments(mechanism.initial(ONE, TOP + 1), 0)
    first = Bounds.initial(Epsilon(UNITS), TOP).draw(0, asked)[1]
    measured = Measurement(20, first[0].epsilon, np.array([GRAINS]), groups=first)
    one, other = mechanism.update(kept, measured), mechanism.update(state, measured)
    assert mechanism.to_bytes(one[0]) == mechanism.to_bytes(other[0])
    assert one[1].total == other[1].total
    data = mechanism.to_bytes(state)
    for wrong in (data[:-1], data[:60] + b"x" + data[61:]):
        with pytest.raises(StateError):
            mechanism.from_bytes(ONE, wrong)
    for of, domain in ((ActiveUsers(), ONE), (mechanism, dpi.Categories(["a", "b"], other=None))):
        with pytest.raises(StateError, match="other options"):
            of.from_bytes(domain, data)


@pytest.mark.parametrize("season", [1, 169, 7.0, True])
def test_a_season_that_is_none_is_refused(season):
    """From 2 to 168 slots."""
    with pytest.raises(OptionError, match="season"):
        ActiveUsers(season)


def test_it_needs_one_value_and_accounts_by_class():
    """Other domains and other budgets are refused when the stream is declared."""
    with pytest.raises(OptionError, match="one value"):
        dpi.Stream(**(COUNT | {"domain": dpi.Categories(["a"])}), epsilon=1)
    with pytest.raises(OptionError, match="by class"):
        dpi.Stream(**(COUNT | {"budget": dpi.Ledger(per_slot="0.1")}), epsilon=1)


prices = st.integers(1, LARGEST)
shares = st.integers(1, 4096).map(lambda steps: Fraction(steps, 4096))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(shares, prices), min_size=1, max_size=12), st.integers(1, LARGEST), st.integers(0, 100))
def test_priced_classes_keep_to_their_bounds(asked, held, part):
    """Whoever pays min(E, floor(f·left)) in every slot, all or a part of L left, stays within L_m and S_m."""
    bounds, left, spent = Bounds.initial(Epsilon(held), 3), [held, held - held * part // 100], [0, held * part // 100]
    there, paid = [0, 0], [0, 0]
    for slot, (share, price) in enumerate(asked):
        classes = [(m, share) for m in range(min(slot, 3) + 1)]
        group = Priced(classes, Epsilon(price))
        before = bounds
        bounds, (budget,) = bounds.draw(slot, (group,))
        assert budget.epsilon.units <= max(price, 1)
        for user in (0, 1):
            assert left[user] <= before.left[there[user]]
            limit = left[user] * share.numerator // share.denominator
            cost = min(limit, budget.epsilon.units)
            left[user], paid[user] = left[user] - cost, paid[user] + cost
            there[user] = min(there[user] + (cost > 0), 3)
            assert left[user] <= bounds.left[there[user]]
            if cost:
                assert paid[user] <= bounds.spent[there[user]]
    assert all(now <= after for now, after in pairwise([0, *sorted(spent)]))


def test_a_price_is_a_part_of_a_group():
    """Without it a group costs the largest of its budgets; with one no more than that."""
    half = Fraction(1, 2)
    bounds = Bounds.initial(Epsilon(1000), 2)
    assert bounds.draw(0, (((0, half),),))[1][0].epsilon == Epsilon(500)
    assert bounds.draw(0, (Priced([(0, half)], Epsilon(700)),))[1][0].epsilon == Epsilon(500)
    _, (group,) = bounds.draw(0, (Priced([(0, half)], Epsilon(9)),))
    assert group == GroupBudget(Epsilon(9), (replace(group.classes[0], epsilon=Epsilon(9)),))
