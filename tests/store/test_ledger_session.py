"""The session of a store object: one set of accounts for all streams that live, and none that lacks a debit."""

from __future__ import annotations

import gc
import weakref

import polars as pl
import pytest

import dpi
from dpi.errors import OptionError
from dpi.store.ledger_session import LedgerSession
from dpi.testing.workload import DOMAIN

BUDGET = dpi.Ledger(per_slot="0.6", policy=dpi.budget.spend_first)


def stream(store, **options) -> dpi.Stream:
    """A small stream that takes 0.6 of an account of 1."""
    return dpi.Stream(store=store, **({"domain": DOMAIN, "epsilon": 1, "budget": BUDGET} | options))


def left(session: LedgerSession, user: str) -> float:
    """What a user has left, as the session knows it."""
    return float(session.accounts("", BUDGET, dpi.budget.Epsilon.at_most(1)).remaining(pl.Series([user]), 0)[0])


def test_a_store_has_one_bank(reopen) -> None:
    """All streams of a store object share a session, also one after the other; another store object has another."""
    store = reopen()
    one, two = stream(store, name="one"), stream(store, name="two")
    assert LedgerSession.of(store) is one._session is two._session
    session = one._session
    del one, two
    gc.collect()
    assert stream(store, name="one")._session is session
    assert LedgerSession.of(other := dpi.MemoryStore()) is not session
    assert LedgerSession.of(other).store is other
    store.close()


def test_a_bank_keeps_no_store_alive() -> None:
    """A store in memory, with its accounts, is gone with the last that holds it, at once."""
    opened = stream(dpi.MemoryStore())
    store, session = weakref.ref(opened.store), weakref.ref(opened._session)
    gc.disable()
    try:
        del opened
        assert store() is None
        assert session() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("method", ["pay", "publish", "testify"])
def test_a_stream_that_comes_after_an_interrupted_one_has_its_debits(reopen, monkeypatch, method) -> None:
    """What was paid counts for the next stream as well, though nobody was left to settle."""
    store = reopen()
    one = stream(store, name="one")
    with monkeypatch.context() as patch:
        whole = getattr(store, method)

        def interrupted(*arguments: object) -> None:
            whole(*arguments)
            raise KeyboardInterrupt

        patch.setattr(store, method, interrupted)
        with pytest.raises(KeyboardInterrupt):
            one.release(["ada"], ["DE"])
    del one
    gc.collect()
    two = stream(store, name="two")
    assert left(two._session, "ada") == pytest.approx(0.4, abs=1e-6)
    two.release(["ada"], ["DE"])
    assert left(two._session, "ada") == pytest.approx(0, abs=1e-6)
    store.close()


def test_a_bank_refuses_accounts_of_another_promise(reopen) -> None:
    """Accounts that streams hold are not read by other options."""
    store = reopen()
    session = LedgerSession.of(store)
    session.accounts("", BUDGET, dpi.budget.Epsilon.at_most(1))
    with pytest.raises(OptionError, match="ledger that streams share"):
        session.accounts("", BUDGET, dpi.budget.Epsilon.at_most(2))
    store.close()


def test_accounts_are_read_anew_after_doubt_alone(reopen, monkeypatch) -> None:
    """A session reads a ledger when it is first asked for and after a write that failed, and at no other time."""
    store = reopen()
    one, reads = stream(store), []
    opened = store.ledger_table
    monkeypatch.setattr(
        store, "ledger_table", lambda *names, **paying: (reads.append(names), opened(*names, **paying))[1]
    )
    for slot in range(3):
        one.release(["ada"], ["DE"], slot=slot)
    assert reads == []
    with pytest.raises(KeyboardInterrupt), one._session.writing():
        raise KeyboardInterrupt
    for slot in (3, 4):
        one.release(["ada"], ["DE"], slot=slot)
    assert len(reads) == 1
    store.close()
