"""A store that was put back from an old copy."""

from __future__ import annotations

import shutil
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import dpi
from clocked import OneClass
from dpi.certificates.chain import extend
from dpi.errors import StateError
from dpi.histogram.compression import GRAINS
from dpi.noise import UnsafeSeededSource
from dpi.stream.prefix_tree import PrefixSums, PrefixTree
from dpi.testing.class_sums import ClassSums, SharedSums
from dpi.testing.workload import DOMAIN, open_streams
from dpi.verification import check_accounts, verify
from dpi.verification._store import read_chain

USERS = {slot: [f"u{number}" for number in range(slot, slot + 4)] for slot in range(12)}
"""Everybody takes part in four slots; newcomers in every slot."""


@pytest.fixture
def paths(sqlite, key_file, tmp_path):
    """Opens the store with its witness; keeps copies and puts them back."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    class Paths:
        witness = elsewhere / "witness"

        def open(self, **options):
            return dpi.open_store(sqlite, **({"key_file": key_file, "witness": self.witness} | options))

        def copy(self, name="copy"):
            shutil.copy(sqlite, tmp_path / name)

        def put_back(self, name="copy"):
            Path(sqlite + "-wal").unlink(missing_ok=True)
            shutil.copy(tmp_path / name, sqlite)

    return Paths()


def stream(store, budget=None, **options) -> dpi.Stream:
    """A stream of the test."""
    default = {"domain": DOMAIN, "epsilon": 1, "budget": budget or dpi.Ledger(per_slot="0.3")}
    return dpi.Stream(store=store, **(default | {"unsafe_source": UnsafeSeededSource(5)} | options))


class Truth:
    """What users have truly lost, whatever a store remembers: ε_t times their weight, for every slot measured."""

    def __init__(self, monkeypatch) -> None:
        self.units: dict[tuple[int, int], float] = defaultdict(float)
        bill = dpi.budget.Accounts.bill

        def noting(accounts, users, epsilon, slot, **options):
            made = bill(accounts, users, epsilon, slot, **options)
            costs = np.broadcast_to(made.units(np.arange(len(users))), len(users))
            for name, weight, units in zip(users.tolist(), made.weights.tolist(), costs.tolist(), strict=True):
                self.units[tuple(name)] += units * weight / GRAINS
            return made

        monkeypatch.setattr(dpi.budget.Accounts, "bill", noting)


def go_on(opened: dpi.Stream, slots: range) -> None:
    """Release some slots."""
    for slot in slots:
        opened.release(USERS[slot], ["DE"] * len(USERS[slot]), slot=slot)


def test_an_old_copy_is_refused(paths) -> None:
    """A store that does not contain what its witness saw is not opened, to write or to read."""
    with paths.open() as store:
        go_on(stream(store), range(2))
    paths.copy()
    with paths.open() as store:
        go_on(stream(store), range(2, 5))
        seen = store.witness.read()
    paths.put_back()
    for options in ({}, {"read_only": True}):
        with pytest.raises(StateError, match=r"old copy.*charge_lost"):
            paths.open(**options)
    with dpi.open_store(paths_target(paths), read_only=True) as store:
        assert any("old copy" in problem for problem in verify(store, seen=seen).problems)


def paths_target(paths) -> str:
    """The path of the store."""
    return str(paths.witness.parent.parent / "visits.db")


@pytest.mark.parametrize("policy", [dpi.budget.spend_first, dpi.budget.fade()], ids=["spend_first", "fade"])
def test_charged_for_lost_slots_nobody_spends_more_than_epsilon(paths, monkeypatch, policy, tmp_path) -> None:
    """Copy, go on, put back, charge, go on, twice: what each user has truly lost stays at most ε."""
    truth, budget = Truth(monkeypatch), dpi.Ledger(per_slot="0.3", policy=policy)
    signer = dpi.Signer.open(tmp_path / "signing.pem")
    with paths.open() as store:
        go_on(stream(store, budget, signer=signer), range(3))
        paths.copy()
        go_on(stream(store, budget, signer=signer), range(3, 5))
    paths.put_back()
    with paths.open(charge_lost=True, signer=signer) as store:
        opened = stream(store, budget, signer=signer)
        assert opened.next_slot == 5
        assert opened._accounts.remaining(pl.Series(["nobody yet"]), 5)[0] <= 1 - 2 * 0.3 + 1e-9
        go_on(opened, range(5, 7))
    paths.put_back()  # the same old copy once more: now four slots are lost, and one levy
    with paths.open(charge_lost=True, signer=signer) as store:
        go_on(stream(store, budget, signer=signer), range(7, 12))
        assert verify(store, verifier=signer.verifier).problems == ()
        assert check_accounts(store) == ()
        entry = next(link.entry for link in store.links() if link.entry["kind"] == "restored")
        assert entry["charged_units"] == {"": 4 * (3 * 2**40 // 10)}
    assert max(truth.units.values()) <= 2**40
    if policy is dpi.budget.spend_first:
        assert max(truth.units.values()) > 0.85 * 2**40  # not by charging everything


def test_a_signed_chain_is_not_continued_without_its_key(paths, tmp_path) -> None:
    """The entry about lost slots would have no signature: the store is refused, and is as it was."""
    signer, budget = dpi.Signer.open(tmp_path / "signing.pem"), dpi.Ledger(per_slot="0.3")
    with paths.open() as store:
        go_on(stream(store, budget, signer=signer), range(2))
        paths.copy()
        go_on(stream(store, budget, signer=signer), range(2, 4))
    paths.put_back()
    with pytest.raises(dpi.OptionError, match=r"is signed.*--sign"):
        paths.open(charge_lost=True)
    with paths.open(charge_lost=True, signer=signer) as store:
        assert stream(store, budget, signer=signer).next_slot == 4
        assert verify(store, verifier=signer.verifier).problems == ()


CLOCKED = dpi.Ledger(policy=dpi.budget.clocked(top=3))


def by_class(store, name="", **options) -> dpi.Stream:
    """A stream whose users pay by class."""
    return stream(store, CLOCKED, **({"mechanism": ClassSums(), "name": name} | options))


@pytest.mark.parametrize("mechanism", [ClassSums(), SharedSums()], ids=["clock", "shared"])
def test_lost_slots_of_classes_are_charged_account_by_account(paths, monkeypatch, tmp_path, mechanism) -> None:
    """Copy, go on, put back, charge, go on, twice: nobody truly loses more than ε, nor more than is said."""
    truth, options = Truth(monkeypatch), {"signer": dpi.Signer.open(tmp_path / "signing.pem"), "mechanism": mechanism}
    signer = options["signer"]
    with paths.open() as store:
        go_on(by_class(store, **options), range(3))
        paths.copy()
        go_on(by_class(store, **options), range(3, 5))
        seen = store.witness.read()
        assert seen.largest == {"": [*store.bounds("").largest]}
    before = dict(truth.units)
    paths.put_back()
    with paths.open(charge_lost=True, signer=signer) as store:
        opened = by_class(store, **options)
        assert opened.next_slot == 5
        everybody = pl.Series(sorted({user for slot in range(5) for user in USERS[slot]}))
        names = map(tuple, opened._accounts.names(everybody).tolist())
        for name, left in zip(names, opened._accounts.remaining(everybody, 5), strict=True):
            assert 0 < left <= 1 - before.pop(name) / 2**40 + 1e-9
        assert not before
        entry = store.link(store.head().sequence).entry
        assert entry["kind"] == "restored"
        assert entry["spent_units"][""] >= seen.spent[""]
        go_on(opened, range(5, 7))
    paths.put_back()
    with paths.open(charge_lost=True, signer=signer) as store:
        go_on(by_class(store, **options), range(7, 12))
        result = verify(store, verifier=signer.verifier)
        assert result.problems == ()
        assert check_accounts(store) == ()
    assert max(truth.units.values()) / 2**40 <= result.spent[""] <= 1


def test_streams_with_and_without_classes_are_charged_together(paths, monkeypatch) -> None:
    """Of one ledger with both, every account is charged for the lost slots of all."""
    truth = Truth(monkeypatch)
    with paths.open() as store:
        go_on(by_class(store, "classes"), range(2))
        go_on(stream(store, CLOCKED, name="plain", mechanism=OneClass()), range(1))
        paths.copy()
        go_on(by_class(store, "classes"), range(2, 4))
        go_on(stream(store, CLOCKED, name="plain", mechanism=OneClass()), range(1, 2))
    paths.put_back()
    with paths.open(charge_lost=True) as store:
        go_on(by_class(store, "classes"), range(4, 8))
        go_on(stream(store, CLOCKED, name="plain", mechanism=OneClass()), range(2, 5))
        assert verify(store).problems == ()
        assert check_accounts(store) == ()
    assert max(truth.units.values()) <= 2**40


@pytest.mark.parametrize("wrong", ["charged_units", "spent_units", "largest_shares"])
def test_a_charge_that_is_too_small_is_found(paths, wrong) -> None:
    """The verifier replays what lost slots can have taken: a smaller charge, sum or share is told."""
    with paths.open() as store:
        go_on(by_class(store), range(3))
        paths.copy()
        go_on(by_class(store), range(3, 6))
    paths.put_back()
    with paths.open(charge_lost=True) as store:
        links = [*store.links()]
        facts = {name: fact for name, fact in links[-1].entry.items() if name not in ("sequence", "previous")}
        smaller = {name: [1] if isinstance(value, list) else value - 1 for name, value in facts[wrong].items()}
        forged = [*links[:-1], extend(links[-2].head, facts | {wrong: smaller})]
        assert problems_of(links) == []
        assert problems_of(forged)


def problems_of(links) -> list[str]:
    """What a verifier says of entries alone."""
    problems: list[str] = []
    read_chain(links, None, problems)
    return problems


def test_a_ledger_is_charged_for_all_of_its_streams(paths, monkeypatch) -> None:
    """Two streams of one ledger that have lost slots are charged for together, and so nobody spends more than ε."""
    truth, names = Truth(monkeypatch), ("one", "two")
    with paths.open() as store:
        for name in names:
            go_on(stream(store, name=name), range(1))
        paths.copy()
        for name, slots in zip(names, (range(1, 3), range(1, 2)), strict=True):
            go_on(stream(store, name=name), slots)
    paths.put_back()
    with paths.open(charge_lost=True) as store:
        entry = next(link.entry for link in store.links() if link.entry["kind"] == "restored")
        assert entry["charged_units"] == {"": 3 * (3 * 2**40 // 10)}
        opened = [stream(store, name=name) for name in names]
        assert opened[0]._accounts.remaining(pl.Series(["nobody yet"]), 3)[0] <= 1 - 3 * 0.3 + 1e-9
        for again in opened:
            go_on(again, range(again.next_slot, 6))
        assert verify(store).problems == ()
        assert check_accounts(store) == ()
    assert max(truth.units.values()) <= 2**40


@dataclass(frozen=True)
class LaterPaysMore(ClassSums):
    """Three payments of next to nothing, and then next to all that is left."""

    def request_payments(self, state, slot):
        """Return all classes, each in a group of its own."""
        return tuple([((m, Fraction(4095 if m == 3 else 1, 4096)),) for m in range(state.classes)])


def test_a_copy_that_lacks_no_slot_of_a_stream_changes_its_classes_too(paths, monkeypatch) -> None:
    """A copy of a way that was left goes on: it lacks slots of one stream, and has another class in the other."""
    truth = Truth(monkeypatch)

    def release(store, name, slots, user):
        opened = by_class(store, name, mechanism=LaterPaysMore())
        for slot in slots:
            opened.release([user], ["DE"], slot=slot)

    with paths.open() as store:
        release(store, "other", range(1), "somebody")
        release(store, "own", range(1), "somebody")
        paths.copy("newcomer")
        release(store, "own", range(1, 4), "user")
        paths.copy("third class")
    paths.put_back("newcomer")
    with paths.open(charge_lost=True) as store:
        release(store, "other", range(1, 4), "somebody")
        paths.copy("newcomer again")
    paths.put_back("third class")  # lacks slots of "other" alone
    with paths.open(charge_lost=True) as store:
        assert store.witness.read().restored["own"] == [3]
        release(store, "own", range(4, 5), "user")  # pays nearly all
    paths.put_back("newcomer again")  # has no payment of this user
    with paths.open(charge_lost=True) as store:
        release(store, "own", range(5, 10), "user")
        assert verify(store).problems == ()
        assert check_accounts(store) == ()
    assert max(truth.units.values()) <= 2**40


def test_a_release_that_the_witness_refused_is_never_gone_on_with(paths, tmp_path, key_file) -> None:
    """Two files go on beside each other: the second one keeps a slot that the other released, and is refused."""
    with paths.open() as store:
        go_on(stream(store), range(1))
    other = tmp_path / "other.db"
    shutil.copy(paths_target(paths), other)

    def open_other(**options):
        return dpi.open_store(other, key_file=key_file, witness=paths.witness, **options)

    with paths.open() as store, open_other() as second:
        late = stream(second, unsafe_source=UnsafeSeededSource(6))
        go_on(stream(store), range(1, 2))
        with pytest.raises(StateError, match="another copy of the store goes on"):
            go_on(late, range(1, 2))
        go_on(stream(store), range(2, 4))  # its chain is longer now, as if the other were an old copy of it
    with pytest.raises(StateError, match="not known to have seen"):
        open_other(charge_lost=True)


def test_quotas_are_charged_each_for_itself_and_seen_to_grow(paths, monkeypatch) -> None:
    """Sub-accounts pay for their own lost slots; a copy from before a quota grew is not charged, since it was spent."""
    truth, names = Truth(monkeypatch), {"one": "0.5", "two": "0.25", "rest": None}

    def opened(store, name, quota, **options):
        return stream(store, dpi.Ledger(per_slot="0.1", quota=quota), name=name, **options)

    with paths.open() as store:
        for name, quota in names.items():
            go_on(opened(store, name, quota), range(1))
        paths.copy()
        for name, quota in names.items():
            go_on(opened(store, name, quota), range(1, 3))
        assert store.witness.read().quotas == {"one": 2**39, "two": 2**38}
    paths.put_back()
    with paths.open(charge_lost=True) as store:
        entry = next(link.entry for link in store.links() if link.entry["kind"] == "restored")
        assert set(entry["charged_units"]) == {"", "quota one", "quota two"}
        for name, quota in names.items():
            again = opened(store, name, quota)
            go_on(again, range(again.next_slot, 6))
        assert verify(store).problems == ()
        assert check_accounts(store) == ()
    assert max(truth.units.values()) <= 2**40


def test_a_copy_from_before_a_quota_grew_is_not_charged(paths) -> None:
    """The witness has seen what the quota was: in the copy, the difference is in the rest."""
    with paths.open() as store:
        go_on(stream(store, dpi.Ledger(per_slot="0.1", quota="0.25")), range(1))
        paths.copy()
        go_on(stream(store, dpi.Ledger(per_slot="0.1", quota="0.5"), change=True), range(1, 3))
    paths.put_back()
    with pytest.raises(StateError, match="grew after this copy"):
        paths.open(charge_lost=True)


def test_a_crash_after_the_charge_charges_once(paths, monkeypatch) -> None:
    """If the process ends between the charge and telling the witness, the next one goes on, with nothing added."""
    with paths.open() as store:
        go_on(stream(store), range(1))
        paths.copy()
        go_on(stream(store), range(1, 2))
    paths.put_back()
    with monkeypatch.context() as patch:
        patch.setattr(dpi.store.Store, "testify", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            paths.open(charge_lost=True)
    with paths.open() as store:
        assert [link.entry["kind"] for link in store.links()] == ["options", "release", "restored"]
        go_on(stream(store), range(2, 3))
        assert verify(store, seen=store.witness.read()).intact


def test_a_copy_cannot_go_on_unseen(paths) -> None:
    """A store that has a witness is not written to without it, so a copy has released nothing that is not charged."""
    with paths.open() as store:
        go_on(stream(store), range(1))
    with pytest.raises(StateError, match="name it"):
        paths.open(witness=None)
    with pytest.raises(StateError, match="missing"):
        paths.open(witness=paths.witness.with_name("another"))
    paths.open(witness=None, read_only=True).close()


def test_two_ways_are_not_charged(paths) -> None:
    """If both the copy and the original went on, what was spent is unknown: the older witness is refused."""
    with paths.open() as store:
        go_on(stream(store), range(1))
        paths.copy()
        go_on(stream(store), range(1, 2))
    paths.put_back()
    second = paths.witness.with_name("second")
    with paths.open(witness=second, new_witness=True) as store:  # somebody vouches, wrongly
        go_on(stream(store), range(1, 4))
    with pytest.raises(StateError, match="not the one of this store"):
        paths.open(charge_lost=True)


def test_a_copy_from_before_the_witness_is_not_charged(paths) -> None:
    """A copy that never had a witness may have gone on without one, so no charge is known to be enough."""
    with paths.open(witness=False) as store:
        go_on(stream(store), range(1))
    paths.copy()
    with paths.open() as store:
        go_on(stream(store), range(1, 3))
    paths.put_back()
    with pytest.raises(StateError, match="before the witness"):
        paths.open(charge_lost=True)


def test_a_series_goes_on_after_its_lost_elements(paths) -> None:
    """A converging series in order skips what was drawn in the lost slots."""
    budget = dpi.Converging(dpi.budget.Zeta(2))
    with paths.open() as store:
        go_on(stream(store, budget), range(2))
        paths.copy()
        go_on(stream(store, budget), range(2, 5))
    paths.put_back()
    with paths.open(charge_lost=True) as store:
        opened = stream(store, budget)
        release = opened.release(["ada"], ["DE"])
        assert release.slot == 5
        whole = budget.allocation(opened.epsilon)
        drawn = [whole.draw(UnsafeSeededSource(0)) for _ in range(6)]
        assert release.epsilon == float(drawn[5])
        assert release.certificate["epsilon_spent_units"] == sum(epsilon.units for epsilon in drawn)
        assert verify(store).intact


def test_a_random_series_is_refused(paths) -> None:
    """A series drawn at random does not know what was drawn in the lost slots; nothing is changed."""
    budget = dpi.Converging(dpi.budget.Zeta(2), draw=dpi.budget.RBA(4.0))
    with paths.open() as store:
        go_on(stream(store, budget), range(1))
        paths.copy()
        go_on(stream(store, budget), range(1, 2))
    paths.put_back()
    before = Path(paths_target(paths)).read_bytes()
    with pytest.raises(StateError, match="drawn at random"):
        paths.open(charge_lost=True)
    assert Path(paths_target(paths)).read_bytes() == before


@pytest.mark.parametrize("text", ["", "{", '{"sequence": "1"}', "[]", "\udcff"])
def test_a_damaged_witness_is_no_witness(paths, text) -> None:
    """A witness file that cannot be read stops the store, with a sentence."""
    with paths.open() as store:
        open_streams(store)
    paths.witness.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(StateError, match="damaged"):
        paths.open()


def test_a_witness_that_cannot_be_written_holds_the_release_back(paths, monkeypatch) -> None:
    """A release is not handed out before the witness knows it; asking for it later tells the witness first."""
    store = paths.open()
    opened = stream(store)
    folder = paths.witness.parent
    folder.rename(folder.with_name("away"))
    for ask in (lambda: go_on(opened, range(1)), lambda: opened.released(0)):
        with pytest.raises(OSError, match="witness"):
            ask()
    folder.with_name("away").rename(folder)
    assert opened.released(0).slot == 0
    assert store.witness.read().last == {"": 0}
    store.close()


def test_noise_of_an_open_node_is_not_used_again(paths) -> None:
    """A tree of sums is planted anew: two sums with the same noise would differ by exact counts."""
    tree = PrefixTree(per_slot="0.1", arity=4)
    with paths.open() as store:
        go_on(stream(store, accumulate=tree), range(2))
        paths.copy()
        go_on(stream(store, accumulate=tree), range(2, 5))
    paths.put_back()
    with dpi.open_store(paths_target(paths), read_only=True) as store:
        old = store.progress("").tree
    with paths.open(charge_lost=True) as store:
        assert store.progress("").tree == b""
        opened = stream(store, accumulate=tree, unsafe_source=UnsafeSeededSource(6))
        grown = PrefixSums.from_bytes(tree, DOMAIN.size, old)
        assert opened.driver.state.tree.finished == (0, 0, 0)
        assert not (opened.driver.state.tree.opened == grown.opened).any()
        go_on(opened, range(5, 7))
        assert store.progress("").tree != b""
    assert old not in Path(paths_target(paths)).read_bytes()
