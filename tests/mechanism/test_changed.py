"""Frozen values with other fields."""

from dataclasses import dataclass, replace
from functools import cached_property

import pytest

from dpi.mechanism.filtering._gaussians import fast_replace as changed


@dataclass(frozen=True)
class Pair:
    """Two numbers, and their sum, which is found once."""

    one: int
    other: int = 2

    @cached_property
    def both(self) -> int:
        """The sum."""
        return self.one + self.other


def test_it_is_what_dataclasses_have():
    """The same value as by `dataclasses.replace`, which stays frozen; the one before it is as it was."""
    before = Pair(1)
    after = changed(before, other=5)
    assert (after, before) == (replace(before, other=5), Pair(1, 2))
    with pytest.raises(AttributeError):
        after.one = 3  # type: ignore[misc]


def test_what_is_cached_stays_behind():
    """Fields that are found once are found anew."""
    before = Pair(1)
    assert before.both == 3
    assert changed(before, one=4).both == 6


@pytest.mark.parametrize("cached", [False, True])
def test_a_field_that_there_is_not_is_refused(cached):
    """Whether something is cached or not."""
    value = Pair(1)
    assert not cached or value.both == 3
    with pytest.raises(TypeError, match=r"has no fields \['third'\]"):
        changed(value, third=3)
