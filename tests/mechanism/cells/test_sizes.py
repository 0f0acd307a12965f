import numpy as np
import pytest

from dpi.mechanism.cells import _sizes as activity
from dpi.mechanism.cells import _sizes as sizes
from dpi.mechanism.cells._dynamics import Cells
from dpi.mechanism.cells._sizes import Activity, Inflow, Measured, Sized
from dpi.mechanism.filtering._gaussians import Gaussians
from dpi.mechanism.filtering.laplace_gauss import NoisyCounts

EVEN = Gaussians(np.full(20, 0.05), np.full(20, 1e-6))


def cells_of(paid, behind, age=4.0):
    """Two classes whose second has so many users."""
    empty = Cells.empty(20, 3)
    empty.size[:, 1] = paid, behind
    empty.age[:, 1] = age
    return empty


def test_phantom_newcomers_are_none():
    """Noise alone: over 400 slots the mean number of newcomers is far below the deviation of its noise."""
    rng = np.random.default_rng(4)
    inflow, found = Inflow(), []
    for _ in range(400):
        inflow, sized = sizes.size_newcomers(inflow, NoisyCounts(rng.laplace(0, 1, 20), 1.0), EVEN)
        found.append(sized.size)
    assert np.mean(found) < 0.1 * 40**0.5


def test_a_trickle_is_heard_in_time():
    """Three newcomers a slot under noise of deviation six are told after two hundred slots."""
    rng = np.random.default_rng(5)
    inflow = Inflow()
    for _ in range(200):
        counts = np.bincount(rng.integers(0, 20, 3), minlength=20) + rng.laplace(0, 1, 20)
        inflow, _ = sizes.size_newcomers(inflow, NoisyCounts(counts, 1.0), EVEN)
    assert inflow.size == pytest.approx(3, abs=2)


def test_a_burst_is_believed_at_once():
    """A crowd out of all expectation counts as it was measured."""
    inflow, sized = sizes.size_newcomers(Inflow(3.0, 1.0), NoisyCounts(np.full(20, 100.0), 1.0), EVEN)
    assert sized.size == pytest.approx(2000, rel=0.01)
    assert inflow.size == pytest.approx(2000, rel=0.01)


def test_rates_are_learned_and_handed_up():
    """What class 1 shows is expected of the classes above until they show something else."""
    precision, evidence = np.zeros((4, 2, 2)), np.zeros((4, 2))
    for _ in range(20):
        seen = sizes.Sized(300.0, 1.0, 300.0, 1.0)
        precision[1], evidence[1] = sizes.learn_rates(
            precision[1], evidence[1], np.array([1000.0, 10.0]), seen, 300.0, 1.0
        )
    rates = sizes.active_users(sizes.regress_rates(precision, evidence), Cells.empty(20, 4), np.zeros(4), np.zeros(4))
    assert rates.mean[1, 0] == pytest.approx(0.3, abs=0.02)
    assert rates.mean[3, 0] == pytest.approx(0.3, abs=0.05)


def test_one_strange_week_is_no_rate():
    """A shop is closed once: rates hardly move. Users who leave for good: they do, within some measurements."""
    paid, usual = np.array([1000.0, 10.0]), sizes.Sized(600.0, 1.0, 600.0, 400.0)
    precision, evidence = np.zeros((2, 2)), np.zeros(2)

    def rate():
        return sizes.regress_rates(np.array([[[0, 0], [0, 0]], precision]), np.array([[0, 0], evidence]))[0][1, 0]

    for _ in range(10):
        precision, evidence = sizes.learn_rates(precision, evidence, paid, usual, 1000 * rate(), 1.0)
    closed = sizes.Sized(20.0, 1.0, 20.0, 400.0)
    precision, evidence = sizes.learn_rates(precision, evidence, paid, closed, 1000 * rate(), 1.0)
    assert rate() == pytest.approx(0.6, abs=0.04)
    for _ in range(30):
        precision, evidence = sizes.learn_rates(precision, evidence, paid, closed, 1000 * rate(), 1.0)
    assert rate() < 0.1


def unheard(missing, looked):
    """Deviations of how many of the missing are there, of whom no rate tells."""
    rates = sizes.regress_rates(np.zeros((4, 2, 2)), np.zeros((4, 2)))
    return sizes.active_users(rates, Cells.empty(20, 4), np.array(missing), np.array(looked)).unheard ** 0.5


def test_who_was_absent_widens_totals_as_far_as_nobody_looked():
    """Of a class that drowns, all who were absent may be there; of one that nobody entered, nobody."""
    assert (unheard([0.0, 1000, 1000, 1000], np.zeros(4))[1:] >= 250).all()
    assert (unheard([0.0, 1000, 1000, 0], np.zeros(4))[[0, 3]] == 0).all()


def test_a_look_at_a_class_tells_how_many_of_the_missing_return():
    """A thousand are missing, and nobody was there, within ten: as few may be there now. A look fades with the next.

    Of the class above, of which nothing was seen, hardly more return: one more in twenty, and of the next yet one more.
    """
    nobody = sizes.Sized(1e-3, 1.0, 0.0, 100.0)
    look = sizes.learn_absence(0.0, 1000.0, nobody, 0.0)
    found = unheard([0.0, 1000, 1000, 1000], [0.0, look, 0.0, 0.0])
    assert found[1] == pytest.approx(10, rel=0.02)
    assert found[2:] == pytest.approx([51, 71], rel=0.02)
    assert sizes.learn_absence(look, 0.0, nobody, 0.0) < look


def rates_of(returned):
    """Rates of return after each class was measured as well as may be, of a thousand who had just paid."""
    precision, evidence = np.zeros((8, 2, 2)), np.zeros((8, 2))
    for m, rate in enumerate(returned, 1):
        precision[m], evidence[m] = np.diag([1e5, 1e-6]), [1e5 * rate, 0.0]
    return sizes.regress_rates(precision, evidence)[0][:, 0]


def test_how_users_leave_is_told_by_low_classes():
    """At a constant rate, a class that was never seen loses as much again in its time; if some leave at once, nobody.

    After 2, 4, 8 and 16 slots e^(-wait/20) are there; and 0.6 at any time.
    """
    constant = np.exp(-np.exp2(np.arange(1, 7)) / 20)
    found = rates_of(constant[:4])
    assert found[5] == pytest.approx(constant[4], rel=0.3)  # 0.25; 0.33 if all ways were as likely
    assert rates_of([0.6] * 4)[5:7] == pytest.approx([0.6, 0.6], rel=0.02)


def test_before_anything_is_seen_no_way_of_leaving_is_preferred(monkeypatch):
    """All three have the same weight: rates are their means, and less certain by what they differ by."""
    nothing = np.zeros((4, 2, 2)), np.zeros((4, 2))
    mean, covariance = sizes.regress_rates(*nothing)
    alone = []
    for one in sizes.LEAVING:
        monkeypatch.setattr(sizes, "LEAVING", (one,))
        alone.append(sizes.regress_rates(*nothing))
    assert mean == pytest.approx(np.mean([rates for rates, _ in alone], axis=0))
    between = np.var([rates[:, 0] for rates, _ in alone], axis=0)
    assert covariance[:, 0, 0] == pytest.approx(np.mean([each[:, 0, 0] for _, each in alone], axis=0) + between)


def test_fewer_than_nobody_is_noise():
    """However far below zero the counts are, the level of newcomers is not: the next slot would be a surprise."""
    inflow, _ = sizes.size_newcomers(Inflow(3.0, 1.0), NoisyCounts(np.full(20, -100.0), 1.0), EVEN)
    assert inflow.size == 0


def test_an_empty_class_keeps_its_rates():
    """Measurements of nobody do not wear out what is known."""
    precision, evidence = np.diag([100.0, 100.0]), np.array([30.0, 10.0])
    for _ in range(500):
        nobody = sizes.Sized(1e-3, 1.0, 0.0, 100.0)
        precision, evidence = sizes.learn_rates(precision, evidence, np.array([1e-3, 1e-3]), nobody, 1e-3, 1.0)
    assert np.linalg.solve(precision, evidence) == pytest.approx([0.3, 0.1], abs=0.01)


def test_nobody_is_in_a_class_who_did_not_enter_it():
    """However loud the noise, a class has at most twice those who can be in it."""
    sized = sizes.measure_size(NoisyCounts(np.full(20, 1e4), 1.0), EVEN, 10.0, 100.0, entered=12.0)
    assert sized.size <= 24


def test_longer_waits_leave_fewer():
    """Where the next class has lost some, users of a cell become fewer with every slot they wait."""
    precision, evidence = np.zeros((3, 2, 2)), np.zeros((3, 2))
    precision[1], evidence[1] = np.diag([1e6, 1.0]), np.array([0.9e6, 0.0])
    precision[2], evidence[2] = np.diag([1e6, 1.0]), np.array([0.5e6, 0.0])

    def active(age):
        cells = Cells.empty(20, 3)
        cells.size[0, 2], cells.age[0, 2] = 100.0, age
        return float(
            sizes.active_users(sizes.regress_rates(precision, evidence), cells, np.zeros(3), np.zeros(3)).active[0, 2]
        )

    assert active(0) > active(2) > active(4) > active(8)
    assert active(4) == pytest.approx(50, rel=0.02)


def test_absentees_widen_what_is_expected():
    """Who entered a class and was not there may come back: the number of its active users is less certain by that."""
    cells, none = cells_of(100.0, 50.0), np.zeros((3, 2, 2))
    few, many = (
        sizes.active_users(
            sizes.regress_rates(none, np.zeros((3, 2))), cells, np.array([0.0, missing, 0.0]), np.zeros(3)
        )
        for missing in (0.0, 1000.0)
    )
    absent = (sizes.ABSENT * 1000) ** 2
    assert many.absent.tolist() == pytest.approx([0, absent, 0])
    assert (many.alone(cells) - few.alone(cells)).sum() == pytest.approx(absent)
    assert (many.active == few.active).all()
    assert many.spread(cells, 1) == few.spread(cells, 1)


EVEN_LAW = Gaussians(np.full(4, 0.25), np.full(4, 1e-6))


def due(expected, seen, noise):
    """A class that was measured with noise of that variance."""
    sized = Sized(seen, noise, seen, noise)
    return Measured(expected, 100.0, EVEN_LAW, NoisyCounts(seen * EVEN_LAW.mean, 1.0), sized, EVEN_LAW, 0.0)


def test_days_on_which_all_are_more_active_are_told_by_those_who_were_measured():
    """Two classes with half as many again as expected: so have the others, nearly, and for this slot only."""
    after, now = activity.learn_activity(
        Activity(deviation=0.3**2), [due(1000.0, 1500.0, 100.0), due(500.0, 750.0, 100.0)]
    )
    assert now == pytest.approx(1.5, abs=0.02)
    assert after.level < 0.1


def test_rates_that_are_off_for_long_are_made_up_for():
    """Where twice as many as expected are seen in every slot, that becomes the level, and the deviations small."""
    one = Activity()
    for _ in range(200):
        one, now = activity.learn_activity(activity.age_activity(one, 1), [due(1000.0, 2000.0, 100.0)])
    assert one.level == pytest.approx(1.0, abs=0.05)
    assert now == pytest.approx(2.0, abs=0.05)
    assert one.deviation < 0.1**2


def test_noise_teaches_nothing():
    """Classes that drown in noise leave the factor where it is, and as uncertain as it was."""
    one = Activity()
    after, now = activity.learn_activity(one, [due(5.0, 500.0, 1e8)])
    assert now == pytest.approx(1.0, abs=1e-3)
    assert after.variance == pytest.approx(one.variance, rel=1e-3)
    assert after.deviation == pytest.approx(one.deviation, rel=1e-3)


def test_deviations_are_learned():
    """Activity that varies by 40 % from slot to slot is known to do so; a slot without measurement is as ever."""
    rng = np.random.default_rng(1)
    one, spread = Activity(), []
    for step in range(400):
        one, _ = activity.learn_activity(
            activity.age_activity(one, 1), [due(1000.0, 1000 * (1 + 0.4 * rng.normal()), 100.0)]
        )
        if step >= 200:
            spread.append((one.variance + one.deviation) ** 0.5)
    assert np.mean(spread) == pytest.approx(0.4, rel=0.3)
    assert activity.learn_activity(one, []) == (one, 1 + one.level)
