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


class Forgetting(dpi.MemoryStore):
    """Takes a batch as often as it comes."""

    def append(self, stream, events, producer, sequence):
        """Without looking at the sequence."""
        return super().append(stream, events, f"{producer} {len(self._content.streams[stream].events)}", sequence)


class Keeping(dpi.MemoryStore):
    """Keeps events for longer than it should."""

    def pay(self, paid, ledger, charge, payments=None):
        """Without erasing anything."""
        events = self._content.streams[paid.stream].events
        super().pay(paid, ledger, charge, payments)
        self._write({paid.stream: replace(self._content.streams[paid.stream], events=events)})


class Generous(dpi.MemoryStore):
    """Debits nobody."""

    def pay(self, paid, ledger, charge, payments=None):
        """Forgets the charge."""
        super().pay(paid, ledger, b"", payments)


class Mixed(dpi.MemoryStore):
    """Has one list of marks for all streams."""

    def marks(self, stream):
        """Whoever's they are."""
        return [mark for name in self.streams() for mark in super(Mixed, self).marks(name)]


class Losing(dpi.MemoryStore):
    """Does not know that a slot is paid for."""

    def pending(self, stream):
        """Nothing."""


class Silent(dpi.MemoryStore):
    """Leaves out the last entry of the chain."""

    def links(self):
        """All but one."""
        yield from [*super().links()][:-1]


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
        (Forgetting, "appended_events_count_once"),
        (Keeping, "a_payment_erases_the_events_of_all_slots_until_then"),
        (Generous, "no_account_goes_beyond_epsilon"),
        (Mixed, "marks_are_kept_until_they_are_forgotten"),
        (Losing, "a_paid_slot_is_released_with_the_bytes_it_would_have_had"),
        (Silent, "all_stores_give_the_same_ledger_releases_and_certificates"),
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

    class Merging(dpi.MemoryStore):
        """Makes one piece of events that came in several."""

        def events(self, stream, slot):
            """Twice merged is once merged."""
            return Rows.sum([super().events(stream, slot), Rows.empty()])

    check_store(opener(Merging, tmp_path))
