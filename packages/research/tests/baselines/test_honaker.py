import math
from fractions import Fraction

import numpy as np
import pytest

from dpi.noise import UnsafeSeededSource
from dpi_research.baselines.honaker import Honaker
from statistics_ import assert_variance
from strategies import few
from transcript import transcript_loss

REPLICATES = few(6_000, 20_000)
SLOTS = 40


def make(source, bins=1):
    """A counter of up to 40 slots."""
    return Honaker(epsilon=1, slots=SLOTS, bins=bins, unsafe_source=source)


def test_one_record_costs_rho_and_no_more():
    """Over all places of one record, the exact ρ of a transcript is at most the stated one, and nearly reached."""
    losses = []
    for slot in range(SLOTS):
        moved = [3] * SLOTS
        moved[slot] += 1
        losses.append(transcript_loss(make, moved, [3] * SLOTS, seed=slot)[1])
    rho = make(None).rho
    assert rho * Fraction(4, 5) < max(losses) <= rho


@pytest.mark.parametrize("slots", [1, 2, 7, 32, 40])
def test_a_user_in_every_slot_loses_what_is_stated(slots):
    """The exact ρ of a transcript, with two records a slot, is four times `loss`."""
    _, rho = transcript_loss(make, [5] * slots, [3] * slots)
    assert rho == make(None).loss(slots).scaled(Fraction(2)).rho


def test_stated_user_losses_have_the_closed_form():
    """Σ 4^l·⌊t/2^l⌋."""
    tree = Honaker(epsilon=1, slots=50)
    expected = sum(4**j * (37 >> j) for j in range(6))
    assert tree.loss(37).rho == tree.rho * Fraction(expected, 6)


@pytest.mark.parametrize("slots", [1, 6, 8, 23])
def test_releases_are_unbiased_with_the_stated_variance(slots):
    """Mean and variance over 20,000 independent bins, each within six standard errors (false alarm below 10^-7)."""
    mechanism = make(UnsafeSeededSource(slots), REPLICATES)
    for slot in range(1, slots + 1):
        release = mechanism.update(np.full(REPLICATES, slot))
    errors = release - slots * (slots + 1) // 2
    variance = mechanism.variance(slots)
    assert abs(errors.mean()) < 6 * math.sqrt(variance / REPLICATES)
    assert_variance(errors, variance, kurtosis=3.0)


def test_stated_variances_are_the_published_ones():
    """σ²·H·Σ 1/(2 - 2^-j) with σ² = 1/(2ρ)."""
    tree = make(None)
    for t in range(1, SLOTS + 1):
        nodes = sum(1 / (2 - 2.0**-j) for j in range(6) if t >> j & 1)
        assert tree.variance(t) == pytest.approx(6 * nodes / (2 * float(tree.rho)))


def test_memory_is_as_stated():
    """2H + 1 numbers."""
    counter = make(UnsafeSeededSource(0))
    for _ in range(10):
        counter.update(1)
    assert counter.memory == 13


def test_subtrees_are_better_than_nodes():
    """At 1,000 slots the largest deviation is below that of a plain tree of ten levels."""
    tree = Honaker(epsilon=1, slots=1000)
    assert max(tree.variance(t) for t in (511, 767, 1000)) < float(tree.noise_variance) * 9
