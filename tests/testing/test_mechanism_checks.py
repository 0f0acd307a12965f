"""Each check of a mechanism finds what it is there for: mechanisms that are wrong in one way."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

import dpi
from dpi.budget.epsilon import Epsilon
from dpi.exact.integers import GRAINS
from dpi.mechanism.base import Measurement
from dpi.mechanism.boosted import Boosted
from dpi.noise import UnsafeSeededSource
from dpi.testing import MECHANISM_CHECKS, check_mechanism
from dpi.testing._checking import run_checks
from dpi.testing.class_sums import ClassSums
from dpi.testing.laws import Laplace

DOMAIN = dpi.Categories(["a", "b", "c", "d"], other=None)
SEEN = []


def unseeded(self, state, histogram, epsilon, slot, source):
    """Noise of its own, from bits that nobody can repeat."""
    own = UnsafeSeededSource(int.from_bytes(os.urandom(8), "big"))
    return Boosted.measure(self, state, histogram, epsilon, slot, own)


def noiseless(self, state, histogram, epsilon, slot, source):
    """The grains, to which nothing is added."""
    return Measurement(slot, epsilon, histogram.grains if epsilon.units else np.empty(0, dtype=np.int64))


def peeping(self, state, histogram, epsilon, slot, source):
    """A look at slots that were not paid for, with a budget of its own."""
    return Boosted.measure(self, state, histogram, epsilon if epsilon.units else Epsilon(1), slot, source)


def skipping(self, state, histogram, epsilon, slot, source):
    """Nothing, if the histogram is empty: that can be seen."""
    if epsilon.units and not histogram.grains.any():
        return Measurement(slot, epsilon, np.empty(0, dtype=np.int64))
    return Boosted.measure(self, state, histogram, epsilon, slot, source)


def hopeful(self, state, measurement):
    """A PDF with holes where nothing was measured: divided by what may be nothing."""
    state, estimate = Boosted.update(self, state, measurement)
    values = np.maximum(measurement.values, 0)
    with np.errstate(all="ignore"):
        return state, replace(estimate, pdf=values / values.sum()) if values.size else estimate


def narrow(self, state, histogram, epsilon, slot, source):
    """No count as far as sums go: a histogram is refused by its data."""
    if epsilon.units and int(histogram.grains.max()) > 1 << 50:
        raise OverflowError("too many users")
    return Boosted.measure(self, state, histogram, epsilon, slot, source)


def remembering(self, state, measurement):
    """Another one at every call: something is kept beside the state."""
    SEEN.append(None)
    state, estimate = Boosted.update(self, state, measurement)
    return replace(state, uniform=float(len(SEEN))), estimate


def forgetful(self, domain, data):
    """A part of the state, without the weights."""
    state = Boosted.from_bytes(self, domain, data)
    return replace(state, log_weights=np.zeros_like(state.log_weights))


def trusting(self, domain, data):
    """A state of any bytes: it begins anew if they are damaged."""
    try:
        return Boosted.from_bytes(self, domain, data)
    except dpi.StateError:
        return self.initial(domain)


def refusing(self, state, histogram, epsilon, slot, source):
    """No users of part of a weight, which a ledger gives: that is said too late."""
    if epsilon.units and int(histogram.grains.sum()) % GRAINS:
        raise ValueError("parts of users")
    return Boosted.measure(self, state, histogram, epsilon, slot, source)


def broken(base=Boosted, **methods):
    """Return a mechanism that does one thing in another way."""
    return type("Broken", (base,), methods)()


CROWDED = broken(ClassSums, request_payments=lambda self, *given: ClassSums.request_payments(self, *given) * 2)
"""Asks every class twice."""

BROKEN = {
    "its_options_are_public_json": broken(parameters=property(lambda self: {"drifts": object()})),
    "the_same_seed_gives_the_same_measurement": broken(measure=unseeded),
    "nothing_is_seen_without_noise": broken(measure=noiseless),
    "nothing_is_seen_without_budget": broken(measure=peeping),
    "the_size_of_a_measurement_is_public": broken(measure=skipping),
    "an_empty_slot_is_released": broken(update=hopeful),
    "extreme_histograms_never_raise": broken(measure=narrow),
    "an_update_is_pure": broken(update=remembering),
    "a_resumed_stream_is_the_uninterrupted_one": broken(from_bytes=forgetful),
    "a_damaged_state_is_refused": broken(from_bytes=trusting),
    "a_digest_is_that_of_the_rest": broken(digested=lambda self, data: 40),  # where none is
    "a_stream_keeps_its_budget": broken(measure=refusing),
    "neighbours_lose_at_most_their_weight": broken(
        law=lambda self, state, histogram, epsilon: Laplace(histogram.grains, epsilon.scale / 2)  # half the noise
    ),
    "classes_are_asked_for_public_shares": CROWDED,
}


@pytest.mark.parametrize("check", MECHANISM_CHECKS, ids=lambda check: check.__name__)
def test_a_mechanism_that_is_wrong_in_one_way_is_found(check):
    """The check that is there for a fault fails on it, by name and with a sentence."""
    with pytest.raises(AssertionError, match=rf"^{check.__name__}: .+"):
        run_checks([check], BROKEN[check.__name__], DOMAIN)


def test_the_suite_says_which_check_fails():
    """All checks are run, the last one too."""
    with pytest.raises(AssertionError, match=r"^classes_are_asked_for_public_shares: .*each once"):
        check_mechanism(CROWDED, DOMAIN)


def test_a_sound_mechanism_passes():
    """The one that all of them are made of is not found wrong, on a domain of one's own."""
    check_mechanism(Boosted(), dpi.Bins([0, 1, 2]))
