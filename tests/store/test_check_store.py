"""What every store must do (`dpi.testing.check_store`), on memory, SQLite and PostgreSQL."""

from __future__ import annotations

import pytest

import dpi
from dpi.errors import OptionError, StateError
from dpi.noise import UnsafeSeededSource
from dpi.testing import STORE_CHECKS
from dpi.testing import _store as checks
from dpi.testing.workload import CLOCK, DOMAIN
from dpi.verification import verify

BUDGET = dpi.Ledger(per_slot="0.4")


def stream(store, **options) -> dpi.Stream:
    """A small stream with a reproducible source."""
    defaults = {"domain": DOMAIN, "epsilon": 1, "budget": BUDGET, "unsafe_source": UnsafeSeededSource(1)}
    return dpi.Stream(store=store, **(defaults | options))


def test_all_stores_give_the_same_ledger_releases_and_certificates(reopen) -> None:
    """With the test generator a workload ends in the same bytes on every store, stopped after each slot or not."""
    checks.all_stores_give_the_same_ledger_releases_and_certificates(reopen)


def test_a_paid_slot_is_released_with_the_bytes_it_would_have_had(reopen) -> None:
    """A slot that was paid for and not released is released on opening, from the stored measurement."""
    checks.a_paid_slot_is_released_with_the_bytes_it_would_have_had(reopen)


def test_a_pending_slot_of_one_stream_binds_the_others(reopen) -> None:
    """Between a payment and its doubtful end no other stream goes on with accounts that lack the payment."""
    checks.a_pending_slot_of_one_stream_binds_the_others(reopen)


def test_no_account_goes_beyond_epsilon(reopen) -> None:
    """Streams that share a ledger spend one ε, over restarts; an empty slot is released too."""
    checks.no_account_goes_beyond_epsilon(reopen)


def test_separate_pools_are_separate(reopen) -> None:
    """A stream with an ε of its own leaves the shared accounts alone, and says the sum."""
    checks.separate_pools_are_separate(reopen)


def test_appended_events_count_once(reopen) -> None:
    """A batch with a (producer, sequence) that was there is not counted again, also by another process."""
    checks.appended_events_count_once(reopen)


def test_marks_are_kept_until_they_are_forgotten(reopen) -> None:
    """In order, for one stream, also noted by another thread and read by another process."""
    checks.marks_are_kept_until_they_are_forgotten(reopen)


def test_a_payment_erases_the_events_of_all_slots_until_then(reopen) -> None:
    """Events that were kept for a slot before the one that is paid are erased with it; later ones stay."""
    checks.a_payment_erases_the_events_of_all_slots_until_then(reopen)


def test_options_change_only_as_a_public_entry(reopen) -> None:
    """Other options are refused, or by name become an entry of the chain from a slot on; old ones are then refused."""
    store, wider = reopen(), dpi.Categories(["DE", "FR"])
    opened = stream(store, **CLOCK)
    opened.append(["ada"], ["2026-01-01T00:10"], ["DE"], now="2026-01-01T00:10")
    with pytest.raises(StateError, match="other options"):
        stream(store, domain=wider, **CLOCK)
    changed = stream(store, domain=wider, change="2026-01-01T01:00", **CLOCK)
    assert [link.entry["kind"] for link in store.links()] == ["options", "options"]
    assert [link.entry.get("from") for link in store.links()] == [None, changed.next_slot + 1]
    assert store.events("", changed.next_slot).counts.size == 1
    assert [release.domain.size for release in changed.advance(now="2026-01-01T02:00")] == [4, 3]
    store = reopen(store)
    with pytest.raises(StateError, match="other options"):
        stream(store, **CLOCK)
    with pytest.raises(OptionError, match="another promise"):
        stream(store, domain=wider, epsilon=2, change=True, **CLOCK)
    assert verify(store).intact
    store.close()


def test_a_change_loses_no_event(reopen) -> None:
    """Events of slots that are open when options change are released under their own slot's options."""
    checks.a_change_loses_no_event(reopen)


def test_events_of_slots_that_change_are_told_by_their_new_bins(reopen) -> None:
    """Where a change begins with a slot for which there are events, those with a bin in the new domain stay."""
    checks.events_of_slots_that_change_are_told_by_their_new_bins(reopen)


def test_a_ledger_of_another_promise_is_refused_before_the_chain_says_anything(reopen) -> None:
    """A stream that cannot share the ledger leaves no trace in the store, nor does such a change of a stream."""
    checks.a_ledger_of_another_promise_is_refused_before_the_chain_says_anything(reopen)


def test_accounts_with_a_period_serve_one_stream(reopen) -> None:
    """A second stream on accounts with epochs is refused when it is opened."""
    checks.accounts_with_a_period_serve_one_stream(reopen)


def test_a_stream_that_was_opened_twice_releases_a_slot_once(reopen) -> None:
    """Of two objects of one stream the second to close a slot is refused, whatever its budget."""
    checks.a_stream_that_was_opened_twice_releases_a_slot_once(reopen)


def test_every_check_of_a_store_is_run_here() -> None:
    """Each check of the public list is a test of its name, so that the page of promises can name it."""
    assert [check.__name__ for check in STORE_CHECKS if f"test_{check.__name__}" not in globals()] == []
