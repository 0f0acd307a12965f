"""States of the estimator of users by class, as bytes."""

import numpy as np
import pytest

from clocked_users import Users, play
from dpi.errors import StateError
from dpi.mechanism import class_estimator as estimator
from dpi.mechanism.class_estimator import UsersState

BINS, CLASSES = 7, 5


def visits(slots):
    """A crowd of which a tenth is new in every slot."""
    rng = np.random.default_rng(1)
    return [
        (np.r_[rng.choice(300, 200, False), 300 + 20 * s + np.arange(20)], rng.integers(0, BINS, 220)) for s in slots
    ]


@pytest.fixture(scope="module", params=[0, 3], ids=["no season", "a season"])
def state(request):
    """A state after a few slots."""
    *_, (last, _) = play(visits(range(12)), BINS, classes=CLASSES, season=request.param)
    return last


def test_bytes_come_back_bit_for_bit(state):
    """A state and the state of its bytes have the same bytes, before the first slot too."""
    for one in (state, UsersState.begun(BINS, CLASSES, 0), UsersState.begun(1, 2, 24)):
        data = estimator.to_bytes(one)
        again = estimator.from_bytes(data)
        assert estimator.to_bytes(again) == data
        assert (again.bins, again.classes, again.known, again.slot) == (one.bins, one.classes, one.known, one.slot)


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d[:-1],
        lambda d: d[:-1] + bytes([d[-1] ^ 1]),
        lambda d: d + b"x",
        lambda d: b"x" + d,
        lambda d: d[:20] + bytes([d[20] ^ 1]) + d[21:],
        lambda d: d[:60] + bytes([d[60] ^ 1]) + d[61:],
        lambda d: d[:5],
        lambda d: b"",
    ],
)
def test_damage_is_noticed(state, damage):
    """A byte that is missing, changed or added is refused."""
    with pytest.raises(StateError):
        estimator.from_bytes(damage(estimator.to_bytes(state)))


def test_it_says_what_it_is(state):
    """The first bytes tell such a state."""
    assert estimator.holds(estimator.to_bytes(state))
    assert not estimator.holds(b"dpi boosted state 1\n")


def test_arrays_are_read_only(state):
    """What a stored state holds cannot be changed."""
    again = estimator.from_bytes(estimator.to_bytes(state))
    for array in (again.laws.mean, again.laws.covariance, again.activity.ensemble.weights, again.measured):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


@pytest.mark.parametrize("season", [0, 3])
def test_a_resumed_estimator_goes_on_exactly(season):
    """A state from bytes asks for and computes what the state itself would have, bit for bit; the old one stays."""
    accounts, state = Users(BINS, CLASSES, seed=4), UsersState.begun(BINS, CLASSES, season)
    resumed = state
    for number, (users, values) in enumerate(visits(range(30))):
        asked = estimator.request_payments(state, number)
        assert asked == estimator.request_payments(resumed, number)
        groups, before = accounts.measure(users, values, asked), estimator.to_bytes(state)
        after, estimate = estimator.close_slot(state, number, 2.0, groups)
        assert estimator.to_bytes(state) == before
        resumed, other = estimator.close_slot(estimator.from_bytes(before), number, 2.0, groups)
        state = after
        assert estimator.to_bytes(resumed) == estimator.to_bytes(state)
        assert (estimate.pdf == other.pdf).all()
        assert (estimate.variance == other.variance).all()
        assert (estimate.total, estimate.total_variance) == (other.total, other.total_variance)


def test_its_size_is_that_of_bins():
    """750 bytes for each bin and 8 more for each phase, as `Boosted.divides` says, beside what users take."""
    bins, sizes = 500, []
    for more, season in ((1, 0), (2, 0), (2, 24)):
        slots = [(np.arange(100), np.arange(100) % (more * bins)) for _ in range(60)]
        *_, (last, _) = play(slots, more * bins, season=season)
        sizes.append(len(estimator.to_bytes(last)))
    assert (sizes[1] - sizes[0]) / bins == pytest.approx(750, rel=0.1)
    assert (sizes[2] - sizes[1]) / (2 * bins * 24) == pytest.approx(8, rel=0.1)
