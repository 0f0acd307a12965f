"""What every mechanism must do, as a list of small checks to run on one's own.

A mechanism is given made-up histograms alone. Passing is no proof of privacy: that is the argument in the docstring of
its `measure`. Failing is a proof of the contrary, or of a stream that could not be resumed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator
from typing import TypeVar, cast

import numpy as np

from dpi.budget.class_allocation import ClassAllocation
from dpi.budget.epsilon import Epsilon
from dpi.budget.ledger import Ledger
from dpi.domain import Categories, Domain
from dpi.errors import OptionError, StateError
from dpi.events.rows import Rows
from dpi.exact.integers import GRAINS, Integers
from dpi.histogram.compression import Histogram
from dpi.mechanism.base import Estimate, Mechanism
from dpi.noise import UnsafeSeededSource
from dpi.noise.laplace import LARGEST_VALUE
from dpi.store import MemoryStore
from dpi.stream import Stream
from dpi.testing._checking import refused, require, run_checks
from dpi.testing.laws import law_of

State = TypeVar("State")
MechanismCheck = Callable[[Mechanism[State], Domain], None]

ROUNDING = 1e-9
"""Allowance for laws whose likelihoods are floats; a rational one has none."""
_SLOT, _LARGE = Epsilon.at_most("0.5"), Epsilon.at_most(1024)
_SEEDS = 64


def check_mechanism(mechanism: Mechanism[State], domain: Domain | None = None) -> None:
    """Run `MECHANISM_CHECKS` on a mechanism; raises `AssertionError` that names the check and says what is wrong.

    >>> from dpi.mechanism.boosted import Boosted
    >>> check_mechanism(Boosted())
    """
    domain = Categories(["a", "b", "c", "d"], other=None) if domain is None else domain
    run_checks(MECHANISM_CHECKS, cast("Mechanism[object]", mechanism), domain)  # no check looks into a state


def its_options_are_public_json(mechanism: Mechanism[State], domain: Domain) -> None:
    """Check that certificates can state its name and options, the same ones each time."""
    require(mechanism.name, "`name` is empty: certificates need one.")
    text = json.dumps(mechanism.parameters, sort_keys=True, allow_nan=False)
    require(json.dumps(mechanism.parameters, sort_keys=True) == text, "`parameters` change from one call to the next.")


def the_same_seed_gives_the_same_measurement(mechanism: Mechanism[State], domain: Domain) -> None:
    """Check that all randomness is the source's, and that a measurement states its slot and its budget."""
    state, histogram = mechanism.initial(domain), _histogram(_crowd(domain))
    one, other = (mechanism.measure(state, histogram, _SLOT, 7, UnsafeSeededSource(3)) for _ in range(2))
    require(np.array_equal(one.values, other.values), "two measurements with one seed differ.")
    require((one.slot, one.epsilon) == (7, _SLOT), "a measurement must carry the slot and the budget it was made with.")
    require(one.values.dtype == np.int64 and one.values.ndim == 1, "values must be a vector of 64-bit whole numbers.")


def nothing_is_seen_without_noise(mechanism: Mechanism[State], domain: Domain) -> None:
    """Check that whatever differs between two histograms differs between seeds, too.

    A false alarm needs a mechanism that draws one and the same measurement from 64 seeds on each of them: no chance
    for noise of half a nat.
    """
    state, crowd = mechanism.initial(domain), _crowd(domain)
    fewer = crowd.copy()
    fewer[0] -= GRAINS
    seen = [
        {
            mechanism.measure(state, _histogram(grains), _SLOT, 0, UnsafeSeededSource(seed)).values.tobytes()
            for seed in range(_SEEDS)
        }
        for grains in (crowd, fewer)
    ]
    require(
        len(seen[0]) > 1 or seen[0] == seen[1],
        "histograms of neighbours give different measurements, and no seed changes them: no noise is added.",
    )


def nothing_is_seen_without_budget(mechanism: Mechanism[State], domain: Domain) -> None:
    """Check that with ε = 0 the measurement is empty, whatever the histogram holds, and that it has an estimate."""
    unreadable = Histogram(np.array(["not to be looked at"] * domain.size, dtype=object), GRAINS)
    state = _grown(mechanism, domain)
    measurement = mechanism.measure(state, unreadable, Epsilon(0), 3, UnsafeSeededSource(0))
    require(measurement.values.size == 0, "without budget something was measured.")
    require(measurement.epsilon.units == 0, "a measurement without budget says that it had some.")
    for before in (state, mechanism.initial(domain)):
        _usable(mechanism.update(before, measurement)[1], domain)


def the_size_of_a_measurement_is_public(mechanism: Mechanism[State], domain: Domain) -> None:
    """Check that it has as many values for nobody as for a crowd: what is written has one size, whatever was drawn."""
    state = mechanism.initial(domain)
    sizes = {
        mechanism.measure(state, _histogram(grains), _SLOT, 0, UnsafeSeededSource(seed)).values.size
        for seed in range(3)
        for grains in _extremes(domain)
    }
    require(len(sizes) == 1, "how many values are measured depends on the histogram, or on the noise.")


def an_empty_slot_is_released(mechanism: Mechanism[State], domain: Domain) -> None:
    """Check that slots without anybody, first or later, are measured and estimated like any other."""
    source, state = UnsafeSeededSource(5), mechanism.initial(domain)
    for slot, grains in enumerate((_nobody(domain), _crowd(domain), _nobody(domain))):
        state, estimate = mechanism.update(state, mechanism.measure(state, _histogram(grains), _SLOT, slot, source))
        _usable(estimate, domain)


def extreme_histograms_never_raise(mechanism: Mechanism[State], domain: Domain) -> None:
    """Check that estimates of nobody, of everybody in one bin, of sums near the largest number are PDFs, at any budget.

    A step that raises depends on the data: whoever sees that there is no release has learnt something.
    """
    for epsilon in (Epsilon(1), Epsilon.at_most("1e-6"), _SLOT, _LARGE):
        source, state = UnsafeSeededSource(2), mechanism.initial(domain)
        for slot, grains in enumerate(_extremes(domain)):
            try:
                measurement = mechanism.measure(state, _histogram(grains), epsilon, slot, source)
                state, estimate = mechanism.update(state, measurement)
            except Exception as error:
                raise AssertionError(f"a histogram raised {type(error).__name__}: {error}") from error
            _usable(estimate, domain)


def an_update_is_pure(mechanism: Mechanism[State], domain: Domain) -> None:
    """Check that the same state and measurement give the same bytes and estimate, and that neither is changed."""
    state = _grown(mechanism, domain)
    before = mechanism.to_bytes(state)
    measurement = mechanism.measure(state, _histogram(_crowd(domain)), _SLOT, 3, UnsafeSeededSource(8))
    values = measurement.values.copy()
    first, one = mechanism.update(state, measurement)
    second, other = mechanism.update(state, measurement)
    require(mechanism.to_bytes(first) == mechanism.to_bytes(second), "two updates of one state give two states.")
    require(_same(one, other), "two updates with one measurement give two estimates.")
    require(mechanism.to_bytes(state) == before, "an update has changed the state it was given.")
    require(np.array_equal(measurement.values, values), "an update has changed the measurement it was given.")


def a_resumed_stream_is_the_uninterrupted_one(mechanism: Mechanism[State], domain: Domain) -> None:
    """Check that a state that is stored and read back after every slot, also an unpaid one, leads to equal bytes."""
    source = UnsafeSeededSource(4)
    state = stored = mechanism.initial(domain)
    for slot, grains in enumerate((_crowd(domain), _nobody(domain), _crowd(domain), _crowd(domain)[::-1].copy())):
        epsilon = Epsilon(0) if slot == 2 else _SLOT
        measurement = mechanism.measure(state, _histogram(grains), epsilon, slot, source)
        stored = mechanism.from_bytes(domain, mechanism.to_bytes(stored))
        state, one = mechanism.update(state, measurement)
        stored, other = mechanism.update(stored, measurement)
        require(_same(one, other), "after a round trip through bytes the estimate is another one.")
        require(
            mechanism.to_bytes(state) == mechanism.to_bytes(stored),
            "after a round trip through bytes the state is another one.",
        )


def a_damaged_state_is_refused(mechanism: Mechanism[State], domain: Domain) -> None:
    """Check that a flipped bit, a cut, an addition, and a state of another domain raise `StateError`."""
    data = mechanism.to_bytes(_grown(mechanism, domain))
    for at in np.linspace(0, len(data) - 1, 40).astype(int).tolist():
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        for broken in (bytes(flipped), data[:at]):
            with refused(StateError, "a state that was damaged is taken for a whole one."):
                mechanism.from_bytes(domain, broken)
    with refused(StateError, "a state with something after its end is taken for a whole one."):
        mechanism.from_bytes(domain, data + b"\0")
    other = Categories([f"value {number}" for number in range(domain.size + 1)], other=None)
    with refused(StateError, "a state of another domain is taken for one of this."):
        mechanism.from_bytes(other, data)


def a_digest_is_that_of_the_rest(mechanism: Mechanism[State], domain: Domain) -> None:
    """Check what `digested` says of a state's bytes, on which stores rely instead of digesting them once more."""
    states = [_grown(mechanism, domain), *([mechanism.initial(domain, 4)] if mechanism.by_class else [])]
    for data in map(mechanism.to_bytes, states):
        first = mechanism.digested(data)
        said, digest = data[max(first - 32, 0) : first], hashlib.blake2b(data[first:], digest_size=32).digest()
        require(first == 0 or said == digest, "the digest in a state's bytes is not that of the bytes after it.")


def a_stream_keeps_its_budget(mechanism: Mechanism[State], domain: Domain) -> None:
    """Check that a stream with accounts releases every slot, also once ε is spent, and that nobody loses more."""
    store, last = MemoryStore(), domain.size - 1
    for _ in range(2):  # the second one goes on where the first one stopped
        stream = Stream(
            domain=domain,
            epsilon=1,
            budget=Ledger(per_slot="0.4"),
            mechanism=cast("Mechanism[object]", mechanism),
            store=store,
            unsafe_source=UnsafeSeededSource(6),
        )
        for users, bins in ((["ada", "bob"], [0, last]), ([], []), (["ada", "ada"], [0, last])):
            codes = np.array(bins, dtype=np.int64)
            release = stream.driver.close(stream.next_slot, Rows.of(users, codes, store.key))
            require(0 <= release.epsilon_spent <= 1, "a stream says that more than ε was spent.")
    require(len([*store.releases("")]) == 6, "a slot was not released.")


def neighbours_lose_at_most_their_weight(mechanism: Mechanism[State], domain: Domain) -> None:
    """Check by its law (`law`, see `dpi_audit`) that no output is more than e^(ε·w) times as likely with one user.

    Of a mechanism without a law nothing is checked here; `dpi_audit` can be run on it blindly.
    """
    for state in (mechanism.initial(domain), _grown(mechanism, domain)):
        for *pair, weight in _neighbours(domain):
            if mechanism.whole_weights and weight not in (0, GRAINS):
                continue
            for epsilon in (Epsilon.at_most("0.05"), _SLOT, Epsilon.at_most(8)):
                try:
                    one, other = (law_of(mechanism, state, _histogram(grains), epsilon) for grains in pair)
                except OptionError:
                    return
                allowed = epsilon.fraction * weight / GRAINS
                for loss in (one.worst(other).loss, other.worst(one).loss):
                    slack = ROUNDING * (1 + float(allowed)) if isinstance(loss, float) else 0
                    require(loss <= allowed + slack, "an output tells more about one user than ε times their weight.")


def classes_are_asked_for_public_shares(mechanism: Mechanism[State], domain: Domain) -> None:
    """Check that each class that is due has a share in steps and a group, which a stored state gives again.

    Classes are crowded or empty in turn: one in which nobody is, is asked and measured all the same.
    """
    if not mechanism.by_class:
        return
    state, source, allocation = mechanism.initial(domain, 5), UnsafeSeededSource(4), ClassAllocation(_LARGE, top=4)
    for slot in range(20):
        asked = mechanism.request_payments(state, slot)
        again = mechanism.request_payments(mechanism.from_bytes(domain, mechanism.to_bytes(state)), slot)
        require(asked == again, "what a stored state asks is not what the state asks.")
        try:
            allocation.draw_classes(slot, asked)
        except OptionError as error:
            require(False, f"what is asked cannot be: {error}")
        groups = allocation.groups
        grains = np.concatenate([_crowd(domain) if (slot + row) % 3 else _nobody(domain) for row in range(len(groups))])
        histogram = Histogram(grains, GRAINS, groups=len(groups))
        measurement = mechanism.measure_classes(state, histogram, groups, slot, source)
        sizes = (measurement.values.size, measurement.groups)
        require(sizes == (grains.size, groups), "a measurement by class lacks a group, or its budgets.")
        state, estimate = mechanism.update(state, measurement)
        _usable(estimate, domain)


MECHANISM_CHECKS: tuple[MechanismCheck[object], ...] = (
    its_options_are_public_json,
    the_same_seed_gives_the_same_measurement,
    nothing_is_seen_without_noise,
    nothing_is_seen_without_budget,
    the_size_of_a_measurement_is_public,
    an_empty_slot_is_released,
    extreme_histograms_never_raise,
    an_update_is_pure,
    a_resumed_stream_is_the_uninterrupted_one,
    a_damaged_state_is_refused,
    a_digest_is_that_of_the_rest,
    a_stream_keeps_its_budget,
    neighbours_lose_at_most_their_weight,
    classes_are_asked_for_public_shares,
)


def _histogram(grains: Integers) -> Histogram:
    return Histogram(grains, GRAINS)


def _nobody(domain: Domain) -> Integers:
    return np.zeros(domain.size, dtype=np.int64)


def _crowd(domain: Domain) -> Integers:
    """Return a histogram with more users in the first bins than in the last ones."""
    return (40 // (1 + np.arange(domain.size, dtype=np.int64)) + 1) * GRAINS


def _extremes(domain: Domain) -> Iterator[Integers]:
    yield _nobody(domain)
    for one_bin in (1, GRAINS, LARGEST_VALUE // domain.size):
        for bin_ in (0, domain.size - 1):
            grains = _nobody(domain)
            grains[bin_] = one_bin
            yield grains
    yield np.full(domain.size, LARGEST_VALUE // domain.size, dtype=np.int64)
    yield _crowd(domain)


def _neighbours(domain: Domain) -> Iterator[tuple[Integers, Integers, int]]:
    """Yield histograms with and without one user, and the user's grains: a unit or a part, spread or in one bin."""
    spread = [GRAINS // 2, GRAINS // 2][: domain.size]
    for added in ([GRAINS], spread, [GRAINS // 3], [1]):
        own = np.pad(np.array(added, dtype=np.int64), (0, domain.size - len(added)))
        for others in (_nobody(domain), _crowd(domain)):
            yield others + own, others, sum(added)


def _grown(mechanism: Mechanism[State], domain: Domain) -> State:
    """Return a state after three slots."""
    state, source = mechanism.initial(domain), UnsafeSeededSource(1)
    for slot in range(3):
        state, _ = mechanism.update(state, mechanism.measure(state, _histogram(_crowd(domain)), _SLOT, slot, source))
    return state


def _usable(estimate: Estimate, domain: Domain) -> None:
    """Check that an estimate is a PDF with finite moments."""
    shapes = {estimate.pdf.shape, estimate.variance.shape, estimate.skew.shape}
    require(shapes == {(domain.size,)}, "an estimate has another number of bins than its domain.")
    require((estimate.pdf > 0).all() and abs(estimate.pdf.sum() - 1) < ROUNDING, "an estimate is no positive PDF.")
    require(np.isfinite(estimate.variance).all() and (estimate.variance >= 0).all(), "a variance is below 0.")
    require(((estimate.skew >= 0) & (estimate.skew <= 1 + ROUNDING)).all(), "a skew lies outside [0, 1].")
    require(not np.isinf(estimate.total), "a total is infinite.")


def _same(one: Estimate, other: Estimate) -> bool:
    """Return whether two estimates agree bit for bit."""
    return all(
        np.array_equal(np.asarray(getattr(one, field.name)), np.asarray(getattr(other, field.name)), equal_nan=True)
        if getattr(one, field.name) is not None
        else getattr(other, field.name) is None
        for field in dataclasses.fields(Estimate)
    )
