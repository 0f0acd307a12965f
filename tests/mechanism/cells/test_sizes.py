import numpy as np
import pytest

from dpi.mechanism.cells import sizes
from dpi.mechanism.cells.cells import Cells
from dpi.mechanism.cells.counts import Counts
from dpi.mechanism.cells.sizes import Inflow
from dpi.mechanism.filtering.gaussians import Gaussians

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
        inflow, sized = sizes.newcomers(inflow, Counts(rng.laplace(0, 1, 20), 1.0), EVEN)
        found.append(sized.size)
    assert np.mean(found) < 0.1 * 40**0.5


def test_a_trickle_is_heard_in_time():
    """Three newcomers a slot under noise of deviation six are told after two hundred slots."""
    rng = np.random.default_rng(5)
    inflow = Inflow()
    for _ in range(200):
        counts = np.bincount(rng.integers(0, 20, 3), minlength=20) + rng.laplace(0, 1, 20)
        inflow, _ = sizes.newcomers(inflow, Counts(counts, 1.0), EVEN)
    assert inflow.size == pytest.approx(3, abs=2)


def test_a_burst_is_believed_at_once():
    """A crowd out of all expectation counts as it was measured."""
    inflow, sized = sizes.newcomers(Inflow(3.0, 1.0), Counts(np.full(20, 100.0), 1.0), EVEN)
    assert sized.size == pytest.approx(2000, rel=0.01)
    assert inflow.size == pytest.approx(2000, rel=0.01)


def test_rates_are_learned_and_handed_up():
    """What class 1 shows is expected of the classes above until they show something else."""
    precision, evidence = np.zeros((4, 2, 2)), np.zeros((4, 2))
    for _ in range(20):
        seen = sizes.Sized(300.0, 1.0, 300.0, 1.0)
        precision[1], evidence[1] = sizes.learned(precision[1], evidence[1], np.array([1000.0, 10.0]), seen, 300.0, 1.0)
    rates = sizes.active(sizes.regressed(precision, evidence), Cells.empty(20, 4), np.zeros(4), np.zeros(4))
    assert rates.mean[1, 0] == pytest.approx(0.3, abs=0.02)
    assert rates.mean[3, 0] == pytest.approx(0.3, abs=0.05)


def test_one_strange_week_is_no_rate():
    """A shop is closed once: rates hardly move. Users who leave for good: they do, within some measurements."""
    paid, usual = np.array([1000.0, 10.0]), sizes.Sized(600.0, 1.0, 600.0, 400.0)
    precision, evidence = np.zeros((2, 2)), np.zeros(2)

    def rate():
        return sizes.regressed(np.array([[[0, 0], [0, 0]], precision]), np.array([[0, 0], evidence]))[0][1, 0]

    for _ in range(10):
        precision, evidence = sizes.learned(precision, evidence, paid, usual, 1000 * rate(), 1.0)
    closed = sizes.Sized(20.0, 1.0, 20.0, 400.0)
    precision, evidence = sizes.learned(precision, evidence, paid, closed, 1000 * rate(), 1.0)
    assert rate() == pytest.approx(0.6, abs=0.04)
    for _ in range(30):
        precision, evidence = sizes.learned(precision, evidence, paid, closed, 1000 * rate(), 1.0)
    assert rate() < 0.1


def test_who_was_absent_widens_totals_as_far_as_no_rate_was_heard():
    """A class whose rates are known says how many return; of one that drowns, all who were absent may be there."""
    precision, evidence = np.zeros((3, 2, 2)), np.zeros((3, 2))
    known = precision.copy(), evidence.copy()
    known[0][1:], known[1][1:] = np.diag([1e6, 1e6]), [6e5, 1e5]
    drowned, heard = (
        sizes.active(sizes.regressed(*each), Cells.empty(20, 3), np.array([0, 1000.0, 1000]), np.zeros(3)).unheard
        ** 0.5
        for each in ((precision, evidence), known)
    )
    assert (drowned[1:] >= 250).all()
    assert (heard[1:] < 5).all()
    assert drowned[0] == 0


def test_a_look_at_a_class_tells_how_many_of_the_missing_return():
    """A thousand are missing, and nobody was there, within ten: as few may be there now. A look fades with the next."""
    nobody = sizes.Sized(1e-3, 1.0, 0.0, 100.0)
    looked = np.array([0.0, sizes.looked(0.0, 1000.0, nobody, 0.0), 0.0])
    missing, rates = np.array([0.0, 1000.0, 1000.0]), sizes.regressed(np.zeros((3, 2, 2)), np.zeros((3, 2)))
    unheard = sizes.active(rates, Cells.empty(20, 3), missing, looked).unheard ** 0.5
    assert unheard[1] == pytest.approx(10, rel=0.02)
    assert unheard[2] >= 250
    assert sizes.looked(looked[1], 0.0, nobody, 0.0) < looked[1]


def test_fewer_than_nobody_is_noise():
    """However far below zero the counts are, the level of newcomers is not: the next slot would be a surprise."""
    inflow, _ = sizes.newcomers(Inflow(3.0, 1.0), Counts(np.full(20, -100.0), 1.0), EVEN)
    assert inflow.size == 0


def test_an_empty_class_keeps_its_rates():
    """Measurements of nobody do not wear out what is known."""
    precision, evidence = np.diag([100.0, 100.0]), np.array([30.0, 10.0])
    for _ in range(500):
        nobody = sizes.Sized(1e-3, 1.0, 0.0, 100.0)
        precision, evidence = sizes.learned(precision, evidence, np.array([1e-3, 1e-3]), nobody, 1e-3, 1.0)
    assert np.linalg.solve(precision, evidence) == pytest.approx([0.3, 0.1], abs=0.01)


def test_nobody_is_in_a_class_who_did_not_enter_it():
    """However loud the noise, a class has at most twice those who can be in it."""
    sized = sizes.measured(Counts(np.full(20, 1e4), 1.0), EVEN, 10.0, 100.0, entered=12.0)
    assert sized.size <= 24


def test_longer_waits_leave_fewer():
    """Where the next class has lost some, users of a cell become fewer with every slot they wait."""
    precision, evidence = np.zeros((3, 2, 2)), np.zeros((3, 2))
    precision[1], evidence[1] = np.diag([1e6, 1.0]), np.array([0.9e6, 0.0])
    precision[2], evidence[2] = np.diag([1e6, 1.0]), np.array([0.5e6, 0.0])

    def active(age):
        cells = Cells.empty(20, 3)
        cells.size[0, 2], cells.age[0, 2] = 100.0, age
        return float(sizes.active(sizes.regressed(precision, evidence), cells, np.zeros(3), np.zeros(3)).active[0, 2])

    assert active(0) > active(2) > active(4) > active(8)
    assert active(4) == pytest.approx(50, rel=0.02)


def test_absentees_widen_what_is_expected():
    """Who entered a class and was not there may come back: the number of its active users is less certain by that."""
    cells, none = cells_of(100.0, 50.0), np.zeros((3, 2, 2))
    few, many = (
        sizes.active(sizes.regressed(none, np.zeros((3, 2))), cells, np.array([0.0, missing, 0.0]), np.zeros(3))
        for missing in (0.0, 1000.0)
    )
    absent = (sizes.ABSENT * 1000) ** 2
    assert many.absent.tolist() == pytest.approx([0, absent, 0])
    assert (many.alone(cells) - few.alone(cells)).sum() == pytest.approx(absent)
    assert (many.active == few.active).all()
    assert many.spread(cells, 1) == few.spread(cells, 1)
