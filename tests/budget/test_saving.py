"""Budgets that are saved up: never more than was saved, from releases alone, and at once after a jump."""

import random

import pytest

import dpi
from dpi.budget.epsilon import Epsilon
from dpi.budget.saving import BEGINNING, LONGEST, SHORTEST, Saving
from dpi.errors import OptionError, StateError
from dpi.noise import UnsafeSeededSource
from dpi.verification import verify
from dpi_audit import neighbours
from dpi_audit.exact import worst_of
from dpi_audit.small import VALUES, stream_session

SOURCE = UnsafeSeededSource(0)
PER_SLOT = Epsilon.at_most("0.05")
SLOW = {"users": 50_000.0, "bins": 200.0, "drift": 0.001}
JUMP = SLOW | {"drift": 1.0}


def saving(largest=1):
    """Of 0.05 a slot."""
    return Saving("0.05", Epsilon.at_most(largest))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("largest", [1, "0.06"])
def test_no_more_is_spent_than_was_saved(seed, largest):
    """Whatever is released: after t slots at most t · per_slot, nothing is lost, and no slot takes more than it may."""
    rng, opened, spent = random.Random(seed), saving(largest), 0
    for slot in range(1, 200):
        units = opened.draw(SOURCE).units
        spent += units
        assert 0 < units <= Epsilon.at_most(largest).units
        assert spent + opened._saved == slot * PER_SLOT.units
        drift = rng.choice([None, 0.0, 10 ** rng.uniform(-4, 0.5)])
        opened.observe(rng.choice([-3.0, 0.0, 10 ** rng.uniform(0, 6)]), rng.uniform(1, 500), drift)


def test_a_slow_stream_is_measured_in_every_third_slot_and_a_jump_at_once():
    """All that was saved is spent in the slot after the release that tells the jump."""
    opened, spent = saving(), []
    for slot in range(BEGINNING + 12):
        spent.append(opened.draw(SOURCE).units)
        opened.observe(**(JUMP if slot == BEGINNING + 6 else SLOW))
    assert spent[:BEGINNING] == [PER_SLOT.units] * BEGINNING
    large = [slot - BEGINNING for slot, units in enumerate(spent) if units > PER_SLOT.units]
    assert large == [2, 5, 7, 10]
    low = spent[BEGINNING]
    assert spent[BEGINNING + 2] == LONGEST * PER_SLOT.units - (LONGEST - 1) * low
    assert spent[BEGINNING + 7] == 2 * PER_SLOT.units - low


def test_a_fast_stream_is_measured_more_often():
    """A larger drift, or more users to tell it by, makes the wait shorter."""
    waits = []
    for heard in (
        SLOW,
        SLOW | {"drift": 0.2},
        SLOW | {"users": 5e6, "drift": 0.02},
        SLOW | {"users": 0.0, "drift": 0.4},
    ):
        opened = saving()
        for _ in range(BEGINNING):
            opened.draw(SOURCE)
            opened.observe(**heard)
        waits.append(opened._wanted)
    assert waits == [LONGEST, SHORTEST, SHORTEST, LONGEST]


@pytest.mark.parametrize("heard", [SLOW | {"drift": None}, JUMP], ids=["not tracked", "after a jump"])
def test_where_nothing_is_gained_every_slot_has_the_same(heard):
    """The budget is that of a constant one."""
    opened = saving()
    for _ in range(BEGINNING + 5):
        assert opened.draw(SOURCE) == PER_SLOT
        opened.observe(**heard)


def test_it_goes_on_where_it_stopped_and_not_before():
    """Restored it draws the same; an older snapshot, or a damaged one, would spend again what was spent."""
    opened, kept = saving(), []
    for _ in range(BEGINNING + 5):
        opened.draw(SOURCE)
        opened.observe(**SLOW)
        kept.append(opened.snapshot())
    again = saving()
    again.restore(kept[-1])
    assert [again.draw(SOURCE) for _ in range(6)] == [opened.draw(SOURCE) for _ in range(6)]
    with pytest.raises(StateError, match="older"):
        again.restore(kept[2])
    with pytest.raises(StateError, match="damaged"):
        again.restore(kept[-1].replace(f"[{BEGINNING + 5}, ", f"[{BEGINNING + 5}, -"))


def test_a_stream_saves():
    """What slots cost follows from its releases: opened anew for every slot it goes on, and its chain verifies."""
    budget = dpi.Ledger(per_slot="0.25", every="auto")
    options = {"domain": dpi.Categories(["a", "b"], other=None), "epsilon": 4, "budget": budget}
    costs = []
    for anew in (False, True):
        store, source = dpi.MemoryStore(), UnsafeSeededSource(0)
        opened, found = dpi.Stream(**options, store=store, unsafe_source=source), []
        for slot in range(BEGINNING + 7):
            if anew:
                opened = dpi.Stream(**options, store=store, unsafe_source=source)
            users = [f"{slot} {number}" for number in range(300)]
            found.append(opened.release(users, ["a", "a", "b"] * 100).epsilon)
        assert verify(store).problems == ()
        costs.append(found)
    assert costs[0] == costs[1]
    assert len(set(costs[0])) > 2
    assert sum(costs[0]) <= (BEGINNING + 7) * 0.25
    assert repr(opened.budget) == "Ledger(per_slot='0.25', every='auto')"


def test_neighbours_lose_no_more_than_is_said():
    """Exactly, with budgets that are saved up: for one who is there in every slot."""
    session = stream_session(budget=dpi.Ledger(per_slot="0.08", every="auto"))
    assert not worst_of(session, [neighbours.every_slot(BEGINNING + 6, VALUES)]).violates


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "always", True])
def test_every_is_a_number_or_auto(wrong):
    """Nothing else, and only where a slot has a cost."""
    with pytest.raises(OptionError, match="every"):
        dpi.Ledger(per_slot="0.05", every=wrong)
    with pytest.raises(OptionError, match="needs `per_slot`"):
        dpi.Ledger(every="auto")
