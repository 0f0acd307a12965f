"""What durability costs: debiting a large ledger, opening it, and closing a slot on disk.

    python benchmarks/store.py [--accounts 10000000] [--active 1000000] [--slots 12] [--postgres URL]

A debit is: find the accounts of the slot's users, weigh them, and have the payment on disk (commit, and the log copied
into the file). Ours is the mean over consecutive slots of random users, so that every merge of runs is in it. The
other is the usual table of accounts with one upsert a user, by `executemany` in one transaction, on the same engine
with the same durability; its rows are made beforehand and not timed.
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
from dpi.budget.account_table import STANDING, to_records
from dpi.budget.ledger import Ledger
from dpi.events.identity import Digests
from dpi.store.bank import Bank
from dpi.store.base import PaidSlot
from dpi.store.sql import SQLStore
from measure import row

EPSILON, PER_SLOT = Epsilon.at_most(1), Epsilon.at_most("0.01")
BUDGET = Ledger(per_slot="0.01")
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
        description = BUDGET.accounts(EPSILON, store.key).description
        store.load_ledger("", description)
        standing = np.zeros(len(names), dtype=STANDING)
        with store.engine.transaction():
            store._accounts.append("", to_records(names, standing))
        store.engine.erase()
    began = time.perf_counter()
    with dpi.open_store(target, key_file=key_file) as store:
        accounts = Bank.of(store).accounts("", BUDGET, EPSILON)
        opened = time.perf_counter() - began
        began = time.perf_counter()
        for slot, users in enumerate(turns):
            charge = accounts.charge(accounts.bill(users, PER_SLOT, slot))
            store.pay(PaidSlot("benchmark", slot, PER_SLOT.units, False, bytes(8), "{}"), "", charge.records())
            accounts.apply(charge)
            store.engine.erase()
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


def slot_seconds(store: str | None, bins: int, users: int, slots: int) -> float:
    """Mean seconds of closing a slot."""
    rng = np.random.default_rng(3)  # benchmark data, no privacy noise
    seconds = 0.0
    with dpi.Stream(domain=dpi.Bins(range(1, bins)), epsilon=1, budget=BUDGET, store=store) as stream:
        for slot in range(slots + 1):
            ids, values = rng.integers(0, 10 * users, users), rng.integers(0, bins, users).astype(np.float64)
            began = time.perf_counter()
            stream.release(ids, values)
            seconds += (time.perf_counter() - began) * (slot > 0)
    return seconds / slots


def drop(url: str, schema: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--accounts", type=int, default=10_000_000)
    parser.add_argument("--active", type=int, default=1_000_000)
    parser.add_argument("--slots", type=int, default=12)
    parser.add_argument("--upsert-slots", type=int, default=1)
    parser.add_argument("--postgres", help="URL of a server, for a second table")
    parser.add_argument("--folder", help="where the files go; a temporary folder of the system otherwise")
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    names = rng.integers(0, 1 << 64, (options.accounts, 2), dtype=np.uint64)
    turns = [names[rng.choice(len(names), options.active, replace=False)] for _ in range(options.slots)]
    row(f"{options.active:,} of {options.accounts:,} accounts", "seconds", "ratio")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        key = Path(folder) / "key"
        if options.postgres is None:
            log, opened = ours(f"{folder}/visits.db", key, names, turns)
            table = upserts_sqlite(Path(folder) / "table.db", names, turns[: options.upsert_slots])
        else:
            drop(options.postgres, "dpi_benchmark")
            mark = "&" if "?" in options.postgres else "?"
            log, opened = ours(f"{options.postgres}{mark}schema=dpi_benchmark", key, names, turns)
            table = upserts_postgres(options.postgres, names, turns[: options.upsert_slots])
            drop(options.postgres, "dpi_benchmark")
        row(f"debit: log of runs, mean of {options.slots} slots", log, 1.0)
        row(f"debit: upserts by executemany, {options.upsert_slots} slot(s)", table, table / log)
        row("open the store with its accounts", opened)
        if options.postgres is None:
            row("slot of 50,000 users, 10,000 bins: memory", slot_seconds(None, 10_000, 50_000, 10))
            row("slot of 50,000 users, 10,000 bins: SQLite", slot_seconds(f"{folder}/slots.db", 10_000, 50_000, 10))


if __name__ == "__main__":
    main()
