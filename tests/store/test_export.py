"""An export: public columns and released slots alone, the same bytes for the same releases."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import numpy as np
import pytest

import dpi
from dpi.errors import OptionError, StateError
from dpi.store import _engine, export
from dpi.store._schema import FORMAT, TABLES
from dpi.stream.prefix_tree import PrefixTree
from dpi.testing.workload import KEY, close_slot, open_streams, outcome, run
from dpi.verification import verify
from dpi_audit import StoredSession, compare, exported, neighbours
from dpi_audit.reach import MARKER
from dpi_audit.small import VALUES, stream

PRIVATE = {"arrivals", "trees", "ledgers", "levies", "account_runs", "sequences", "events", "marks"}


@pytest.fixture
def store(durable):
    """A store with three streams, on every engine."""
    with durable() as opened:
        list(run(opened))
        yield opened


def test_an_export_verifies_and_holds_all_that_is_public(store, tmp_path) -> None:
    """Chain, releases, domains, options and measurements are those of the store, and the checks find nothing wrong."""
    export.export(store, tmp_path / "public.db")
    with dpi.open_store(tmp_path / "public.db", read_only=True) as public:
        assert verify(public).intact
        assert public.head() == store.head()
        assert public.streams() == store.streams()
        for name in store.streams():
            assert [*public.releases(name)] == [*store.releases(name)]
            assert public.reached(name) == store.reached(name)


def test_private_tables_are_not_in_it(store, tmp_path) -> None:
    """No accounts, ledgers, levies, trees, sequences and events; no key and no witness; no name of an account."""
    store.witnessed_by = "witness-of-the-store"
    visits = open_streams(store)[0]
    visits.append(["late"], ["2026-01-01T04:10"], ["DE"], now="2026-01-01T04:10")
    (name,) = store.events("visits", visits.next_slot).names
    export.export(store, tmp_path / "public.db")
    with closing(sqlite3.connect(tmp_path / "public.db")) as file:
        tables = {table for (table,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        facts = dict(file.execute("SELECT name, value FROM facts"))
    assert tables == {"facts", *export.PUBLIC}
    assert not tables & PRIVATE
    assert facts == {"export": "1", "schema": str(FORMAT), "version": dpi.__version__}
    data = (tmp_path / "public.db").read_bytes()
    records = b"".join(store.load_ledger(ledger, options)[0] for ledger, options in store.ledgers().items())
    accounts = {records[at : at + 16] for at in range(0, len(records), 36)}
    assert len(accounts) > 12
    assert not any(account in data for account in [*accounts, name.tobytes(), KEY, b"witness-of-the-store"])


def test_every_table_is_listed_as_public_or_private() -> None:
    """A table that is added to the schema must be thought about here."""
    assert set(TABLES) == {"facts", *export.PUBLIC} | PRIVATE


def test_a_slot_that_is_paid_and_not_released_is_not_in_it(store, tmp_path, monkeypatch) -> None:
    """Between PAY and PUBLISH the measurement is nobody's to see."""
    export.export(store, tmp_path / "before.db")
    orders = open_streams(store)[1]
    monkeypatch.setattr(type(store), "publish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        close_slot(orders, orders.next_slot)
    assert store.pending("orders") is not None
    export.export(store, tmp_path / "after.db")
    assert (tmp_path / "after.db").read_bytes() == (tmp_path / "before.db").read_bytes()


def test_engines_and_copies_agree(store, tmp_path, key_file) -> None:
    """The same releases give the same bytes on every engine, however often they are exported."""
    for name in ("one", "two"):
        export.export(store, tmp_path / name)
    with dpi.open_store(tmp_path / "one", read_only=True) as again:
        export.export(again, tmp_path / "three")
    with dpi.open_store(tmp_path / "other.db", key_file=key_file) as other:
        list(run(other))
        export.export(other, tmp_path / "four")
    assert len({(tmp_path / name).read_bytes() for name in ("one", "two", "three", "four")}) == 1


@pytest.mark.parametrize(
    "options",
    [{}, {"budget": dpi.Ledger()}, {"accumulate": PrefixTree(per_slot="0.01", arity=2)}],
    ids=["ledger", "automatic", "tree"],
)
def test_neighbours_with_equal_releases_give_equal_bytes(options) -> None:
    """Whoever is in the streams, their exports are the same, byte for byte, after every slot."""
    for each in (neighbours.alone(3, VALUES), neighbours.every_slot(3, VALUES)):
        opened = lambda: StoredSession(lambda store: stream(store=store, **options))  # noqa: E731
        reach = compare(opened, each, surfaces=(exported,))
        assert reach.differences == ()
        assert any(name == "exported, file" for name in reach.surfaces)


def test_a_store_itself_would_differ() -> None:
    """The same comparison of the stores finds the difference: it is no empty test."""

    def copied(session):
        session.stream.store.engine.erase()
        return {"file": session.stream.store.engine.path.read_bytes()}

    opened = lambda: StoredSession(lambda store: stream(store=store))  # noqa: E731
    assert compare(opened, neighbours.every_slot(2, VALUES), surfaces=(copied,), marker=MARKER).differences


def test_an_export_is_not_written_to(store, tmp_path) -> None:
    """Neither a stream nor a curator opens it, and it and its folder stay as they are."""
    path = tmp_path / "elsewhere"
    path.mkdir()
    export.export(store, path / "public.db")
    before = (path / "public.db").read_bytes()
    for options in ({}, {"read_only": True, "curator": True}, {"witness": path / "seen"}):
        with pytest.raises(StateError, match="is an export"):
            dpi.open_store(path / "public.db", **options)
    with pytest.raises(StateError, match="is an export"):
        dpi.Stream(domain=dpi.Categories(["a"]), epsilon=1, store=path / "public.db")
    with (
        dpi.open_store(path / "public.db", read_only=True) as public,
        pytest.raises(StateError, match="without its key"),
    ):
        open_streams(public)
    assert [file.name for file in path.iterdir()] == ["public.db"]
    assert (path / "public.db").read_bytes() == before


def test_nothing_is_replaced_and_nothing_half_made_stays(store, tmp_path, monkeypatch) -> None:
    """A file, a folder or a dangling link of that name stays; a failure in the middle leaves no file."""
    path = tmp_path / "elsewhere"
    path.mkdir()
    (path / "file").write_text("mine")
    (path / "folder").mkdir()
    (path / "link").symlink_to("nowhere")
    for name in ("file", "folder", "link"):
        with pytest.raises(OptionError, match="exists already"):
            export.export(store, path / name)
    with pytest.raises(OptionError, match="folder that exists"):
        export.export(store, path / "nowhere" / "public.db")
    monkeypatch.setattr(export, "put_new", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        export.export(store, path / "public.db")
    monkeypatch.undo()
    monkeypatch.setattr(export, "_fill", lambda *_: (path / "late.db").write_text("mine"))
    with pytest.raises(OptionError, match="exists already"):
        export.export(store, path / "late.db")
    assert sorted(file.name for file in path.iterdir()) == ["file", "folder", "late.db", "link"]
    assert (path / "late.db").read_text() == "mine"


def test_a_store_that_goes_on_is_exported_as_of_one_moment(durable, tmp_path) -> None:
    """What is released while it is read is not in it by halves: a reader's export verifies while another writes."""
    with durable() as writer:
        list(run(writer, 1))
        with durable(read_only=True) as reader:
            whole = export._rows

            def late(store, name, upto):
                if name == "releases":
                    list(run(writer, 2))
                return whole(store, name, upto)

            export._rows = late
            try:
                export.export(reader, tmp_path / "public.db")
            finally:
                export._rows = whole
        with dpi.open_store(tmp_path / "public.db", read_only=True) as public:
            assert verify(public).problems == ()
            assert public.head().sequence < writer.head().sequence
        assert outcome(writer)["problems"] == []


def test_large_stores_are_read_in_parts(tmp_path, monkeypatch) -> None:
    """More releases than are held at a time: all of them, in order."""
    monkeypatch.setattr(_engine, "PAGE", 4)
    with dpi.open_store(tmp_path / "long.db") as store:
        long = dpi.Stream(domain=dpi.Categories(["a"]), epsilon=1, budget=dpi.Ledger(per_slot="0.01"), store=store)
        for _ in range(10):
            long.release(["u"], ["a"])
        export.export(store, tmp_path / "public.db")
    with dpi.open_store(tmp_path / "public.db", read_only=True) as public:
        assert verify(public).intact
        assert np.array_equal([paid.slot for paid in public.measurements("")], np.arange(10))
