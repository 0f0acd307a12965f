"""Stores of every format that there was, opened by the program of today. A file here is never made anew."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import kept_stores
import pytest
from kept_stores import DOMAIN, EMPTY, KEY, RELEASED, close_slot, names, opened

import dpi
from dpi.budget.odds import odds
from dpi.certificates.declared import declared
from dpi.events.identity import users
from dpi.options import FORMAT
from dpi.store import schema
from dpi.store.export import export
from dpi.verification import check_accounts, verify

FIXTURES = Path(__file__).parent / "fixtures"
KEPT = sorted(path.stem for path in FIXTURES.glob("*.sql"))
GUARANTEES = {
    "visits": (1, "the streams of the shared ledger together", "accounts of every user"),
    "series": (2, "this stream alone", "a converging series"),
    "plain": (1, "this stream alone", "accounts of every user"),
}


def promised(name, format):
    """What is promised of a stream from now on, in the words of today."""
    (epsilon, scope, kept), total = GUARANTEES[name], 3 if format < 3 else 4
    return (
        f"Pure differential privacy, ε = {epsilon} per user for ever, for {scope}; neighbours differ in all events of "
        f"one user. {odds(epsilon, epochs=False)} Kept by {kept}. All streams of this store sum to {total} per user "
        "for ever."
    )


NOTHING = Fraction(1, 1 << 30)
"""The rounding of a slot's price leaves a few units of 2^-40."""


def format_of(kept):
    """The format of the options in a kept store, as its file's name says."""
    return int(kept.rpartition("-")[2])


@pytest.fixture(params=KEPT)
def kept(request, tmp_path):
    """A copy of a kept store, with its key beside it; and the format of its options."""
    path = tmp_path / "kept.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript((FIXTURES / f"{request.param}.sql").read_text())
    key = tmp_path / "kept.db.key"
    key.write_text(KEY.hex())
    key.chmod(0o600)
    return path, format_of(request.param)


def left(store, stream):
    """What the one who was in every slot has left on the account. Private."""
    ids = users([EMPTY], store.identity_rule)
    return stream._accounts.remaining(ids, stream.next_slot)[0]


def test_there_is_one_of_every_format():
    """Whoever adds a schema or a format of options keeps a store of it: `kept_stores.py` says how."""
    newest = f"schema-{max(schema.VERSIONS)}-options-{FORMAT}"
    assert {format_of(name) for name in KEPT} == set(range(1, FORMAT + 1))
    assert {int(name.split("-")[1]) for name in KEPT} == set(range(1, max(schema.VERSIONS) + 1))
    assert newest in KEPT
    for name in KEPT:
        assert (FIXTURES / f"{name}.saved").is_file()
        assert (FIXTURES / f"{name}.sql").stat().st_size < 100_000


def test_a_kept_store_goes_on(kept):
    """It is migrated, verifies whole, goes on without a new declaration, and nobody's account is refilled."""
    path, format = kept
    with dpi.open_store(path) as store:
        assert verify(store).whole
        assert check_accounts(store) == ()
        entries, texts = store.head().sequence + 1, store.streams()
        assert {options.format for options in declared(texts).values()} == {format}
        streams = {name: opened(store, name) for name in names(format)}
        assert store.head().sequence + 1 == entries
        assert left(store, streams["visits"]) < NOTHING
        before = {name: [release for release, _ in store.releases(name)] for name in names(format)}
        for name, stream in streams.items():
            for slot in (RELEASED, RELEASED + 1):
                assert close_slot(stream, slot).guarantee == promised(name, format)
        assert left(store, streams["visits"]) < NOTHING
        assert store.streams() == texts
        found = verify(store)
        assert found.problems == ()
        assert found.spans["visits"].last - found.spans["visits"].first == RELEASED + 1
        assert check_accounts(store) == ()
        assert all([r for r, _ in store.releases(name)][:RELEASED] == before[name] for name in names(format))


def test_events_of_an_open_slot_are_still_there(kept):
    """Those that were acknowledged before the store was closed are in the next release."""
    path, _ = kept
    with dpi.open_store(path) as store:
        stream = opened(store, "visits")
        assert store.events("visits", stream.next_slot).counts.sum() == 2


def test_a_kept_store_is_changed_in_the_newest_format(kept):
    """A public change is declared in today's format; chain and accounts go on over it."""
    path, _ = kept
    with dpi.open_store(path) as store:
        entries = store.head().sequence
        stream = opened(store, "visits", budget=dpi.Ledger(per_slot="0.3"), change=True)
        assert store.head().sequence == entries + 1
        assert declared(store.streams())["visits"].format == FORMAT
        assert left(store, stream) < NOTHING
        close_slot(stream, RELEASED)
        close_slot(opened(store, "series"), RELEASED)
        assert verify(store).problems == ()


def test_a_kept_store_keeps_its_open_events_over_a_change_of_the_domain(kept):
    """Under the options of their slot or, where a program of that time printed those, by the bin that is now theirs."""
    path, format = kept
    wider = dpi.Categories(["FR", "ES", "DE"], other="elsewhere")
    with dpi.open_store(path) as store:
        stream = opened(store, "visits", domain=wider, change="next" if format == 1 else "2026-01-01T04:00")
        assert sorted(store.events("visits", stream.next_slot).bins.tolist()) == ([0, 2] if format == 1 else [0, 1])
        releases = [close_slot(stream, slot) for slot in (RELEASED, RELEASED + 1)]
        assert [release.domain for release in releases] == [wider if format == 1 else DOMAIN, wider]
        assert left(store, stream) < NOTHING
        assert verify(store).problems == ()


def test_a_kept_store_is_exported(kept, tmp_path):
    """An export of it, once it is migrated, verifies like any other."""
    path, _ = kept
    dpi.open_store(path).close()
    with dpi.open_store(path, read_only=True) as store:
        export(store, tmp_path / "public.db")
    with dpi.open_store(tmp_path / "public.db", read_only=True) as public:
        assert verify(public).whole


@pytest.mark.parametrize("name", KEPT)
def test_a_saved_store_of_every_format_goes_on(name, tmp_path):
    """What a program of that time saved of streams in memory is loaded, and they release on."""
    path = tmp_path / "saved"
    shutil.copy(FIXTURES / f"{name}.saved", path)
    path.chmod(0o600)
    store = dpi.MemoryStore.load(path)
    assert store.key == KEY
    assert verify(store).whole
    texts = store.streams()
    for stream_name in names(format_of(name)):
        stream = opened(store, stream_name)
        for slot in (RELEASED, RELEASED + 1):
            assert close_slot(stream, slot).guarantee == promised(stream_name, format_of(name))
    assert left(store, opened(store, "visits")) < NOTHING
    assert store.streams() == texts
    assert verify(store).problems == ()


def test_this_program_makes_such_a_store(tmp_path):
    """What is kept of today's format is what today's program writes: the same streams, tables and declarations."""
    kept_stores.keep(str(tmp_path / "now"))
    newest = FIXTURES / f"schema-{max(schema.VERSIONS)}-options-{FORMAT}.sql"

    def declarations(text):
        return [line for line in text.splitlines() if line.startswith(("CREATE TABLE", 'INSERT INTO "streams"'))]

    assert declarations((tmp_path / "now.sql").read_text()) == declarations(newest.read_text())
