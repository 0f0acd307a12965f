"""Stores with several streams and quotas: the ledger of the proof holds what they hold, refuses what they refuse."""

import os
from collections import Counter

import pytest

import oracle_mutants
import store_oracle
from dpi.budget import billing
from proof_tools import needs_coq
from store_oracle import Life, compare

SLOW = bool(os.environ.get("DPI_SLOW"))
BRANCHES = {
    "a copy goes on", "a quota begins", "a quota grows", "a stream without a quota", "part of a weight",
    "refused: a copy", "refused: a quota", "slots by class", "slots by policy",
}  # fmt: skip


def play_all(program, lives):
    """Compare some lives; return what was hit."""
    hit = Counter()
    for seed in range(lives):
        life = Life(seed, actions=60)
        compare(program, life)
        hit += life.hit
    return hit


@needs_coq
def test_stores_pay_give_and_refuse_as_the_ledger_of_the_proof(tmp_path):
    """Lives of a store: the same weights, balances and bounds after each slot, the same quotas and copies refused."""
    hit = play_all(store_oracle.build(tmp_path), 400 if SLOW else 40)
    assert {name for name, number in hit.items() if number} == BRANCHES


@needs_coq
def test_a_store_that_gives_too_much_is_told(tmp_path, monkeypatch):
    """A quota of what may be spent: the ledger refuses what the program gives."""
    program = store_oracle.build(tmp_path)
    monkeypatch.setattr("dpi.stream.registration.assignable", lambda left, spent: left)
    with pytest.raises(AssertionError, match="the ledger says"):
        play_all(program, 40)


def test_a_life_is_the_same_each_time():
    """It follows from its seed, and no user pays more than the chain says."""
    one, other = Life(7, actions=25), Life(7, actions=25)
    one.play()
    other.play()
    assert [pool.lines for pool in one.pools.values()] == [pool.lines for pool in other.pools.values()]
    assert max(int(pool.total.max()) for pool in one.pools.values()) > 0


def test_every_fault_is_one_line_of_the_program():
    """The list of faults is up to date: each line that one changes is there, once, and the page names all of them."""
    page = (oracle_mutants.ROOT / "proofs/README.md").read_text()
    assert len({fault.what for fault in oracle_mutants.FAULTS}) == len(oracle_mutants.FAULTS) >= 20
    for fault in oracle_mutants.FAULTS:
        text = (oracle_mutants.PACKAGE / fault.file).read_text()
        assert text.count(fault.before) == 1, fault.what
        assert fault.before != fault.after
        assert f"| {fault.what} | `{fault.file}` | {fault.oracle} |" in page


@needs_coq
def test_faults_of_the_program_are_noticed():
    """Each of them in a copy of the package (a sixth of them in the short form); the program as it is has none."""
    assert billing.__file__.startswith(str(oracle_mutants.PACKAGE))
    assert oracle_mutants.run(slice(None) if SLOW else slice(0, None, 6)) == 0
