"""Which part of the active users still pays, and what that does to an estimate."""

from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.budget.epsilon import Epsilon
from dpi.domain import Categories
from dpi.exact.integers import GRAINS
from dpi.mechanism.base import Measurement
from dpi.mechanism.boosted import Boosted
from dpi.mechanism.class_estimator._payer_coverage import ALL_PAY, GROWTH, Payers
from dpi_research.datasets.generators import zipf

DAY = [100, 90, 60, 20, 10, 50]
SIZES = st.lists(st.floats(1, 1e6), min_size=1, max_size=20)


def played(sizes, *, partial, season=0, before=None):
    """After slots of these sizes."""
    before = before or Payers.begun()
    for users in sizes:
        before = before.after(users, partial=partial, season=season or 0)
    return before


@given(SIZES, SIZES)
def test_without_a_season_a_slot_is_compared_with_the_largest(paid, later):
    """Every fall below the largest size of slots in which everybody paid counts as accounts that are empty."""
    found = played(later, partial=True, before=played(paid, partial=False))
    part = later[-1] / max(paid)
    assert found.coverage == (part if part < ALL_PAY else 1)


def test_the_largest_is_not_forgotten():
    """Ten thousand slots of newcomers are as few among the users as the first: nobody who paid pays again."""
    found = played([50.0] * 10_000, partial=True, before=played([1000.0], partial=False))
    assert found.coverage == 0.05
    assert found.recent.size == GROWTH


@pytest.mark.parametrize("season", [None, 6])
def test_the_largest_stays_where_slots_of_both_kinds_alternate(season):
    """A night for which every account suffices, after slots for which some did not, does not make the whole small."""
    whole = played(DAY, partial=False, season=season or 0)
    night = played(
        [10], partial=False, season=season, before=played(DAY[:3], partial=True, season=season, before=whole)
    )
    assert night.reference == whole.reference
    assert played([10], partial=True, season=season, before=night).coverage < 0.2


def test_a_crowd_is_no_growth_and_a_lasting_one_is():
    """Ten times the users for some slots leave no trace; for good, they are the new size of the whole."""
    whole = played([100.0] * 3, partial=False)
    crowd = played([100.0] * 20 + [1000.0] * 8 + [100.0] * 20, partial=True, before=whole)
    assert crowd.coverage == 1
    grown = played([1000.0] * GROWTH, partial=True, before=whole)
    assert played([500.0], partial=True, before=grown).coverage == 0.5


@given(SIZES, st.integers(2, 8))
def test_while_everybody_pays_all_are_covered(sizes, season):
    """No fall counts before accounts can be empty."""
    assert played(sizes, partial=False, season=season or 0).coverage == 1
    assert played(sizes, partial=False).coverage == 1


def test_a_night_is_no_sign_of_empty_accounts_where_the_season_is_declared():
    """The same days again and again are covered in full; undeclared, a night is not."""
    first = played(DAY, partial=False, season=6)
    declared = [played(DAY[:n], partial=True, season=6, before=played(DAY * 3, partial=True, season=6, before=first))
                for n in range(1, 7)]  # fmt: skip
    assert [payers.coverage for payers in declared] == [1.0] * 6
    assert played(DAY[:5], partial=True, before=played(DAY, partial=False)).coverage < 0.11


def test_accounts_that_run_empty_are_seen_within_a_season():
    """A tenth of a day's payers, a day after everybody paid, is a coverage of a tenth."""
    found = played([size / 10 for size in DAY], partial=True, season=6, before=played(DAY, partial=False, season=6))
    assert found.coverage == pytest.approx(0.1)
    assert found.recent.tolist() == [size / 10 for size in DAY]
    assert median(found.recent) == 5.5


def test_sizes_never_seen_while_all_could_pay_are_compared_with_the_largest():
    """A view that is first measured when accounts may be empty: its first slot is whole, a tenth of it is a tenth."""
    first = Payers.begun().after(100, partial=True)
    assert first.coverage == 1
    assert first.after(10, partial=True).coverage == 0.1


@pytest.mark.parametrize("season", [None, 3])
def test_who_pays_is_remembered_through_bytes(season):
    """A state with slots in which accounts may be empty is resumed bit for bit."""
    mechanism, domain = Boosted(season=season), Categories(["a", "b", "c"], other=None)
    state = resumed = mechanism.initial(domain)
    for slot, users in enumerate([900, 800, 300, 60, 200, 40]):
        values = np.array([users, users // 2, users // 3]) * GRAINS
        measurement = Measurement(slot, Epsilon.at_most(1), values, partial=slot > 1)
        state, one = mechanism.update(state, measurement)
        resumed, other = mechanism.update(mechanism.from_bytes(domain, mechanism.to_bytes(resumed)), measurement)
        assert one.pdf.tobytes() == other.pdf.tobytes()
        assert one.variance.tobytes() == other.variance.tobytes()
    assert mechanism.to_bytes(state) == mechanism.to_bytes(resumed)
    assert state.payers.partial


def test_a_few_payers_hardly_move_what_was_even():
    """After slots in which bins differed by chance alone, forty payers in ten bins move the release by little."""
    mechanism, domain, rng = Boosted(), Categories(range(50), other=None), np.random.default_rng(0)
    state, few = mechanism.initial(domain), np.arange(50) % 5 // 4 * 4
    for slot in range(6):
        counts = rng.multinomial(10_000, np.full(50, 0.02))
        state, _ = mechanism.update(state, Measurement(slot, Epsilon.at_most(1), counts * GRAINS))
    _, forecast = mechanism.update(state, Measurement(6, Epsilon(0), np.empty(0, dtype=np.int64)))
    _, sure = mechanism.update(state, Measurement(6, Epsilon.at_most(1), few * GRAINS))
    _, after = mechanism.update(state, Measurement(6, Epsilon.at_most(1), few * GRAINS, partial=True))
    assert np.abs(after.pdf - forecast.pdf).sum() < 0.01
    assert np.abs(sure.pdf - forecast.pdf).sum() > 0.1


def test_a_crowd_after_accounts_ran_empty_is_seen():
    """Fewer and fewer could pay, then nobody; now newcomers, six times as many as ever, are nearly all in one bin."""
    mechanism, domain, rng = Boosted(), Categories(range(1000), other=None), np.random.default_rng(0)
    state, usual = mechanism.initial(domain), zipf(1000)
    for slot in range(40):
        counts = rng.multinomial(round(50_000 * min(1, 0.3 ** (slot - 8))), usual) * GRAINS
        counts += rng.laplace(0, GRAINS / 2, 1000).astype(np.int64)
        state, _ = mechanism.update(state, Measurement(slot, Epsilon.at_most(2), counts, partial=slot >= 8))
    crowd = rng.multinomial(30_000, usual)
    crowd[700] += 280_000
    _, found = mechanism.update(state, Measurement(40, Epsilon.at_most(2), crowd * GRAINS, partial=True))
    assert found.pdf[700] > 0.7


def test_a_part_of_an_account_is_no_empty_account():
    """Where all pay nine tenths, a slot's own deviation is released; where half is paid, it may be newcomers'."""
    mechanism, domain, rng = Boosted(), Categories(range(100), other=None), np.random.default_rng(0)
    errors = {}
    for part in (0.9, 1.0, 0.5):
        state, found = mechanism.initial(domain), []
        for slot in range(60):
            counts = np.rint(rng.normal(100, 6, 100)).astype(np.int64)
            grains = counts * round(GRAINS * (part if slot >= 8 else 1))
            state, estimate = mechanism.update(state, Measurement(slot, Epsilon.at_most(1), grains, partial=slot >= 8))
            found.append(np.abs(estimate.pdf - counts / counts.sum()).sum())
        errors[part] = np.mean(found[30:])
    assert max(errors[0.9], errors[1.0]) < 0.2 * errors[0.5]
