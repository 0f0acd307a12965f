"""The same bytes from every engine: releases, measurements, ledgers and chains."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from random_streams import SLOTS, STREAMS, WIDER, batches, opened, outcome, run

import dpi


def opened_store(folder: Path, name: str, key_file: Path):
    """A store of these tests."""
    return dpi.open_store(folder / f"{name}.db", key_file=key_file)


@pytest.mark.parametrize(("seed", "kind"), list(enumerate(STREAMS)), ids=list(STREAMS))
def test_ten_random_streams_end_in_the_same_bytes(seed, kind, tmp_path, key_file, workers):
    """Histograms (under equal noise), accounts, measurements, trees and certificates do not depend on the engine.

    Engines take turns; with DPI_SLOW each has all streams.
    """
    results = []
    engines = ("local", "pool") if os.environ.get("DPI_SLOW") else (("local", "pool")[seed % 2],)
    for name in ("embedded", *engines):
        with opened_store(tmp_path, name, key_file) as store:
            engine = None
            if name != "embedded":
                engine = dpi.engine.BucketEngine(workers if name == "pool" else dpi.engine.executor.Local(), bits=2)
            run(opened(kind, seed, store, engine=engine), seed)
            results.append(outcome(store))
    assert results[0]["problems"] == []
    assert len(results[0]["releases"][""]) == SLOTS
    assert results == [results[0]] * (1 + len(engines))


@pytest.mark.parametrize("kind", ["default", "truncate", "converging"])
def test_a_replayed_table_ends_in_the_same_bytes(kind, tmp_path, key_file, engine):
    """Events that are all there, in any order, from a table."""
    table = [
        {"user": user, "time": time, "value": value}
        for slot in range(SLOTS)
        for users, times, values, _, _ in batches(1, slot)
        for user, time, value in zip(users, times, values, strict=True)
    ]
    results = []
    for name, used in (("embedded", None), ("engine", engine)):
        with opened_store(tmp_path, name, key_file) as store:
            stream = opened(kind, 3, store, engine=used)
            list(stream.replay(table, start="2026-01-01", end="2026-01-01T05:00"))
            results.append(outcome(store))
    assert results[0] == results[1]
    assert results[0]["problems"] == []


def test_spellings_of_one_name_are_one_account_in_every_engine(tmp_path, key_file, engine):
    """A name as NFC and as NFD, with and without spaces: the bytes are those of one spelling, played or live."""
    spellings = ["Zoë", "Zoe\u0308", " Zoë", "Zoe\u0308\u3000"]
    results = []
    for name, users, used in (
        ("one", spellings[:1] * 4, None),
        ("all", spellings, None),
        ("engine", spellings, engine),
    ):
        rows = [(user, f"2026-01-01T00:{n:02d}", f"v{n}") for n, user in enumerate([*users, "ada", "\u3000", "\u0378"])]
        with opened_store(tmp_path, name, key_file) as store:
            stream = opened("per slot", 3, store, engine=used)
            table = [dict(zip(("user", "time", "value"), row, strict=True)) for row in rows]
            list(stream.replay(table, start="2026-01-01", end="2026-01-01T01:00"))
            times = [time.replace("T00", "T01") for _, time, _ in rows]
            stream.append([row[0] for row in rows], times, [row[2] for row in rows], now="2026-01-01T01:40")
            list(stream.advance(now="2026-01-01T02:12"))
            results.append(outcome(store))
    assert results[0]["problems"] == []
    assert results[2] == results[1] == results[0]


def test_a_change_of_domain_in_open_slots_ends_in_the_same_bytes(tmp_path, key_file, engine):
    """Events that are kept for slots of a new domain are told by its bins, whether they are rows or lie in files."""
    results = []
    for name, used in (("embedded", None), ("engine", engine)):
        with opened_store(tmp_path, name, key_file) as store:
            run(opened("per slot", 5, store, engine=used), 5, range(2))
            stream = opened("per slot", 5, store, engine=used)
            for users, times, values, now, sequence in batches(5, 2):
                stream.append(users, times, values, now=now, producer="p", sequence=sequence)
            stream = opened("per slot", 6, store, engine=used, domain=WIDER, change="next")
            run(stream, 5, range(2, SLOTS))
            results.append(outcome(store))
    assert results[0] == results[1]
    assert results[0]["problems"] == []


def test_engines_take_turns_on_one_store(tmp_path, key_file, workers):
    """A stream that is closed by one engine, then another, then none ends where one that had none does."""
    engines = [dpi.engine.BucketEngine(dpi.engine.executor.Local(), bits=2), dpi.engine.BucketEngine(workers, bits=3)]
    with opened_store(tmp_path, "embedded", key_file) as store:
        for slot in range(SLOTS):
            run(opened("default", slot, store), 7, range(slot, slot + 1))
        expected = outcome(store)
    for slot, engine in enumerate([*engines, None, engines[0]]):
        with opened_store(tmp_path, "turns", key_file) as store:
            run(opened("default", slot, store, engine=engine), 7, range(slot, slot + 1))
            found = outcome(store)
    assert found == expected


def test_two_streams_of_one_ledger_pay_from_the_same_accounts(tmp_path, key_file, engine):
    """A stream in memory beside one of an engine reads the accounts anew that the other has paid from."""
    results = []
    for name, used in (("embedded", None), ("engine", engine)):
        with opened_store(tmp_path, name, key_file) as store:
            shared = [opened("per slot", 1, store, engine=used, name="one"), opened("per slot", 2, store, name="two")]
            for _ in range(4):
                for stream in shared:
                    stream.release(["ada", "bob", "eve"], ["v1", "v2", "v3"])
            results.append(outcome(store))
    assert results[0] == results[1]
    assert results[0]["problems"] == []


def test_quotas_are_held_apart_by_every_engine(tmp_path, key_file, engine):
    """Streams with parts of ε of their own, and one with the rest: sub-accounts in buckets are the same."""
    quotas = {"one": "0.5", "two": "0.25", "rest": None}
    results = []
    for name, used in (("embedded", None), ("engine", engine)):
        with opened_store(tmp_path, name, key_file) as store:
            for slot in range(4):
                for number, (stream, quota) in enumerate(quotas.items()):
                    budget = dpi.Ledger(per_slot="0.12", quota=quota)
                    shared = opened("per slot", 10 * slot + number, store, engine=used, name=stream, budget=budget)
                    shared.release(["ada", "bob", f"new {slot}"], ["v1", "v2", "v3"])
            results.append(outcome(store))
    assert set(results[0]["ledgers"]) == {"", "quota one", "quota two"}
    assert results[0] == results[1]
    assert results[0]["problems"] == []
