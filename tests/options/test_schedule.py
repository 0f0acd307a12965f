"""Options by slot: what holds where, after changes in any order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dpi.options.schedule import BEGINNING, Schedule

SLOTS = st.integers(-20, 20)


@given(changes=st.lists(SLOTS, max_size=8), slot=SLOTS)
def test_the_last_entry_that_has_begun_by_a_slot_holds_in_it(changes, slot):
    """However changes follow each other: the last declared of those that begin by then, whatever was planned before."""
    schedule = Schedule.of("first")
    for number, first in enumerate(changes):
        schedule = schedule.changed(first, f"change {number}")
    begun = ["first", *(f"change {number}" for number, first in enumerate(changes) if first <= slot)]
    assert schedule.at(slot) == begun[-1]
    assert [first for first, _ in schedule.entries] == sorted({first for first, _ in schedule.entries})


@given(changes=st.lists(SLOTS, max_size=5, unique=True).map(sorted), slot=SLOTS, later=st.integers(0, 10))
def test_what_holds_since_a_slot_is_what_holds_there(changes, slot, later):
    """A part of a schedule says the same of its own slots, up to its end."""
    schedule = Schedule.of(BEGINNING)
    for first in changes:
        schedule = schedule.changed(first, first)
    part = schedule.since(slot, slot + 11)
    assert part.entries[0][0] == slot
    assert part.at(slot + later) == schedule.at(slot + later)
    assert all(first < slot + 11 for first, _ in part.entries)
