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
NAMES = {
    name: re.findall(
        r"^\s*(?:Theorem|Lemma|Corollary|Definition|Fixpoint|Record|Inductive)\s+([\w']+)", text, re.MULTILINE
    )
    for name, text in FILES.items()
}
POINTER = re.compile(r"`(\w[\w']*)`[^`\n]{0,4}\(?`proofs/(\w+)\.v`")
"""A lemma and the file that it is in, as docstrings and docs name them."""
needs_coq = pytest.mark.skipif(
    not os.environ.get("DPI_PROOFS") or not proofs.has_coq(),
    reason="`make proofs` runs it where Coq is: `apt-get install coq libzarith-ocaml-dev` brings that",
)


def test_nothing_is_left_open():
    """No proof is admitted, and no axiom is added."""
    wrong = re.compile(r"\b(Admitted|admit|Axiom|Parameter|Conjecture|give_up|Unset\s+Guard)\b")
    assert FILES.keys() >= {*proofs.FILES, "Statement", "Extract"}
    for name, text in FILES.items():
        code = re.sub(r"\(\*.*?\*\)", "", text, flags=re.DOTALL)
        assert not wrong.search(code), name
        assert code.count("Proof.") == code.count("Qed."), name


def test_names_that_docs_and_docstrings_point_to_exist():
    """A lemma that is named beside its file is in it."""
    table = ROOT / "proofs/README.md"
    pages = [*(ROOT / "src/dpi").rglob("*.py"), table, ROOT / "docs/audit.md", ROOT / "docs/privacy.md"]
    found = {page: POINTER.findall(page.read_text()) for page in pages}
    for page, pointers in found.items():
        for name, file in pointers:
            assert name in NAMES.get(file, ()), f"{page.name}: {name} is not in {file}.v"
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
    told = "\n".join([*printed, "Closed under the global context", ""])
    assert proofs.axioms_of(told) == {"A.classic", "B.long_name"}


@needs_coq
def test_everything_is_proved_from_the_axioms_that_are_allowed(tmp_path):
    """Coq checks all files; what it prints is what the page shows."""
    told = proofs.check(tmp_path)
    assert proofs.axioms_of(told) <= proofs.AXIOMS
    assert told.count("Closed under the global context") == 2 + 4  # the ledger and admission need none of them
    page = (ROOT / "docs/audit.md").read_text()
    for name in ("ledger_keeps_epsilon", "promise", "exact_sampler_law", "others_rows_alone"):
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
