"""Admission: what the doors do is what the model of `proofs/Admission.v` does, step by step."""

import json
import os
import subprocess
from collections import Counter

import pytest

import door_oracle
from door_oracle import Batches, Marks, compare
from dpi.events.slots import Slots, Window
from proof_tools import needs_coq
from service import test_admission as services

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
    monkeypatch.setattr(Window, "future", lambda window, moments: moments >= window.until)
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


@needs_coq
@pytest.mark.parametrize("eve", [False, True], ids=["without", "with"])
def test_the_test_of_two_services_expects_what_the_model_says(eve, tmp_path):
    """`tests/service/test_admission.py`: which of others' rows count in which slot, with one user's batches or not."""
    first, ids, script = 1000, {}, []

    def send(number, slot, name, ended):
        head = (slot + 1) * services.SLOT - services.BEFORE
        words = []
        for line in services.body(slot, name).splitlines():
            row = json.loads(line)
            ids[len(ids)] = row["user"]
            words += [len(ids) - 1, row["time"], len(ids) - 1, "none"]
        script.append(["B", number, micros(head), micros(ended), *words])
        script.append(["T", number])
        return number

    def micros(seconds):
        return round(seconds * 1e6)

    for slot in range(first, first + services.SLOTS):
        end, number = (slot + 1) * services.SLOT, 10 * slot
        whole = send(number, slot, "whole", end - services.BEFORE)
        across = send(number + 1, slot, "across", end + services.AFTER)
        if eve:
            script += [["B", number + 2, micros(end - 1), micros(end + 9), 0, micros(end - 1), 10**9 + slot, "none"]]
            script += [["T", number + 2]]
        script += [["K", whole], ["L", micros(end)], ["C"], ["K", across], ["C"], *([["N", number + 2]] * eve), ["C"]]
    lines = [["door", first, "fixed", 0, micros(services.SLOT), 0], *script]
    text = "".join(" ".join(map(str, line)) + "\n" for line in lines)
    told = subprocess.run([door_oracle.build(tmp_path)], input=text, capture_output=True, check=True, text=True).stdout
    closed = {}
    for line in told.splitlines():
        slot, equal, rows = line.split(" ")[5].partition("=")
        if equal:
            closed[int(slot)] = sorted(ids[int(row)] for row in rows.split(","))
    counted = [f"{kind} {name} {number}" for kind in ("open", "ahead") for name in ("whole", "across")
               for number in range(services.OTHERS)]  # fmt: skip
    assert closed == dict.fromkeys(range(first, first + services.SLOTS), sorted(counted))
