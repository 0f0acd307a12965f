"""How large a slot is: by its sum, unless noise is the likelier reason."""

import math

import numpy as np
import pytest

from dpi.mechanism.boosted import _size as size
from dpi.mechanism.boosted._experts import JUMP, log_rate
from dpi.mechanism.boosted._size import Counts, Size, Slot
from dpi.mechanism.filtering.gaussians import Gaussians
from dpi.mechanism.filtering.population import grid_levels

BINS, NOISE = 100, 1000.0
KNOWN = Size(500.0, 0.01, 1e-4)


def sized(deviations: float, learned: float) -> float:
    """The size after a sum that lies so many deviations of its noise above what was expected."""
    total = KNOWN.scale + deviations * math.sqrt(2 * BINS) * NOISE
    return size.size_by_sum(Counts(np.full(BINS, total / BINS), NOISE), KNOWN, log_rate(JUMP, learned)).scale


@pytest.mark.parametrize(("deviations", "learned", "believed"), [
    (4.5, 1.0, True),  # a slot that says much: crowds are common
    (4.5, 1e-3, False),  # one that drowns: such a sum is noise in one of some thousand slots
    (6.0, 1e-3, True),
    (6.0, 0.0, False),
    (8.0, 0.0, True),  # after an empty week nothing is expected of any slot, and those who are back are seen
])  # fmt: skip
def test_a_sum_is_believed_if_noise_is_less_likely(deviations: float, learned: float, believed: bool) -> None:
    """The less a slot can say, the more deviations it takes; never more than seven."""
    assert (sized(deviations, learned) > 10 * KNOWN.scale) is believed


def wander(seed: int, slots: int = 120, users: int = 5000) -> tuple[list[float], list[float]]:
    """How far the fitted size of slots that drown more and more is from that of all of them, and its variances."""
    rng = np.random.default_rng(seed)  # test data, no privacy noise
    pdf = np.arange(1, BINS + 1) ** -1.1
    pdf /= pdf.sum()
    belief = Gaussians(pdf, (0.05 * pdf) ** 2)
    fitted = plain = Size(users, 1e-4, 0.02)
    anything = np.full(grid_levels(BINS).size, 1 / grid_levels(BINS).size)
    away, variances = [], []
    for slot in range(slots):
        noise = 60 + 25.0 * slot
        counts = Counts(rng.multinomial(users, pdf) + rng.laplace(0, noise, BINS), noise)
        plain = size.size_by_sum(counts, plain.forecast(), log_rate(JUMP, 1e-2))
        fresh = Slot(counts, plain, 1.0, BINS).fresh(anything)
        fitted = size.fit_size(counts, belief, fitted.forecast(), plain, 1.0, fresh)
        away.append(math.log(fitted.scale / users))
        variances.append(fitted.variance)
    return away, variances


def test_a_size_that_drowns_stays_what_it_was() -> None:
    """What was known of it is not given away for what noise shows: then sizes went up and down by factors of 80."""
    runs = [wander(seed) for seed in range(6)]
    assert np.sqrt(np.mean(np.square([away for away, _ in runs]))) < 0.4
    assert max(max(variances) for _, variances in runs) < 4


def test_a_slot_below_nothing_is_an_empty_one() -> None:
    """Noise may be negative all over; a size below zero is none, and its variance would make all that is known void."""
    counts = Counts(np.linspace(-8.0, 2.0, BINS), 1.0)
    belief = Gaussians(np.full(BINS, 1 / BINS), np.full(BINS, (0.01 / BINS) ** 2))
    fresh = Slot(counts, KNOWN, 1.0, BINS).fresh(np.full(grid_levels(BINS).size, 1 / grid_levels(BINS).size))
    found = size.fit_size(counts, belief, KNOWN, KNOWN, 1.0, fresh)
    assert (found.scale, found.variance) == (size.EMPTY, 1.0)
