"""Stores with accounts in pages as programs of the past have left them, opened by the program of today."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from kept_stores import EMPTY, RELEASED, close_slot, keep_pages, laid_out, names, opened

import dpi
from dpi.certificates.declared import declared
from dpi.errors import StateError
from dpi.events.identity import users
from dpi.store.relayout import embed
from dpi.verification import check_accounts, verify

KEPT = sorted(path.parent for path in (Path(__file__).parent / "fixtures").glob("pages-*/store.sql"))
NOTHING = Fraction(1, 1 << 30)
"""The rounding of a slot's price leaves a few units of 2^-40."""


@pytest.fixture(params=KEPT, ids=lambda kept: kept.name)
def kept(request, tmp_path):
    """A copy of a kept store in pages, with its key beside it."""
    laid_out(request.param, tmp_path / "kept.db")
    return tmp_path / "kept.db"


def left(store, stream):
    """What the one who was in every slot has left on the account. Private."""
    return stream._accounts.remaining(users([EMPTY], store.identity_rule), stream.next_slot)[0]


def test_there_is_one():
    """Whoever changes the format of pages keeps a store of it: `kept_stores.py` says how."""
    assert KEPT


def test_a_kept_store_in_pages_goes_on(kept):
    """It is in pages still, verifies whole, goes on, and nobody's account is refilled, wherever it lies."""
    with dpi.open_store(kept) as store:
        assert store.in_pages is not None
        assert store.engine.rows("SELECT COUNT(*) FROM manifest WHERE size > 0")[0][0] > 1
        assert store.engine.rows("SELECT COUNT(*) FROM account_runs")[0][0] > 0
        assert verify(store).whole
        assert check_accounts(store) == ()
        (format,) = {options.format for options in declared(store.streams()).values()}
        streams = {name: opened(store, name) for name in names(format)}
        assert left(store, streams["visits"]) < NOTHING
        for stream in streams.values():
            close_slot(stream, RELEASED)
        assert left(store, streams["visits"]) < NOTHING
        assert check_accounts(store) == ()
        embed(store)
        assert left(store, opened(store, "visits")) < NOTHING
        assert verify(store).problems == ()


def test_a_kept_page_that_was_changed_is_refused(kept):
    """One bit of one account, of those that files have."""
    with dpi.open_store(kept) as store:
        name = store.engine.rows("SELECT name FROM manifest WHERE size > 0 ORDER BY name")[0][0]
        page = store.folder.path / name
        data = page.read_bytes()
        page.write_bytes(data[:16] + bytes([data[16] ^ 1]) + data[17:])
        assert check_accounts(store) != ()
        with pytest.raises(StateError):
            embed(store)


def test_this_program_keeps_such_a_store(tmp_path, monkeypatch):
    """What it writes today can be kept, and is read as what is kept."""
    for name in ("dpi.store.paged_table.LARGEST", "dpi.store.paged_table.LEAST", "dpi.store.opening.LEAST"):
        monkeypatch.setattr(name, 1)  # what `keep_pages` sets is set back after the test
    keep_pages(str(tmp_path / "now"))
    laid_out(tmp_path / "now", tmp_path / "kept.db")
    with dpi.open_store(tmp_path / "kept.db") as store:
        assert check_accounts(store) == ()
