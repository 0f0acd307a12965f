"""How large a slot is: by its sum, unless noise is the likelier reason."""

import math

import numpy as np
import pytest

from dpi.mechanism.boosted import size
from dpi.mechanism.boosted.jumps import JUMP, rate
from dpi.mechanism.boosted.size import Counts, Size

BINS, NOISE = 100, 1000.0
KNOWN = Size(500.0, 0.01, 1e-4)


def sized(deviations: float, learned: float) -> float:
    """The size after a sum that lies so many deviations of its noise above what was expected."""
    total = KNOWN.scale + deviations * math.sqrt(2 * BINS) * NOISE
    return size.of_sum(Counts(np.full(BINS, total / BINS), NOISE), KNOWN, rate(JUMP, learned)).scale


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
