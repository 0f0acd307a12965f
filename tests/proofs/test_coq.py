"""The proofs in `proofs/`: nothing is left open, names that docs and docstrings point to exist, and the code agrees."""

import os
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import ledger_oracle
from dpi.budget import billing
from ledger_oracle import World, compare

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))
import proofs  # noqa: E402

FILES = {path.stem: path.read_text() for path in (ROOT / "proofs").glob("*.v")}
needs_coq = pytest.mark.skipif(
    not os.environ.get("DPI_PROOFS") or not proofs.has_coq(),
    reason="`make proofs` runs it where Coq is: `apt-get install coq libzarith-ocaml-dev` brings that",
)


def test_nothing_is_left_open():
    """No proof is admitted, and no axiom is added."""
    assert FILES.keys() >= {*proofs.FILES, "Statement", "Extract"}
    assert {name: found for name, text in FILES.items() if (found := proofs.left_open(text))} == {}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("Lemma x : 1 = 2.\nProof.\nAdmitted.", ["Admitted", "a proof without `Qed.`"]),
        ("Lemma x : 1 = 2.\nProof.\n  admit.\nQed.", ["admit"]),
        ("Axiom x : 1 = 2.", ["Axiom"]),
        ("Parameters (x : nat).", ["Parameters"]),
        ("(* Admitted is a word of a comment. *)", []),
    ],
)
def test_a_file_with_an_open_proof_is_told(line, found, tmp_path, monkeypatch, capsys):
    """The tool says where, and fails, before Coq is asked; the words of comments are free."""
    assert proofs.left_open(line) == found
    monkeypatch.setattr(proofs, "FOLDER", tmp_path)
    monkeypatch.setattr(proofs, "has_coq", lambda: True)
    monkeypatch.setattr(proofs, "check", lambda folder: "Closed under the global context\n")
    (tmp_path / "Other.v").write_text(line)
    assert proofs.main() == bool(found)
    assert ("Other.v" in capsys.readouterr().out) == bool(found)


def test_names_that_docs_and_docstrings_point_to_exist():
    """A lemma that is named beside its file is in it."""
    table = ROOT / "proofs/README.md"
    pages = [*(ROOT / "src/dpi").rglob("*.py"), table, *(ROOT / "docs").glob("*.md")]
    found = {page: proofs.POINTER.findall(page.read_text()) for page in pages}
    wrong = {page.name: missing for page in pages if (missing := proofs.unknown_lemmas(page.read_text(), FILES))}
    assert wrong == {}
    pointed = {
        page.relative_to(ROOT / "src/dpi").as_posix()
        for page, pointers in found.items()
        if pointers and page.suffix == ".py"
    }
    assert pointed >= {
        "budget/billing.py", "budget/classes.py", "budget/accounts.py", "budget/charge.py",
        "histogram/compression.py", "noise/laplace.py", "noise/exponential.py", "mechanism/base.py",
    }  # fmt: skip
    assert len(found[table]) >= 20


@pytest.mark.parametrize(
    ("docstring", "wrong"),
    [
        ("In Coq: `compression`, `proofs/Ledger.v`.", []),
        ("In Coq: `no_such_lemma`, `proofs/Ledger.v`.", ["no_such_lemma is not in Ledger.v"]),
        ("It is proved (`promise` (`proofs/Ledger.v`)).", ["promise is not in Ledger.v"]),
        ("In Coq: `x`, `proofs/Missing.v`.", ["x is not in Missing.v", "there is no Missing.v"]),
        ("All of proofs/Missing.v says so.", ["there is no Missing.v"]),
    ],
)
def test_a_lemma_that_is_not_there_is_told(docstring, wrong):
    """By its name, in whichever words it is pointed to."""
    assert proofs.unknown_lemmas(docstring, FILES) == wrong


def test_axioms_are_read_off_what_coq_prints():
    """An axiom of one's own would be seen."""
    printed = [
        "x",
        "     : nat",
        "Axioms:",
        "A.classic : forall P : Prop, P",
        "B.long_name",
        "  : forall n : nat, n = n",
    ]
    told = "\n".join([*printed, "of_an_open_file : nat", "Closed under the global context", "", "Axioms:", "C.c : nat"])
    assert proofs.axioms_of(told) == {"A.classic", "B.long_name", "of_an_open_file", "C.c"}


def test_an_axiom_that_is_not_allowed_fails_the_check(monkeypatch, capsys):
    """It is named, and the exit status says so; the axioms of the real numbers alone are no failure."""
    allowed = "\n".join(f"{name}\n  : Prop" for name in sorted(proofs.AXIOMS))
    monkeypatch.setattr(proofs, "has_coq", lambda: True)
    monkeypatch.setattr(proofs, "check", lambda folder: f"Axioms:\n{allowed}\n")
    assert proofs.main() == 0
    monkeypatch.setattr(proofs, "check", lambda folder: f"Axioms:\n{allowed}\nmy_own : forall n m : nat, n = m\n")
    assert proofs.main() == 1
    assert "not allowed: my_own." in capsys.readouterr().out


@needs_coq
@pytest.mark.parametrize("form", ["Axiom", "Hypothesis", "Local Parameter"])
def test_coq_names_an_axiom_of_ones_own(form, tmp_path, monkeypatch):
    """However it is written: what a theorem rests on is read off what Coq prints."""
    (tmp_path / "Own.v").write_text(
        f"{form} my_own : forall n m : nat, n = m.\nLemma x : 1 = 2. Proof. apply my_own. Qed.\n"
    )
    (tmp_path / "Statement.v").write_text("Require Import Own.\nPrint Assumptions x.\n")
    monkeypatch.setattr(proofs, "FOLDER", tmp_path)
    monkeypatch.setattr(proofs, "FILES", ("Own",))
    (built := tmp_path / "built").mkdir()
    assert {name.rpartition(".")[2] for name in proofs.axioms_of(proofs.check(built))} == {"my_own"}


@needs_coq
def test_everything_is_proved_from_the_axioms_that_are_allowed(tmp_path):
    """Coq checks all files; what it prints is what the page shows."""
    told = proofs.check(tmp_path)
    assert proofs.axioms_of(told) <= proofs.AXIOMS
    closed = 8 + 4  # ledger, bounds, compression and sums need none of them, nor does admission
    assert told.count("Closed under the global context") == closed
    page = (ROOT / "docs/audit.md").read_text()
    for name in ("store_loses_what_verify_prints", "promise_of_a_store", "exact_sampler_law", "others_rows_alone"):
        statement = re.search(rf"^{name}\n.*?(?=^\S)", told, re.MULTILINE | re.DOTALL).group().rstrip()
        assert statement in page, name


BRANCHES = {
    "class: no weight", "class: part of a weight", "class: refilled", "class: rounded debit",
    "class: spent less than nothing", "class: weight one", "class: whole", "levy", "lives of 300 payments and more",
    "policy: no weight",
    "policy: part of a weight", "policy: refilled", "policy: rounded debit", "policy: spent less than nothing",
    "policy: weight one", "policy: whole", "quota", "refused: `share`", "refused: a copy without a stream",
    "refused: a levy below nothing", "refused: a quota of what is not there", "refused: a quota that shrinks",
    "refused: accounts", "refused: classes",
    "refused: not after the last slot", "restored: any class", "restored: by a levy", "restored: by class",
}  # fmt: skip


@needs_coq
def test_the_ledger_of_the_proof_pays_as_the_code_does(tmp_path):
    """Lives of users, with copies, levies and quotas: the same weights, balances, bounds and refusals, to the unit."""
    program, hit = ledger_oracle.build(tmp_path), Counter()
    for seed in range(40):
        world = World(seed, users=12, slots=310)
        compare(program, world)
        hit += world.hit
    assert {name for name, number in hit.items() if number} == BRANCHES


@needs_coq
def test_a_ledger_that_pays_otherwise_is_told(tmp_path, monkeypatch):
    """A debit of one unit less, once, is a difference."""
    program = ledger_oracle.build(tmp_path)
    true, calls = billing.debit, [0]

    def wrong(epsilon, weights):
        calls[0] += 1
        return np.maximum(true(epsilon, weights) - (calls[0] == 50), 0)

    monkeypatch.setattr(billing, "debit", wrong)
    with pytest.raises(AssertionError, match="the ledger says"):
        compare(program, World(1, users=5, slots=100))
