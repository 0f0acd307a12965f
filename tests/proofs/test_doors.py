"""Admission: what the doors do is what the model of `proofs/Admission.v` does, step by step."""

import os
from collections import Counter

import pytest

import door_oracle
from door_oracle import Batches, Marks, compare
from dpi.events.slots import Slots, Window
from proof_tools import needs_coq

SLOW = bool(os.environ.get("DPI_SLOW"))
BRANCHES = {
    Marks: {
        "closed", "held: no mark", "held: not yet to be closed", "mark: closes", "mark: in between",
        "no mark: no answer", "no mark: nothing came", "restart", "rows", "stopped halfway",
    },
    Batches: {
        "a new admission", "all is read that had come", "another stream closes", "closed", "for another stream", "held",
        "held: a batch is being read", "held: a batch is on its way", "kept", "read at once", "read late", "refused",
        "rows",
    },
}  # fmt: skip


def play_all(program, door, scripts):
    """Compare some scripts; return what was hit."""
    hit = Counter()
    for seed in range(scripts):
        world = door(seed, steps=150)
        compare(program, world)
        hit += world.hit
    return hit


@needs_coq
@pytest.mark.parametrize(("door", "scripts"), [(Marks, 30), (Batches, 12)], ids=["marks", "batches"])
def test_doors_admit_hold_and_refuse_as_the_model_does(door, scripts, tmp_path):
    """Random scripts: after every step the same marks or receipts, the same slots closed, the same rows in each."""
    hit = play_all(door_oracle.build(tmp_path), door, 10 * scripts if SLOW else scripts)
    assert {name for name, number in hit.items() if number} == BRANCHES[door]


@needs_coq
def test_a_door_that_admits_otherwise_is_told(tmp_path, monkeypatch):
    """An event just at the end of its window is dropped: a difference."""
    program = door_oracle.build(tmp_path)
    monkeypatch.setattr(Window, "future", lambda window, slots, moments: moments >= window.until)
    with pytest.raises(AssertionError, match="the model says"):
        play_all(program, Marks, 20)


@needs_coq
def test_a_slot_that_closes_early_is_told(tmp_path, monkeypatch):
    """A door that forgets lateness closes slots that the model holds."""
    program = door_oracle.build(tmp_path)
    monkeypatch.setattr(Slots, "first_open", lambda slots, now: slots.at(now))
    with pytest.raises(AssertionError, match="the model says"):
        play_all(program, Batches, 20)


@pytest.mark.parametrize("door", [Marks, Batches], ids=["marks", "batches"])
def test_a_script_is_the_same_each_time(door):
    """It follows from its seed: what was compared once can be compared again."""
    one, other = door(4, steps=40), door(4, steps=40)
    one.play()
    other.play()
    assert (one.lines, one.results) == (other.lines, other.results)
    assert any(result for result in one.results)
