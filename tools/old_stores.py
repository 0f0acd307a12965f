"""Writes stores as this version makes them, for the test that later versions read them: tests/store/stores/VERSION.

    python tools/old_stores.py                 # once for each version, before its tag; needs PostgreSQL and pg_dump

VERSION.tar.xz has a folder for each place in which accounts are kept, VERSION.json what this version says of them:
what is known of every class of users, and what some users have left. `tests/store/test_old_stores.py` reads both.
The keys in it are of made-up users alone. Nothing is replaced: a version's stores are written once.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import dpi
from dpi.budget.policy import Clocked
from dpi.certificates.declared import DeclaredOptions
from dpi.events.identity import users
from dpi.store import Store
from dpi.store.backup import back_up
from dpi.store.export import export
from dpi.store.ledger_session import stored_accounts

ROOT = Path(__file__).resolve().parent.parent
STORES = ROOT / "tests" / "store" / "stores"
SERVER = os.environ.get("DPI_TEST_POSTGRES", "postgresql:///postgres")
SCHEMA = "dpi_stores"
VALUES = {"pages": ["home", "cart", "help"], "countries": ["de", "fr"]}
QUOTAS = {"pages": "0.5", "countries": "0.25"}
PEOPLE = [f"u{number}" for number in range(12)]
TOP = 4
"""Classes of streams that need not have as many as usual: a store of few classes is small."""


def stream_of(store: Store, name: str, top: int | None = None) -> dpi.Stream:
    """Return one of two streams that share the accounts of a store by quotas."""
    budget = dpi.Ledger(quota=QUOTAS[name], policy="auto" if top is None else Clocked(top=top))
    return dpi.Stream(domain=dpi.Categories(VALUES[name], other=None), epsilon=1, store=store, name=name, budget=budget)


def fill(store: Store, top: int | None = None) -> None:
    """Release four slots of one stream and two of another; some users come each time, some once."""
    for name, slots in (("pages", 4), ("countries", 2)):
        release(store, name, range(slots), top)


def release(store: Store, name: str, slots: Iterable[int], top: int | None) -> None:
    """Release slots of a stream."""
    stream, values = stream_of(store, name, top), VALUES[name]
    for slot in slots:
        there = [*PEOPLE[:6], *PEOPLE[6 + slot : 8 + slot]]
        stream.release(there, [values[(slot + place) % len(values)] for place, _ in enumerate(there)])


def said(store: Store, people: Sequence[str] = PEOPLE) -> dict[str, Any]:
    """Return what is known of every class, and what each of these users has left in the slot that is next."""
    balances: dict[str, Any] = {}
    for name, text in sorted(store.streams().items()):
        reached, bounds = store.reached(name), store.bounds(name)
        assert reached is not None  # noqa: S101 - of a stream that was filled
        declared = DeclaredOptions.from_text(text)
        accounts, following = stored_accounts(store, str(declared.accounts)), reached[0] + 1
        left = accounts.remaining(users(people, declared.ids), following)
        known = {} if bounds is None else {part: [*getattr(bounds, part)] for part in ("left", "spent", "largest")}
        accounts_left = {user: float(each) for user, each in zip(people, left, strict=True)}
        balances[name] = known | {"last": reached[0], "accounts": accounts_left}
    return balances


def write_sqlite(folder: Path) -> dict[str, Any]:
    """Write a store in a file, and its export."""
    with dpi.open_store(folder / "visits.db") as store:
        fill(store)
        export(store, folder / "public.db")
        return said(store)


def write_buckets(folder: Path) -> dict[str, Any]:
    """Write a backup of a store with accounts in files; the store itself knows its folder by its place."""
    with tempfile.TemporaryDirectory() as place:
        path, key, witness = Path(place) / "visits.db", folder / "visits.key", folder / "visits.witness"
        with dpi.open_store(path, key_file=key, witness=witness) as store:
            fill(store, TOP)
            store.lay_out(bits=2)
            release(store, "pages", range(4, 5), TOP)  # a run beside the files
            facts = said(store)
        back_up(path, folder / "copy.db")
    return facts


def write_postgres(folder: Path) -> dict[str, Any]:
    """Write a dump of a schema, as `pg_dump` does."""
    import psycopg

    url = f"{SERVER}{'&' if '?' in SERVER else '?'}schema={SCHEMA}"
    with psycopg.connect(SERVER, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
        try:
            with dpi.open_store(url, key_file=folder / "dpi.key", witness=folder / "visits.witness") as store:
                fill(store, TOP)
                facts = said(store)
            command = ["pg_dump", f"--schema={SCHEMA}", "--inserts", "--no-owner", "--no-privileges", SERVER]
            dumped = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        finally:
            connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
    statements = [line for line in dumped.splitlines() if not line.startswith(("--", "\\"))]
    (folder / "dump.sql").write_text("\n".join(statements) + "\n", "utf-8")
    return facts


def write_memory(folder: Path) -> dict[str, Any]:
    """Streams in memory, saved as a file."""
    store = dpi.MemoryStore()
    fill(store, TOP)
    store.save(folder / "saved.dpi")
    return said(store)


def write_service(folder: Path) -> dict[str, Any]:
    """Write the folder of a service: two slots are released, and events of the next one wait."""
    sys.path.insert(0, str(ROOT / "tests"))
    serving = import_module("serving")
    (folder / "dpi.toml").write_text(
        '[serve]\nstore = "visits.db"\ntokens = "tokens.json"\n\n[streams.visits]\ndomain = "pages.json"\n'
        'epsilon = 1\nslot = "10s"\nfrom = "2026-01-01"\n',
        "utf-8",
    )
    (folder / "pages.json").write_text('{"kind": "categories", "values": ["home", "search"]}\n', "utf-8")
    with serving.running(folder, serving.settings()) as running:
        for slot in range(3):
            rows = [(user, 10.0 * slot + place / 10, "home") for place, user in enumerate(PEOPLE[slot : slot + 5])]
            running.set(10.0 * slot + 5)
            assert running.send(rows, slot).status_code == 200  # noqa: S101 - or there is nothing to keep
        tokens = dict(running.tokens)
        (folder / "of-tests.json").write_text(json.dumps(tokens, indent=1) + "\n", "utf-8")
        now = (running.service.clock() - serving.MOMENT) / serving.SECOND
    with dpi.open_store(folder / "visits.db", read_only=True, curator=True) as store:
        return {"now": now} | said(store)


WRITERS = {
    "sqlite": write_sqlite,
    "buckets": write_buckets,
    "postgres": write_postgres,
    "memory": write_memory,
    "service": write_service,
}


def write(target: Path) -> dict[str, Any]:
    """Write all stores into a folder, and return what is said of them."""
    stores = {}
    for name, writer in WRITERS.items():
        (target / name).mkdir()
        stores[name] = writer(target / name)
    for left in (*target.rglob("*.lock"), *target.rglob("*-shm"), *target.rglob("*-wal")):
        left.unlink()
    return stores


def pack(folder: Path, said_of: Mapping[str, Any], version: str, into: Path) -> None:
    """Write both files, without owners and times."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz", preset=9) as archive:
        for path in sorted(folder.rglob("*")):
            entry = archive.gettarinfo(path, str(path.relative_to(folder)))
            entry.uid = entry.gid = entry.mtime = 0
            entry.uname = entry.gname = ""
            with path.open("rb") if path.is_file() else io.BytesIO() as content:
                archive.addfile(entry, content if path.is_file() else None)
    (into / f"{version}.tar.xz").write_bytes(packed.getvalue())
    (into / f"{version}.json").write_text(json.dumps(said_of, indent=1) + "\n", "utf-8")


def main() -> int:
    """Write the stores of this version, unless they are there."""
    version = dpi.__version__
    if (STORES / f"{version}.json").exists():
        print(f"the stores of {version} are there: they are written once.")
        return 1
    if shutil.which("pg_dump") is None:
        print("the stores need PostgreSQL and its pg_dump.")
        return 1
    with tempfile.TemporaryDirectory() as place:
        pack(Path(place), write(Path(place)), version, STORES)
    size = (STORES / f"{version}.tar.xz").stat().st_size
    print(f"{STORES.relative_to(ROOT)}/{version}: {size / 1024:.0f} KiB. Commit both files.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
