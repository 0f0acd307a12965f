"""The public clock: one slot of level m in every block of 2^m, and no rhythm in common with hours, days or weeks."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.budget.classes import HIGHEST, level
from dpi.budget.policy import clocked
from dpi.errors import OptionError

FAR = 10**9


@given(st.integers(-FAR, FAR), st.integers(0, 9))
def test_every_block_has_one_slot_of_its_level(block, size):
    """Of the slots of an aligned block of 2^m, before slot 0 too, exactly one has level m or more."""
    levels = [level(slot, HIGHEST) for slot in range(block << size, (block + 1) << size)]
    assert sum(each >= size for each in levels) == 1


@given(st.integers(-FAR, FAR), st.integers(1, HIGHEST))
def test_a_level_is_cut_at_the_top(slot, top):
    """The top class takes all above it: a lower top changes nothing below it."""
    assert level(slot, top) == min(level(slot, HIGHEST), top)


@pytest.mark.parametrize("period", [2, 3, 7, 12, 24, 60, 168, 365, 1440, 4096])
def test_who_is_active_at_one_hour_meets_all_levels(period):
    """In every residue of a period the levels have the frequencies 2^-m: deviations lie within five of the binomial's.

    The number of times that 2 divides the slot would give odd hours level 0 for ever. Levels are fixed, so there is no
    chance in this.
    """
    days = 4096
    for hour in {0, 1, period // 2, period - 1}:
        levels = [level(day * period + hour, HIGHEST) for day in range(days)]
        for m in range(1, 6):
            share = 2.0**-m
            seen = sum(each >= m for each in levels)
            assert abs(seen - days * share) <= 5 * math.sqrt(days * share * (1 - share))


def test_levels_do_not_change():
    """A stream that goes on after an upgrade meets the same levels."""
    assert [level(slot, 20) for slot in range(-8, 24)] == LEVELS


LEVELS = [0, 3, 0, 1, 2, 0, 1, 0, 0, 4, 0, 1, 0, 1, 0, 2, 3, 0, 1, 0, 1, 0, 0, 2, 0, 1, 0, 6, 2, 0, 1, 0]


@pytest.mark.parametrize("top", [0, 41, 2.0, True, "4"])
def test_a_top_class_that_never_comes_is_refused(top):
    """Of 1 to 40: a slot of level 40 comes once in 2^40."""
    assert clocked(1).top == 1
    assert clocked(40).top == 40
    with pytest.raises(OptionError, match="`top` must be a whole number from 1 to 40"):
        clocked(top)
