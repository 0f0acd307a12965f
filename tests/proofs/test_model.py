"""Compression and public bounds of the proofs are those of the program: both compute the same from what is drawn."""

import os
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpi.budget.billing import SHARE_STEPS
from dpi.budget.classes import Bounds
from dpi.budget.epsilon import Epsilon
from dpi.domain import Amounts, Texts
from dpi.events.rows import Rows
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import count, normalise, totals, truncate
from dpi.histogram.grouping import Groups
from dpi.stream.texts import MOST_TEXTS, SeenTexts

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
import proofs

KEY = bytes(32)
COQ = shutil.which("coqc") or "coqc"
needs_coq = pytest.mark.skipif(
    not os.environ.get("DPI_PROOFS") or not proofs.has_coq(),
    reason="`make proofs` runs it where Coq is: `apt-get install coq libzarith-ocaml-dev` brings that",
)
HEAD = """From Coq Require Import ZArith List.
Require Import Ledger Lost Invariant Compression Bounds.
Import ListNotations.
Open Scope Z_scope.
"""


def numbers(values):
    """A list of whole numbers, as Coq reads it."""
    return "[" + "; ".join(f"({int(value)})" for value in values) + "]"


def naturals(values):
    """A list of counts, as Coq reads it."""
    return "[" + "; ".join(f"{int(value)}%nat" for value in values) + "]"


def added(rows, codes, bins, method, weight):
    """What the one user of some rows adds."""
    return count(Groups(rows, codes), bins, method, np.array([weight]))


def rows_of(counts, rng):
    """Rows of one user with so many events of each code, in any order."""
    codes = [code for code, number in enumerate(counts) for _ in range(number)]
    rng.shuffle(codes)
    return Rows.of(["ada"] * len(codes), np.array(codes), KEY)


def one_user(rng):
    """Pairs of terms: what a rule of the proofs makes of the rows of a user, and what the program adds."""
    weight = rng.choice([GRAINS, rng.randrange(GRAINS + 1), rng.randrange(9)])
    counts = [rng.choice([0, 0, 1, rng.randrange(30)]) for _ in range(rng.randint(1, 9))]
    counts[0] += not any(counts)
    ours = added(rows_of(counts, rng), len(counts), len(counts), normalise, weight)
    yield f"normalised {weight} {naturals(counts)}", numbers(ours)
    c = rng.choice([1, 2, 7, 100])
    ours = added(rows_of(counts, rng), len(counts), len(counts), truncate(c, KEY), weight)
    each = added(rows_of(counts, rng), len(counts), len(counts), truncate(c, KEY), GRAINS) // (GRAINS // c)
    kept = [code for code, number in enumerate(each.tolist()) for _ in range(number)]
    yield f"truncated {c} (fun _ => {naturals(kept)}) {weight} {naturals(counts)}", numbers(ours)
    domain = Amounts(1)
    amounts = [rng.randint(-90, 90) for _ in range(rng.randint(1, 6))]
    codes, steps = domain.encode_rows(amounts)
    rows = Rows.of(["ada"] * len(amounts), codes, KEY, 0, steps)
    ours = added(rows, domain.row_codes, domain.size, totals.over(domain), weight)
    by_sign = [int(steps[codes == code].sum()) for code in range(3)]
    yield f"totalled {numbers(domain.cuts)} {weight} {naturals(by_sign)}", numbers(ours)


def one_user_of_texts(rng):
    """The same of texts, some of which are outside of the universe, and more than are kept."""
    weight = rng.choice([GRAINS, rng.randrange(GRAINS + 1)])
    values = [rng.choice("abcdefghijklmnopqrstuvwxyz") * rng.randint(1, 4) for _ in range(rng.choice([5, 60]))]
    seen = SeenTexts(Texts(3))
    rows = Rows.of(["ada"] * len(values), seen.encode(values), KEY)
    texts, places = seen.numbered(rows.bins)
    counts = np.bincount(places, minlength=len(texts) + 1)
    kept = seen.kept(rows, KEY)
    there, at = seen.numbered(kept.bins)
    ours = dict.fromkeys(texts, 0)
    ours |= dict(
        zip(there, added(replace(kept, bins=at), len(there) + 1, len(there) + 1, normalise, weight)[1:], strict=True)
    )
    chosen = sorted({0 if place == 0 else 1 + texts.index(there[place - 1]) for place in at.tolist()})
    assert len(chosen) <= MOST_TEXTS
    yield f"of_texts {MOST_TEXTS} (fun _ => {naturals(chosen)}) {weight} {naturals(counts)}", numbers(ours.values())


def one_stream(rng):
    """What is said of a stream after slots and restorations: the classes of both, and their largest bound."""
    epsilon, top = rng.choice([1, 60, rng.randrange(1, 1 << 50)]), rng.choice([0, 1, 3])
    bounds, term, slot = Bounds.initial(Epsilon(epsilon), top), "newcomers", 0
    cfg = f"{{| epsilon := {epsilon}; top := {top}; period := 0; policy := fun _ => 0; by_class := fun _ => true |}}"
    for _ in range(rng.randint(1, 7)):
        if rng.random() < 0.7:
            due = sorted({0, *(m for m in range(top + 1) if rng.random() < 0.5)})
            steps = {m: rng.choice([1, SHARE_STEPS, rng.randint(1, SHARE_STEPS)]) for m in due}
            groups = tuple(((m, Fraction(steps[m], SHARE_STEPS)),) for m in due)
            bounds, _ = bounds.draw(slot, groups)
            asked = "; ".join(f"(1, [({m}, {steps[m]})])" for m in due)
            term, slot = f"draw c {epsilon} ({term}) [{asked}]", slot + 1
        else:
            lost = range(slot, slot + rng.randrange(4))
            largest = [rng.choice([0, rng.randint(1, SHARE_STEPS)]) for _ in range(top + 1)]
            marks = sorted({rng.randrange(lost.start - 1, lost.stop + 1) for _ in range(rng.randrange(3))})
            bounds = bounds.after_lost(lost, largest, marks)
            shares = f"fun m => nth (Z.to_nat m) {numbers(largest)} 0"
            term = f"after_lost c ({shares}) {epsilon} {lost.start} ({lost.stop - 1}) {numbers(marks)} ({term})"
            slot = lost.stop
    classes = range(top + 2)
    yield (
        f"let c := {cfg} in let l := {term} in map (fun m => if has m l then get 0 m l else -1) {numbers(classes)}",
        numbers(bounds.spent[m] if m < len(bounds.spent) else -1 for m in classes),
    )


def one_step(rng):
    """Each step of a stream whose accounts are refilled: bounds of its classes, and what epochs before have cost."""
    epsilon, top, period = rng.choice([60, rng.randrange(1, 1 << 40)]), rng.choice([0, 2]), rng.choice([1, 3])
    cfg = f"{{| epsilon := {epsilon}; top := {top}; period := {period}; "
    cfg += "policy := fun _ => 0; by_class := fun _ => true |}"
    bounds, last = Bounds.initial(Epsilon(epsilon), top, period), None
    classes = range(top + 2)

    def accounts(last):
        paid = "" if last is None else f"(0, {last})"
        return f"{{| table := zero; own := []; slots := [{paid}]; levies := []; assigned := 0 |}}"

    def said(bounds):
        pairs = "; ".join(f"({m}, {units})" for m, units in enumerate(bounds.spent))
        return f"[(0, [{pairs}])]", f"[(0, {bounds.past})]"

    def case(largest, marks, levels, past, after):
        most, before = said(bounds)
        shares = "; ".join(f"({m}, {steps})" for m, steps in enumerate(largest))
        seen = f"{{| largest := [(0, [{shares}])]; restored := [(0, {numbers(marks)})]; billed := [] |}}"
        book = (
            f"{{| of := {{| now := {accounts(last)}; seen := {seen}; copies := []; paid := [] |}}; since := []; "
            f"base := [(0, {epsilon})]; most := {most}; most_then := []; past := {before}; past_then := []; "
            "paid_in := []; paid_then := [] |}"
        )
        values = f"map (fun m => if has m l then get 0 m l else -1) {numbers(classes)}"
        told = numbers(after.spent[m] if m < len(after.spent) else -1 for m in classes)
        return (
            f"let c := {cfg} in let b := {book} in let l := {levels} in ({values}, {past})",
            f"({told}, {after.past})",
        )

    for _ in range(4):
        slot = 0 if last is None else last + rng.choice([1, 2])
        due = sorted({0, *(m for m in range(top + 1) if rng.random() < 0.5)})
        steps = {m: rng.randint(1, SHARE_STEPS) for m in due}
        asked = "; ".join(f"(1, [({m}, {steps[m]})])" for m in due)
        after, _ = bounds.draw(slot, tuple(((m, Fraction(steps[m], SHARE_STEPS)),) for m in due))
        levels = f"draw c {epsilon} (entered c b 0 {slot}) [{asked}]"
        yield case([], [], levels, f"paid_by (past_at c b 0 {slot}) 0", after)
        bounds, last = after, slot
    most, before = said(bounds)
    copied, last = last, last + rng.randrange(6)
    largest = [rng.choice([0, rng.randint(1, SHARE_STEPS)]) for _ in range(top + 1)]
    marks = sorted({rng.randrange(copied, last + 1) for _ in range(rng.randrange(3))})
    after = bounds.after_lost(range(copied + 1, last + 1), largest, marks)
    levels = f"lost_bounds c b {accounts(copied)} {most} 0"
    yield case(largest, marks, levels, f"lost_past c b {accounts(copied)} {before} 0", after)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of the files that the cases need, checked."""
    folder = tmp_path_factory.mktemp("proofs")
    for name in proofs.FILES[: proofs.FILES.index("Bounds") + 1]:
        shutil.copy(proofs.FOLDER / f"{name}.v", folder)
        subprocess.run([COQ, "-q", f"{name}.v"], cwd=folder, check=True)
    return folder


def differ(folder, cases):
    """What Coq says where one of the cases is not so; nothing where all are."""
    goals = [f"Goal {ours} = {theirs}.\nProof. vm_compute. reflexivity. Qed.\n" for ours, theirs in cases]
    (folder / "Cases.v").write_text(HEAD + "".join(goals))
    done = subprocess.run([COQ, "-q", "Cases.v"], cwd=folder, check=False, capture_output=True, text=True)
    return done.stderr if done.returncode else ""


@needs_coq
@pytest.mark.parametrize("draw", [one_user, one_user_of_texts, one_stream, one_step], ids=lambda draw: draw.__name__)
def test_model_and_program_compute_the_same(draw, built):
    """Rows of a user and the slots of a stream, drawn: every number is equal."""
    rng = random.Random(draw.__name__)
    cases = []
    while len(cases) < 60:
        cases += draw(rng)
    assert len(set(cases)) > 30
    assert differ(built, cases) == ""


@needs_coq
def test_a_program_that_computes_otherwise_is_told(built):
    """One grain more in one bin is a difference."""
    term, result = next(one_user(random.Random(1)))
    assert differ(built, [(term, result)]) == ""
    assert "Unable to unify" in differ(built, [(term, result.replace("(", "(1 + ", 1))])
