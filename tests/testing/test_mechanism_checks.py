"""Each check of a mechanism finds what it is there for: mechanisms that are wrong in one way."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import numpy as np
import pytest

import dpi
from dpi.budget.epsilon import Epsilon
from dpi.exact.integers import GRAINS
from dpi.mechanism.base import Measurement
from dpi.noise import UnsafeSeededSource
from dpi.testing import MECHANISM_CHECKS, check_mechanism
from dpi.testing._checking import run_checks
from dpi.testing.class_sums import ClassSums
from dpi.testing.laws import Laplace

DOMAIN = dpi.Categories(["a", "b", "c", "d"], other=None)
SEEN = []


@dataclass(frozen=True)
class Unnamed(dpi.Boosted):
    """Has options that no certificate can state."""

    @property
    def parameters(self):
        """No JSON."""
        return {"drifts": object()}


@dataclass(frozen=True)
class Unseeded(dpi.Boosted):
    """Has noise of its own."""

    def measure(self, state, histogram, epsilon, slot, source):
        """With bits that nobody can repeat."""
        own = UnsafeSeededSource(int.from_bytes(os.urandom(8), "big"))
        return super().measure(state, histogram, epsilon, slot, own)


@dataclass(frozen=True)
class Noiseless(dpi.Boosted):
    """Adds nothing."""

    def measure(self, state, histogram, epsilon, slot, source):
        """The grains."""
        values = histogram.grains if epsilon.units else np.empty(0, dtype=np.int64)
        return Measurement(slot, epsilon, values)


@dataclass(frozen=True)
class Peeping(dpi.Boosted):
    """Looks at slots that were not paid for."""

    def measure(self, state, histogram, epsilon, slot, source):
        """With a budget of its own."""
        return super().measure(state, histogram, epsilon if epsilon.units else Epsilon(1), slot, source)


@dataclass(frozen=True)
class Skipping(dpi.Boosted):
    """Measures nothing where there is nobody."""

    def measure(self, state, histogram, epsilon, slot, source):
        """Nothing, if the histogram is empty: that can be seen."""
        if epsilon.units and not histogram.grains.any():
            return Measurement(slot, epsilon, np.empty(0, dtype=np.int64))
        return super().measure(state, histogram, epsilon, slot, source)


@dataclass(frozen=True)
class Hopeful(dpi.Boosted):
    """Divides by what may be nothing."""

    def update(self, state, measurement):
        """A PDF with holes where nothing was measured."""
        state, estimate = super().update(state, measurement)
        values = np.maximum(measurement.values, 0)
        with np.errstate(all="ignore"):
            return state, replace(estimate, pdf=values / values.sum()) if values.size else estimate


@dataclass(frozen=True)
class Narrow(dpi.Boosted):
    """Cannot count as far as sums go."""

    def measure(self, state, histogram, epsilon, slot, source):
        """Refuses a histogram by its data."""
        if epsilon.units and int(histogram.grains.max()) > 1 << 50:
            raise OverflowError("too many users")
        return super().measure(state, histogram, epsilon, slot, source)


@dataclass(frozen=True)
class Remembering(dpi.Boosted):
    """Keeps something beside its state."""

    def update(self, state, measurement):
        """Another one at every call."""
        SEEN.append(None)
        state, estimate = super().update(state, measurement)
        return replace(state, uniform=float(len(SEEN))), estimate


@dataclass(frozen=True)
class Forgetful(dpi.Boosted):
    """Stores a part of its state."""

    def from_bytes(self, domain, data):
        """Without the weights."""
        state = super().from_bytes(domain, data)
        return replace(state, log_weights=np.zeros_like(state.log_weights))


@dataclass(frozen=True)
class Trusting(dpi.Boosted):
    """Takes any bytes."""

    def from_bytes(self, domain, data):
        """Begins anew if they are damaged."""
        try:
            return super().from_bytes(domain, data)
        except dpi.StateError:
            return self.initial(domain)


@dataclass(frozen=True)
class Misleading(dpi.Boosted):
    """Says that a digest is in its states where none is."""

    def digested(self, data):
        """Whatever comes first."""
        return 40


@dataclass(frozen=True)
class Boasting(dpi.Boosted):
    """Has a law with half the noise it should have."""

    def law(self, state, histogram, epsilon):
        """Twice the loss."""
        return Laplace(histogram.grains, epsilon.scale / 2)


@dataclass(frozen=True)
class Refusing(dpi.Boosted):
    """Does not want users of part of a weight, which a ledger gives, and says so too late."""

    def measure(self, state, histogram, epsilon, slot, source):
        """Refuses a histogram by its data."""
        if epsilon.units and int(histogram.grains.sum()) % GRAINS:
            raise ValueError("parts of users")
        return super().measure(state, histogram, epsilon, slot, source)


@dataclass(frozen=True)
class Sparing(ClassSums):
    """Asks newcomers alone, whichever classes are due."""

    def shares(self, state, slot):
        """One share."""
        return super().shares(state, slot)[:1]


BROKEN = {
    "its_options_are_public_json": Unnamed(),
    "the_same_seed_gives_the_same_measurement": Unseeded(),
    "nothing_is_seen_without_noise": Noiseless(),
    "nothing_is_seen_without_budget": Peeping(),
    "the_size_of_a_measurement_is_public": Skipping(),
    "an_empty_slot_is_released": Hopeful(),
    "extreme_histograms_never_raise": Narrow(),
    "an_update_is_pure": Remembering(),
    "a_resumed_stream_is_the_uninterrupted_one": Forgetful(),
    "a_damaged_state_is_refused": Trusting(),
    "a_digest_is_that_of_the_rest": Misleading(),
    "a_stream_keeps_its_budget": Refusing(),
    "neighbours_lose_at_most_their_weight": Boasting(),
    "classes_are_asked_for_public_shares": Sparing(),
}


@pytest.mark.parametrize("check", MECHANISM_CHECKS, ids=lambda check: check.__name__)
def test_a_mechanism_that_is_wrong_in_one_way_is_found(check):
    """The check that is there for a fault fails on it, by name and with a sentence."""
    with pytest.raises(AssertionError, match=rf"^{check.__name__}: .+"):
        run_checks([check], BROKEN[check.__name__], DOMAIN)


def test_the_suite_says_which_check_fails():
    """All checks are run, the last one too."""
    with pytest.raises(AssertionError, match=r"^classes_are_asked_for_public_shares: .*each class that is due"):
        check_mechanism(Sparing(), DOMAIN)


def test_a_sound_mechanism_passes():
    """The one that all of them are made of is not found wrong, on a domain of one's own."""
    check_mechanism(dpi.Boosted(), dpi.Bins([0, 1, 2]))
