"""What every baseline must do: one suite, run on each mechanism."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from dpi.errors import OptionError
from dpi.noise import UnsafeSeededSource
from dpi_research.baselines import Baseline, user_level
from dpi_research.baselines.base import Concentrated

Make = Callable[[int], Baseline]
"""A mechanism with a seeded source."""

CHECKS: list[Callable[[Make], None]] = []


def check(function: Callable[[Make], None]) -> Callable[[Make], None]:
    """Make a function part of the suite."""
    CHECKS.append(function)
    return function


def check_baseline(make: Make) -> None:
    """Run the whole suite."""
    for one in CHECKS:
        one(make)


def _stream(mechanism: Baseline, slots: int) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    most = max(9, getattr(mechanism, "users", 0))  # in the local model nothing is heard of a few among many
    return [rng.integers(0, most, mechanism.bins) for _ in range(slots)]


def _play(mechanism: Baseline, stream: list[np.ndarray]) -> np.ndarray:
    return np.stack([mechanism.update(counts) for counts in stream])


def _length(mechanism: Baseline) -> int:
    return mechanism.warm_up + min(6, (mechanism.horizon or 10**9) - mechanism.warm_up)


@check
def every_slot_is_released(make: Make) -> None:
    """One finite number a bin in every slot after the warm-up, NaN before; empty slots too."""
    mechanism = make(0)
    releases = _play(mechanism, [np.zeros(mechanism.bins, dtype=int)] * _length(mechanism))
    assert releases.shape == (_length(mechanism), mechanism.bins)
    assert np.isnan(releases[: mechanism.warm_up]).all()
    assert np.isfinite(releases[mechanism.warm_up :]).all()


@check
def the_seed_decides(make: Make) -> None:
    """Equal seeds and inputs give equal releases; other seeds others: all randomness comes from the source."""
    stream = _stream(make(0), _length(make(0)))
    one, same, other = (_play(make(seed), stream) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other, equal_nan=True)


@check
def state_can_be_carried_on(make: Make) -> None:
    """A pickled or copied mechanism goes on as if nothing had happened."""
    length = _length(make(0))
    for middle in {1, length // 2, max(1, length - 2)}:
        mechanism = make(7)
        stream = _stream(mechanism, length)
        _play(mechanism, stream[:middle])
        others = [pickle.loads(pickle.dumps(mechanism)), copy.deepcopy(mechanism)]  # noqa: S301 - our own bytes
        expected = _play(mechanism, stream[middle:])
        for other in others:
            np.testing.assert_array_equal(_play(other, stream[middle:]), expected)
            assert other.memory == mechanism.memory


@check
def replacing_epsilon_starts_afresh(make: Make) -> None:
    """`dataclasses.replace` gives a mechanism with the other ε and no memory of what was seen."""
    mechanism = make(0)
    _play(mechanism, _stream(mechanism, _length(mechanism)))
    fresh = replace(mechanism, epsilon=mechanism.rate * 2, unsafe_source=UnsafeSeededSource(3))
    assert (fresh.slot, fresh.rate) == (0, 2 * mechanism.rate)
    again = replace(make(1), epsilon=mechanism.rate * 2, unsafe_source=UnsafeSeededSource(3))
    stream = _stream(mechanism, _length(mechanism))
    np.testing.assert_array_equal(_play(fresh, stream), _play(again, stream))


@check
def bad_values_are_read_by_themselves(make: Make) -> None:
    """NaN, infinities and negative numbers raise nothing; a wrong shape is refused and costs no slot."""
    mechanism = make(0)
    for value in (math.nan, math.inf, -math.inf, -5.0):
        assert mechanism.update(np.full(mechanism.bins, value)).shape == (mechanism.bins,)
        if mechanism.horizon is not None and mechanism.slot >= mechanism.horizon:
            break
    slot = mechanism.slot
    with pytest.raises(OptionError):
        mechanism.update(np.zeros(mechanism.bins + 1))
    assert mechanism.slot == slot


@check
def the_horizon_holds(make: Make) -> None:
    """A mechanism for a declared number of slots refuses the next one, and loses nothing more."""
    mechanism = make(0)
    if mechanism.horizon is None:
        return
    for counts in _stream(mechanism, mechanism.horizon):
        mechanism.update(counts)
    with pytest.raises(OptionError, match="all are released"):
        mechanism.update(np.zeros(mechanism.bins, dtype=int))
    last = mechanism.horizon
    assert mechanism.user_epsilon(last) == mechanism.user_epsilon(last + 10**6)


@check
def the_loss_grows(make: Make) -> None:
    """`user_epsilon` never falls in t, is at least linear in records, at δ at most the pure one, and 0 at the start."""
    mechanism = make(0)
    times = [t for t in (1, 2, 3, 7, 8, 20, 50) if mechanism.horizon is None or t <= mechanism.horizon]
    losses = [mechanism.user_epsilon(t) for t in times]
    assert all(a <= b for a, b in pairwise(losses))
    assert mechanism.user_epsilon(0) == 0
    if mechanism.protects_users:
        assert mechanism.user_epsilon(10**6, 1000) <= float(mechanism.rate)
    else:
        assert mechanism.user_epsilon(times[-1], 3) >= 3 * losses[-1] * (1 - 1e-12)
    assert mechanism.user_epsilon(times[-1], 1, delta=1e-4) <= losses[-1] * (1 + 1e-12)
    for slots, records in ((-1, 1), (1, 0)):
        with pytest.raises(OptionError):
            mechanism.user_epsilon(slots, records)


@check
def one_record_costs_at_most_epsilon(make: Make) -> None:
    """`event_epsilon` is at most ε, and no user with a record a slot loses more than t times it, where it is finite."""
    mechanism = make(0)
    assert 0 <= mechanism.event_epsilon <= float(mechanism.rate)
    for t in (1, 5, 33):
        loss = mechanism.user_epsilon(t)
        assert not math.isfinite(loss) or loss <= t * mechanism.event_epsilon * (1 + 1e-12)


@check
def the_facts_are_complete(make: Make) -> None:
    """Every public fact is filled in, the variance is positive where known, and memory is a number."""
    mechanism = make(0)
    assert all(vars(mechanism.facts).values())
    assert type(mechanism.memory) is int
    _play(mechanism, _stream(mechanism, _length(mechanism)))
    variance = mechanism.variance(mechanism.slot)
    assert variance is None or variance > 0
    assert mechanism.memory >= 0
    assert repr(mechanism).startswith(type(mechanism).__name__)
    assert "source" not in repr(mechanism)


@check
def bad_options_are_refused(make: Make) -> None:
    """An ε of 0, below, above 1024 or not a number, and no bins, are refused with `OptionError`."""
    for epsilon in (0, -1, 2000, math.nan, "much"):
        with pytest.raises(OptionError, match="epsilon"):
            replace(make(0), epsilon=epsilon)
    with pytest.raises(OptionError, match="bins"):
        replace(make(0), bins=0)


@check
def a_cap_makes_it_protect_a_user(make: Make) -> None:
    """Behind `user_level` one record costs at most ε/cap, and a user's loss stays at ε for ever."""
    mechanism = make(0)
    capped = user_level(mechanism, epsilon=mechanism.rate, cap=2)
    if not isinstance(mechanism, Concentrated):
        assert capped.mechanism.rate * mechanism.record_share == mechanism.rate / 2
    assert capped.mechanism.event_epsilon * 2 <= float(capped.epsilon)
    assert capped.user_epsilon(10**5, records=50) <= float(Fraction(capped.epsilon))
    assert (capped.delta > 0) == (mechanism.delta > 0)
    if isinstance(mechanism, Concentrated):
        assert capped.delta <= 1.01 * mechanism.delta
    assert capped.cap * capped.mechanism.record_share * capped.mechanism.rate <= capped.epsilon
    assert capped.update([1, 1, 1, 2], [0, 0, 0, 0]).shape == (mechanism.bins,)
