"""Reading stored releases: the same from every kind of store, without a key, and also while another process writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpi
from dpi.certificates.chain import extend
from dpi.errors import OptionError, StateError
from dpi.release import from_frame
from dpi.store import Store
from dpi.store.export import export
from dpi.testing.workload import CLOCK, DOMAIN, KEY, SLOTS, run

KINDS = ["memory", "sqlite", "export", "postgres"]


@pytest.fixture(params=KINDS)
def stored(request: pytest.FixtureRequest, tmp_path: Path, key_file: Path) -> tuple[str | Store, dict[str, list[str]]]:
    """Where the releases of three streams are, and all of them; the key is gone."""
    kind = request.param
    where = str(tmp_path / "visits.db") if kind in ("sqlite", "export") else None
    where = request.getfixturevalue("postgres") if kind == "postgres" else where
    store = dpi.MemoryStore(KEY) if where is None else dpi.open_store(where, key_file=key_file)
    expected: dict[str, list[str]] = {}
    for release in run(store):
        expected.setdefault(str(release.certificate["stream"]), []).append(release.to_json())
    if where is None:
        return store, expected
    if kind == "export":
        export(store, tmp_path / "public.db")
        where = str(tmp_path / "public.db")
    store.close()
    key_file.unlink()
    return where, expected


def test_every_kind_of_store_gives_its_releases(stored) -> None:
    """All releases of each stream, bit by bit, with their number and the newest of them."""
    where, expected = stored
    with dpi.open(where, "visits") as visits:
        assert sorted(visits.streams) == sorted(expected)
        for name in visits.streams:
            releases = visits.of(name)
            assert [release.to_json() for release in releases] == expected[name]
            assert [release.to_json() for release in releases] == expected[name]  # a second time
            assert len(releases) == SLOTS
            assert releases.newest.to_json() == expected[name][-1]


def test_slots_are_found_by_number_and_by_time(stored) -> None:
    """One slot, or those of a part: from the first to before the end, also of a part of a part."""
    where, _ = stored
    with dpi.open(where, "visits") as visits:
        numbers = [release.slot for release in visits]
        first = numbers[0]
        assert visits[first + 1] == visits.at("2026-01-01T01:59:59") == visits[datetime(2026, 1, 1, 1, tzinfo=UTC)]
        for part, slots in (
            (visits[first + 1 : first + 3], numbers[1:3]),
            (visits["2026-01-01T00:30":"2026-01-01T03:00"], numbers[1:3]),
            (visits["2026-01-01T02:00+01:00":], numbers[1:]),
            (visits[: first + 2], numbers[:2]),
            (visits[first + 1 :][: first + 2], numbers[1:2]),
            (visits[first + 2 :]["2026-01-01" : first + 99], numbers[2:]),
            (visits[5:9], []),
        ):
            assert [release.slot for release in part] == slots
            assert len(part) == len(slots)
            assert first + 1 in visits[first:]
            assert first + 1 not in visits[: first + 1]
        assert visits[: first + 2].newest.slot == first + 1


def test_tables_hold_every_bit(stored) -> None:
    """As polars, Arrow or pandas there is a row for each release, from which it can be read back."""
    where, expected = stored
    with dpi.open(where, "orders") as orders:
        for frame in (
            orders.to_polars(),
            pl.DataFrame(orders),
            pl.from_arrow(orders.to_arrow()),
            pl.from_arrow(pa.table(orders)),
            pl.from_pandas(orders.to_pandas()),
        ):
            rows = frame.with_columns(pl.col("start").cast(pl.String))
            assert [release.to_json() for release in from_frame(rows, DOMAIN)] == expected["orders"]
        assert isinstance(orders.to_pandas(), pd.DataFrame)
        assert orders[1:3].to_polars()["slot"].to_list() == [1, 2]


def test_a_reader_asks_for_public_tables_alone(durable, monkeypatch) -> None:
    """No statement names a table of accounts, open events or trees, and none writes."""
    with durable() as store:
        list(run(store))
        statements, rows = list[str](), store.engine.rows

        def noting(statement: str, values: object = ()) -> list[tuple[object, ...]]:
            statements.append(statement)
            return rows(statement, values)

        monkeypatch.setattr(store.engine, "rows", noting)
        monkeypatch.setattr(
            store.engine, "execute", lambda statement, values=(): statements.append(f"wrote {statement}")
        )
        visits = dpi.open(store, "visits")
        assert len(list(visits)) == len(visits) == SLOTS
        assert "4 of the slots" in repr(visits)
        visits.newest, visits["2026-01-01":], next(visits.follow())
        monkeypatch.undo()
    tables = {table for text in statements for table in re.findall(r"(?:FROM|JOIN) (\w+)", text)}
    assert {"domains", "releases", "chain"} <= tables <= {"streams", "domains", "releases", "chain"}
    assert not any(text.startswith("wrote") for text in statements)


def writer(store: Store, **options) -> Callable[[], int]:
    """Releases the next slot of a stream."""
    stream = dpi.Stream(
        store=store, **({"domain": DOMAIN, "epsilon": 1, "budget": dpi.Ledger(per_slot="0.1")} | options)
    )
    return lambda: stream.release(["ada"], ["DE"]).slot


@pytest.mark.parametrize("by_address", [True, False])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_following_gives_each_release_once_as_it_is_written(request, key_file, kind, by_address) -> None:
    """What is there comes at once, what another writes later comes later, and a stop ends it."""
    address = request.getfixturevalue(kind)
    with dpi.open_store(address, key_file=key_file) as store:
        write, stop = writer(store), Event()
        write()
        write()
        with dpi.open(address if by_address else store) as releases:
            following = releases.follow(every=0.01, stop=stop)
            assert [next(following).slot, next(following).slot] == [0, 1]
            for slot in (2, 3):
                assert write() == slot
                assert next(following).slot == slot
            stop.set()
            assert list(following) == []
            assert [release.slot for release in releases[1:3].follow()] == [1, 2]


def test_each_release_has_the_domain_it_was_made_for(reopen) -> None:
    """Over a change of the domain, one reader gives the releases of both."""
    store, other = reopen(), dpi.Categories(["DE", "FR"])
    writer(store)()
    writer(store, domain=other, change=True)()
    assert [release.domain for release in dpi.open(store)] == [DOMAIN, other]
    store.close()


def test_the_newest_release_is_one_that_is_there(reopen) -> None:
    """Where a stream was moved on over slots that are lost, the last one that is left is the newest."""
    store = reopen()
    writer(store)()
    facts = {"kind": "restored", "format": 1, "last": {"": 5}, "spent_units": {}, "charged_units": {}}
    store.restored({}, {"": replace(store.progress(""), last=5)}, extend(store.head(), facts))
    assert dpi.open(store).newest.slot == 0
    with pytest.raises(OptionError, match="slot 5 is not in the store; the last one here is slot 0"):
        dpi.open(store)[5]
    store.close()


def test_a_store_in_memory_gives_what_it_keeps() -> None:
    """With a short history only the newest releases are there."""
    store = dpi.MemoryStore(history=2)
    write = writer(store)
    for _ in range(3):
        write()
    releases = dpi.open(store)
    assert (len(releases), [release.slot for release in releases]) == (2, [1, 2])
    assert 0 not in releases


def test_streams_are_named_where_there_are_several(reopen) -> None:
    """An only stream need not be named; otherwise the names, which are public, are told."""
    store = reopen()
    with pytest.raises(OptionError, match="holds no stream yet"):
        dpi.open(store)
    dpi.Stream(domain=DOMAIN, epsilon=1, store=store, name="one")
    assert dpi.open(store).name == "one"
    dpi.Stream(domain=DOMAIN, epsilon=1, store=store, name="two")
    for name in (None, "three"):
        with pytest.raises(OptionError, match=r"`stream` must be one of: 'one', 'two'\."):
            dpi.open(store, name)
    store.close()


def test_what_cannot_be_read_is_said() -> None:
    """Slots that are not there, times without a clock, steps, and things that are no slot."""
    store = dpi.MemoryStore()
    dpi.Stream(domain=DOMAIN, epsilon=1, store=store)
    releases = dpi.open(store)
    assert (len(releases), list(releases), repr(releases)) == (0, [], "Releases('': none yet)")
    for question, said in (
        (lambda: releases.newest, "has been released yet"),
        (lambda: releases[3], "slot 3 is not in the store"),
        (lambda: releases["2026-01-01":], "no clock"),
        (lambda: releases[::2], "no step"),
        (lambda: releases[1.5], "whole number or by a time"),
        (lambda: next(releases.follow(every=0)), "`every` must be above 0"),
    ):
        with pytest.raises(OptionError, match=said):
            question()
    clocked = dpi.MemoryStore()
    dpi.Stream(domain=DOMAIN, epsilon=1, store=clocked, **CLOCK)
    releases = dpi.open(clocked)
    with pytest.raises(OptionError, match="ISO 8601"):
        releases["soon":]


def test_nothing_is_made_where_no_store_is(tmp_path: Path) -> None:
    """A wrong path is refused, and no file is left there."""
    with pytest.raises(StateError, match="there is no store"):
        dpi.open(tmp_path / "none.db")
    assert list(tmp_path.iterdir()) == []
