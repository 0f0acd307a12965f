"""The boosted mechanism over a change of its domain: what it knew of what stays, it still knows."""

from __future__ import annotations

import numpy as np
import pytest

import dpi
from dpi.budget.classes import ClassBudget, GroupBudget
from dpi.budget.epsilon import UNITS, Epsilon
from dpi.domain.overlap import Overlap
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import Histogram
from dpi.mechanism.base import Measurement
from dpi.mechanism.class_estimator import SingleClassState
from dpi.mechanism.filtering import _population as population
from dpi.mechanism.rotation import Views
from dpi.noise import UnsafeSeededSource, add_laplace

OLD = dpi.Categories(["a", "b", "c"], other="elsewhere")
WIDER = dpi.Categories(["b", "new", "a", "newer"], other="rest")
EPSILON = Epsilon.at_most("0.5")


def fed(mechanism, domain, slots=12, state=None, seed=5):
    """The state after some slots of a steady crowd."""
    state, source = mechanism.initial(domain) if state is None else state, UnsafeSeededSource(seed)
    grains = np.arange(domain.size, 0, -1) * 40 * GRAINS
    for slot in range(slots):
        measurement = mechanism.measure(state, Histogram(grains, GRAINS), EPSILON, slot, source)
        state, _ = mechanism.update(state, measurement)
    return state


@pytest.mark.parametrize("season", [None, 4])
def test_what_is_in_both_domains_keeps_what_is_known_of_it(season):
    """In the same ratios, under every hypothesis; weights and numbers stay."""
    mechanism = dpi.Boosted(season=season)
    before = fed(mechanism, OLD)
    after = mechanism.adapt_to_domain(before, OLD, WIDER)
    whole = before.laws.mean.sum(1)
    for value in ("a", "b"):
        here, there = OLD.index(value), WIDER.index(value)
        assert np.allclose(after.laws.mean[:, there], before.laws.mean[:, here] / whole, rtol=1e-5)
        doubt = before.laws.covariance[:, here] / whole[..., None] ** 2
        assert np.allclose(after.laws.covariance[:, there], doubt, rtol=1e-5)
        assert before.season.counts[:, here].tobytes() == after.season.counts[:, there].tobytes()
    assert after.laws.log_weights.tobytes() == before.laws.log_weights.tobytes()
    assert after.number is before.number
    assert after.payers is before.payers


def test_new_values_take_their_share_of_other_and_are_doubted():
    """`other`, which has got c as well, is shared evenly; m² is added to the variance of each part."""
    mechanism = dpi.Boosted()
    before = fed(mechanism, OLD).laws
    after = mechanism.adapt_to_domain(fed(mechanism, OLD), OLD, WIDER).laws
    whole = before.mean.sum(1)
    other, gone = (before.mean[:, at] / whole for at in (OLD.size - 1, OLD.index("c")))
    for value in ("new", "newer"):
        at = WIDER.index(value)
        assert np.allclose(after.mean[:, at], other / 3, rtol=1e-5)
        doubt = before.covariance[:, OLD.size - 1, 0] / whole**2 / 9 + other**2
        assert np.allclose(after.covariance[:, at, 0], doubt, rtol=1e-5)
    assert np.allclose(after.mean[:, -1], other / 3 + gone, rtol=1e-5)
    assert np.allclose(after.mean.sum(1), 1, rtol=1e-5)


def test_the_next_estimate_is_near_the_one_before_for_what_stays():
    """A slot that is not measured is forecast from memory: values of both domains have the probability they had."""
    mechanism, quiet = dpi.Boosted(), Measurement(12, Epsilon(0), np.empty(0, dtype=np.int64))
    state = fed(mechanism, OLD)
    _, before = mechanism.update(state, quiet)
    _, after = mechanism.update(mechanism.adapt_to_domain(state, OLD, WIDER), quiet)
    _, anew = mechanism.update(mechanism.initial(WIDER), quiet)
    for value in ("a", "b"):
        known = before.pdf[OLD.index(value)]
        assert after.pdf[WIDER.index(value)] == pytest.approx(known, rel=0.1)
        assert anew.pdf[WIDER.index(value)] != pytest.approx(known, rel=0.1)
    assert after.variance[WIDER.index("new")] > before.variance[OLD.size - 1]
    assert after.total == pytest.approx(before.total, rel=0.1)


def test_a_state_that_was_moved_is_one_of_the_new_domain():
    """Its bytes are read back, it is measured and updated, and it learns where the new values are."""
    mechanism = dpi.Boosted(season=3)
    moved = mechanism.adapt_to_domain(fed(mechanism, OLD), OLD, WIDER)
    again = mechanism.from_bytes(WIDER, mechanism.to_bytes(moved))
    assert mechanism.to_bytes(again) == mechanism.to_bytes(moved)
    source, grains = UnsafeSeededSource(2), np.array([60, 5, 30, 100, 5]) * 40 * GRAINS
    for slot in range(12, 30):
        measured = mechanism.measure(again, Histogram(grains, GRAINS), EPSILON, slot, source)
        again, estimate = mechanism.update(again, measured)
    assert np.abs(estimate.pdf - grains / grains.sum()).sum() < 0.05


def test_bins_that_are_gone_take_their_mass_with_them():
    """Without `other` nobody counts what is not listed: the levels of the rest are in the ratio in which they were."""
    old, new = dpi.Categories(["a", "b", "c"], other=None), dpi.Categories(["a", "b"], other=None)
    mechanism = dpi.Boosted(season=2)
    before = fed(mechanism, old)
    after = mechanism.adapt_to_domain(before, old, new)
    ratio = (laws.mean[:, 0] / laws.mean[:, 1] for laws in (before.laws, after.laws))
    assert np.allclose(*ratio, rtol=1e-5)
    assert np.allclose(after.laws.mean.sum(1), 1, rtol=1e-5)


def test_a_bin_that_was_nowhere_is_unknown():
    """A value that is added where nothing was kept of unlisted ones says nothing, until it is measured."""
    old, new = dpi.Categories(["a", "b"], other=None), dpi.Categories(["a", "b", "c"], other=None)
    mechanism = dpi.Boosted()
    after = mechanism.adapt_to_domain(fed(mechanism, old), old, new)
    assert (after.laws.covariance[:, 2] > 0.5).all()  # the variance of any level between 0 and 1 is less


def test_the_population_of_levels_is_carried_to_another_grid():
    """Its mean level stays, up to the distance of the grid's points; of added bins the prior is taken."""
    mechanism = dpi.Boosted()
    old, fewer = dpi.Bins(range(20)), dpi.Bins(range(10))
    before = fed(mechanism, old)
    after = mechanism.adapt_to_domain(before, old, fewer)
    log = [float(state.laws.population @ np.log(population.grid_levels(state.bins))) for state in (before, after)]
    assert log[0] == pytest.approx(log[1], abs=population.STEP)
    wider = mechanism.adapt_to_domain(before, old, dpi.Bins(range(40)))
    assert wider.laws.population.sum() == pytest.approx(1)
    assert (wider.laws.population > 0).all()


def test_domains_that_have_nothing_in_common_start_anew():
    """As before the first slot."""
    mechanism, other = dpi.Boosted(), dpi.Bins([0, 1])
    assert mechanism.to_bytes(mechanism.adapt_to_domain(fed(mechanism, OLD), OLD, other)) == mechanism.to_bytes(
        mechanism.initial(other)
    )


TOWNS = dpi.Product(town=dpi.Categories([f"t{i}" for i in range(12)]), age=dpi.Bins([10, 20, 30]))
MORE = dpi.Product(town=dpi.Categories([f"t{i}" for i in range(14)]), age=dpi.Bins([10, 20, 30]))


def test_views_move_with_their_partitions():
    """A marginal keeps its messages where its blocks stay, and turns and weights go on."""
    mechanism = dpi.Boosted(partitions=(dpi.domain.Marginal("town"), dpi.domain.Marginal("age")))
    before = fed(mechanism, TOWNS)
    after = mechanism.adapt_to_domain(before, TOWNS, MORE)
    assert isinstance(after, Views)
    old, new = before.turns, after.turns
    assert new.states[0].laws.mean.tobytes() == old.states[0].laws.mean.tobytes()  # of ages
    kept = [turns.states[1].laws.mean[:, :12] for turns in (old, new)]
    assert np.allclose(*(part / part.sum(1, keepdims=True) for part in kept), rtol=1e-4)
    assert (new.log_weights.tobytes(), new.turn) == (old.log_weights.tobytes(), old.turn)
    again = mechanism.from_bytes(MORE, mechanism.to_bytes(after))
    fed(mechanism, MORE, state=again)


def test_views_that_come_and_go_leave_the_bins_what_they_know():
    """A domain that becomes huge is measured coarsely too, one that shrinks no more; the bins' own state is moved."""
    small, huge = dpi.Bins(range(9_990)), dpi.Bins(range(10_010))
    mechanism = dpi.Boosted()
    before = fed(mechanism, small, slots=2)
    after = mechanism.adapt_to_domain(before, small, huge)
    assert isinstance(after, Views)
    first = before.laws.mean[1, :9_990, 0]
    assert np.corrcoef(after.turns.states[-1].laws.mean[0, :9_990, 0], first)[0, 1] > 0.999
    back = mechanism.adapt_to_domain(after, huge, small)
    assert not isinstance(back, Views)
    assert np.corrcoef(back.laws.mean[1, :9_990, 0], first)[0, 1] > 0.999


def test_an_overlap_in_which_all_stays_changes_no_bit():
    """The same domain, moved: the same bytes."""
    mechanism = dpi.Boosted(season=2)
    state = fed(mechanism, OLD)
    assert Overlap.of(OLD, OLD).lossless
    assert mechanism.to_bytes(mechanism.adapt_to_domain(state, OLD, OLD)) == mechanism.to_bytes(state)


def test_a_mechanism_that_does_not_say_how_starts_anew():
    """The published one has no estimate of a bin to carry over."""
    mechanism = dpi.Published()
    moved = mechanism.adapt_to_domain(mechanism.initial(OLD), OLD, WIDER)
    assert mechanism.to_bytes(moved) == mechanism.to_bytes(mechanism.initial(WIDER))


def by_class(mechanism, domain, state, slots, first=0):
    """The state after some slots of a clocked ledger, in which a tenth of the users is new."""
    source = UnsafeSeededSource(5)
    for slot in range(first, first + slots):
        left = [round(UNITS * 0.75**m) for m in range(5)]
        due = tuple(
            GroupBudget.of(ClassBudget(m, Epsilon(max(1, int(share * left[m]))), share, left[m]) for m, share in group)
            for group in mechanism.request_payments(state, slot)
        )
        grains = np.stack([np.arange(domain.size, 0, -1) * 40 * GRAINS // (m + 1) for m in range(len(due))])
        noisy = [add_laplace(row, one.epsilon.scale, source) for row, one in zip(grains, due, strict=True)]
        epsilon = max(one.epsilon for one in due)
        state, _ = mechanism.update(state, Measurement(slot, epsilon, np.concatenate(noisy), groups=due))
    return state


@pytest.mark.parametrize("season", [None, 4])
def test_users_by_class_are_known_over_a_change(season):
    """Laws and phases keep what is in both domains, new values share `other`, numbers stay and the stream goes on."""
    mechanism = dpi.Boosted(season=season)
    before = by_class(mechanism, OLD, mechanism.initial(OLD, 5), 16)
    after = mechanism.adapt_to_domain(before, OLD, WIDER, 5)
    for value in ("a", "b"):
        here, there = OLD.index(value), WIDER.index(value)
        ratio = after.laws.mean[:, there] / before.laws.mean[:, here]  # as all levels of a law, which sum to one
        assert np.allclose(ratio, 1 / before.laws.mean.sum(1), rtol=1e-5)
        scaled = before.laws.covariance[:, here] * ratio[..., :, None] * ratio[..., None, :]
        assert np.allclose(after.laws.covariance[:, there], scaled, rtol=1e-4, atol=0)
        phases = (before.season.counts[:, here], after.season.counts[:, there])
        assert phases[0].tobytes() == phases[1].tobytes()
    other, gone = (before.laws.mean[:, at] / before.laws.mean.sum(1) for at in (OLD.size - 1, OLD.index("c")))
    assert np.allclose(after.laws.mean[:, WIDER.index("new")], other / 3, rtol=1e-5)
    assert np.allclose(after.laws.mean[:, -1], other / 3 + gone, rtol=1e-5)
    assert np.linalg.eigvalsh(after.laws.covariance.astype(float)).min() > -1e-9
    assert np.allclose(after.laws.mean.sum(1), 1, rtol=1e-5)
    assert after.activity is before.activity
    assert mechanism.from_bytes(WIDER, mechanism.to_bytes(after)).bins == WIDER.size
    quiet = Measurement(16, Epsilon(0), np.empty(0, dtype=np.int64))
    (_, stayed), (_, passed) = mechanism.update(before, quiet), mechanism.update(after, quiet)
    assert (passed.total, passed.total_variance) == (stayed.total, stayed.total_variance)
    assert passed.pdf[WIDER.index("a")] == pytest.approx(stayed.pdf[OLD.index("a")], rel=0.1)
    # It is measured as one class from here on.
    assert isinstance(mechanism.adapt_to_domain(before, OLD, WIDER), SingleClassState)
