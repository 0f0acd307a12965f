"""Checks of stores find what they are there for: a store that is wrong in one way at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import dpi
from dpi.events.rows import Rows
from dpi.store import Store
from dpi.testing import STORE_CHECKS, check_store
from dpi.testing._checking import run_checks


def forgetting(self, stream, events, producer, sequence):
    """Take a batch as often as it comes, without looking at the sequence."""
    other = f"{producer} {len(self._content.streams[stream].events)}"
    return dpi.MemoryStore.append(self, stream, events, other, sequence)


def keeping(self, paid, ledger, charge, payments=None):
    """Keep events for longer than it should: nothing is erased."""
    events = self._content.streams[paid.stream].events
    dpi.MemoryStore.pay(self, paid, ledger, charge, payments)
    self._write({paid.stream: replace(self._content.streams[paid.stream], events=events)})


def generous(self, paid, ledger, charge, payments=None):
    """Debit nobody."""
    dpi.MemoryStore.pay(self, paid, ledger, b"", payments)


def mixed(self, stream):
    """One list of marks for all streams."""
    return [mark for name in self.streams() for mark in dpi.MemoryStore.marks(self, name)]


def silent(self):
    """All entries of the chain but the last."""
    yield from [*dpi.MemoryStore.links(self)][:-1]


def broken(**methods):
    """Return a kind of store that does one thing in another way."""
    return type("Broken", (dpi.MemoryStore,), methods)


def opener(kind: type[dpi.MemoryStore], folder: Path):
    """Opens stores of a kind, and what is saved of them."""
    count = iter(range(1000))

    def fresh():
        path = folder / str(next(count))

        def reopen(store: Store | None = None) -> Store:
            if store is None:
                return kind()
            store.save(path)
            return kind.load(path)

        return reopen

    return fresh


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (broken(append=forgetting), "appended_events_count_once"),
        (broken(pay=keeping), "a_payment_erases_the_events_of_all_slots_until_then"),
        (broken(pay=generous), "no_account_goes_beyond_epsilon"),
        (broken(marks=mixed), "marks_are_kept_until_they_are_forgotten"),
        (broken(pending=lambda self, stream: None), "a_paid_slot_is_released_with_the_bytes_it_would_have_had"),
        (broken(links=silent), "all_stores_give_the_same_ledger_releases_and_certificates"),
    ],
)
def test_a_store_that_is_wrong_in_one_way_is_found(kind, found, tmp_path: Path) -> None:
    """The check that is there for a fault fails on it, by name; the whole suite refuses the store."""
    (check,) = [check for check in STORE_CHECKS if check.__name__ == found]
    fresh = opener(kind, tmp_path)
    with pytest.raises(AssertionError, match=rf"^{found}: .+"):
        run_checks([check], fresh())
    with pytest.raises(AssertionError, match=r"^\w+: .+"):
        check_store(fresh)


def test_a_store_of_ones_own_passes(tmp_path: Path) -> None:
    """A store that does as it should, in another way, is not found wrong."""

    def merging(self, stream, slot):
        """Make one piece of events that came in several: twice merged is once merged."""
        return Rows.sum([dpi.MemoryStore.events(self, stream, slot), Rows.empty()])

    check_store(opener(broken(events=merging), tmp_path))
