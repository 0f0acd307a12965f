"""What durability costs: debiting a large ledger, and opening it, beside a table of accounts.

    python benchmarks/store.py [--sqlite 10000000/1000000] [--postgres 1000000/100000] [--slots 12] [--url URL]

Sizes are accounts/users of a slot. A debit is: find the accounts of the slot's users, weigh them, and have the payment
on disk (commit, and the log copied into the file). Ours is the mean over consecutive slots of random users, so that
every merge of runs is in it. The other is the usual table of accounts with one upsert a user, by `executemany` in one
transaction, on the same engine with the same durability; its rows are made beforehand and not timed. Seconds are those
on the wall.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from pathlib import Path

import numpy as np

import dpi
from dpi.budget import Epsilon
from dpi.budget.account_records import STANDING, to_records
from dpi.budget.ledger import Ledger
from dpi.events.identity import Digests
from dpi.store.base import PaidSlot
from dpi.store.ledger_session import LedgerSession
from dpi.store.sql import SQLStore
from measure import Cell, record

EPSILON, PER_SLOT = Epsilon.at_most(1), Epsilon.at_most("0.01")
BUDGET = Ledger(per_slot="0.01", policy=dpi.budget.spend_first)
TABLE = "(name {bytes} PRIMARY KEY, spent {whole} NOT NULL, active {whole} NOT NULL, epoch {whole} NOT NULL)"
UPSERT = (
    "INSERT INTO accounts (name, spent, active, epoch) VALUES ({0}, {0}, 1, 0) ON CONFLICT (name) DO UPDATE SET "
    "spent = accounts.spent + excluded.spent, active = accounts.active + 1"
)
Rows = list[tuple[bytes, int]]


def rows_of(names: Digests) -> Rows:
    data = names.tobytes()
    return [(data[at : at + 16], PER_SLOT.units) for at in range(0, len(data), 16)]


def ours(target: str, key_file: Path, names: Digests, turns: list[Digests]) -> tuple[float, float]:
    """Mean seconds of a debit, and seconds to open the store with its accounts."""
    with dpi.open_store(target, key_file=key_file) as store:
        other = dpi.Converging(dpi.budget.Zeta(2))  # a budget of its own, so that its slots need not be released
        dpi.Stream(domain=dpi.Categories(["a"]), epsilon=1, budget=other, store=store, name="benchmark")
        description = BUDGET.accounts(EPSILON, store.key).description
        store.ledger_table("", description)
        standing = np.zeros(len(names), dtype=STANDING)
        with store.engine.transaction():
            store._accounts.append("", to_records(names, standing))
        store.erase()
    began = time.perf_counter()
    with dpi.open_store(target, key_file=key_file) as store:
        accounts = LedgerSession.of(store).accounts("", BUDGET, EPSILON)
        opened = time.perf_counter() - began
        began = time.perf_counter()
        for slot, users in enumerate(turns):
            charge = accounts.charge(accounts.bill(users, PER_SLOT, slot))
            LedgerSession.of(store).pay(PaidSlot("benchmark", slot, PER_SLOT.units, False, bytes(8), "{}"), "", charge)
            store.erase()
        seconds = (time.perf_counter() - began) / len(turns)
        check(store, description, sum(len(users) for users in turns))
    return seconds, opened


def check(store: SQLStore, description: str, debits: int) -> None:
    from dpi.budget.account_table import AccountTable

    stored = AccountTable.from_bytes(store.load_ledger("", description)[0])
    assert sum(int(run.standing["active"].sum()) for run in stored._runs) == debits


def upserts_sqlite(path: Path, names: Digests, turns: list[Digests]) -> float:
    """Mean seconds of a debit by upserts."""
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute(f"CREATE TABLE accounts {TABLE.format(bytes='BLOB', whole='INTEGER')} WITHOUT ROWID")
    order = np.argsort(names[:, 0].byteswap())  # nearly sorted as the table is: quick to fill
    connection.execute("BEGIN")
    for part in np.array_split(names[order], max(1, len(names) // 1_000_000)):
        connection.executemany("INSERT INTO accounts VALUES (?, ?, 0, 0)", rows_of(part))
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    seconds = 0.0
    for users in turns:
        rows = rows_of(users)
        began = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(UPSERT.format("?"), rows)
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        seconds += time.perf_counter() - began
    connection.close()
    return seconds / len(turns)


def upserts_postgres(url: str, names: Digests, turns: list[Digests]) -> float:
    """Mean seconds of a debit by upserts."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA IF EXISTS dpi_benchmark_upserts CASCADE")
        cursor.execute("CREATE SCHEMA dpi_benchmark_upserts")
        cursor.execute("SET search_path = dpi_benchmark_upserts")
        cursor.execute(f"CREATE TABLE accounts {TABLE.format(bytes='BYTEA', whole='BIGINT')}".encode())
        with cursor.copy("COPY accounts FROM STDIN") as copy:
            for name, _ in rows_of(names):
                copy.write_row((name, 0, 0, 0))
        seconds = 0.0
        for users in turns:
            rows = rows_of(users)
            began = time.perf_counter()
            with connection.transaction():
                cursor.executemany(UPSERT.format("%s").encode(), rows)
            seconds += time.perf_counter() - began
        cursor.execute("DROP SCHEMA dpi_benchmark_upserts CASCADE")
    return seconds / len(turns)


def drop(url: str, schema: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


def drawn(size: str, slots: int) -> tuple[str, Digests, list[Digests]]:
    """A name of the size, all accounts, and those of each slot."""
    rng = np.random.default_rng(1)
    accounts, active = map(int, size.split("/"))
    names = rng.integers(0, 1 << 64, (accounts, 2), dtype=np.uint64)
    turns = [names[rng.choice(len(names), active, replace=False)] for _ in range(slots)]
    return f"{active:,} of {accounts:,} accounts", names, turns


def in_sqlite(size: str, slots: int) -> list[Cell]:
    label, names, turns = drawn(size, slots)
    with tempfile.TemporaryDirectory() as folder:
        log, opened = ours(f"{folder}/visits.db", Path(folder) / "key", names, turns)
        table = upserts_sqlite(Path(folder) / "table.db", names, turns[:1])
    return [f"SQLite, {label}", log, table, table / log, opened]


def in_postgres(size: str, slots: int, url: str) -> list[Cell]:
    label, names, turns = drawn(size, slots)
    drop(url, "dpi_benchmark")
    mark = "&" if "?" in url else "?"
    with tempfile.TemporaryDirectory() as folder:
        log, opened = ours(f"{url}{mark}schema=dpi_benchmark", Path(folder) / "key", names, turns)
    table = upserts_postgres(url, names, turns[:1])
    drop(url, "dpi_benchmark")
    return [f"PostgreSQL, {label}", log, table, table / log, opened]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sqlite", default="10000000/1000000")
    parser.add_argument("--postgres", default="1000000/100000")
    parser.add_argument("--slots", type=int, default=12)
    parser.add_argument("--url", default="postgresql:///postgres", help="of a PostgreSQL")
    options = parser.parse_args()
    record(
        "store-debit",
        parts=("budget", "store"),
        about=f"Seconds of a payment: the mean of {options.slots} slots, and one slot of upserts.",
        columns=["", "debit s", "by upserts s", "upserts / debit", "opening s"],
        rows=[in_sqlite(options.sqlite, options.slots), in_postgres(options.postgres, options.slots, options.url)],
    )


if __name__ == "__main__":
    main()
