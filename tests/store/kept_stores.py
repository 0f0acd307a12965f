"""Stores as programs of the past have left them: kept for ever, so that what was promised of them is tested for ever.

The streams of a kept store, in words that programs of every format understand, so that this file makes one with
whichever program is on the path:

    PYTHONPATH=<a checkout>/src python tests/store/kept_stores.py tests/store/fixtures/<its format>

and one whose accounts are in pages, in a folder of its own, when their format has changed:

    PYTHONPATH=<a checkout>/src python tests/store/kept_stores.py --pages tests/store/fixtures/<pages-number>
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import dpi
from dpi.options import FORMAT

KEY = bytes(range(100, 132))
DOMAIN = dpi.Categories(["DE", "FR", "IT"], other="elsewhere")
RELEASED = 3
EMPTY = "ada"
"""Was in every slot, and has nothing left on the account."""
STREAMS = {
    "visits": {
        "epsilon": 1,
        "slot": "1h",
        "start": "2026-01-01T00:00",
        "budget": dpi.Ledger(per_slot=0.4),
        "accumulate": dpi.stream.PrefixTree(per_slot="0.1", arity=2, levels=2),
    },
    "series": {"epsilon": 2, "budget": dpi.Converging(dpi.budget.Zeta(2), draw=dpi.budget.RBA(4.0)), "separate": True},
    "plain": {"epsilon": 1, "separate": True},
}
FOLDER = "{folder of page files}"
"""Stands for it in the SQL of a store that is kept with its pages."""
SINCE = {"plain": 3}
"""The first format of options whose kept stores have a stream: one with the budget that it has by default."""


def names(format: int) -> list[str]:
    """The streams of a kept store of a format."""
    return [name for name in STREAMS if SINCE.get(name, 1) <= format]


def opened(store: dpi.MemoryStore, name: str, **options: object) -> dpi.Stream:
    """A stream of the kept store, with the options that it was begun with."""
    return dpi.Stream(**({"domain": DOMAIN, "store": store, "name": name} | STREAMS[name] | options))


def close_slot(stream: dpi.Stream, slot: int) -> dpi.Release:
    """Release a slot of a few users; those of a stream with a clock come through its open events."""
    users = [EMPTY, *(f"user {number}" for number in range(8)), f"new in {slot}"]
    values = [["DE", "FR", "IT", "XX"][(row + slot) % 4] for row in range(len(users))]
    if stream.slots is None:
        return stream.release(users, values)
    append(stream, slot, users, values)
    (release,) = stream.advance(now=f"2026-01-01T{slot + 1:02d}:00")
    return release


def append(stream: dpi.Stream, slot: int, users: list[str], values: list[str]) -> None:
    """Events of a slot that is still open."""
    now = f"2026-01-01T{slot:02d}:30"
    stream.append(users, [now] * len(users), values, now=now)


def fill(store: dpi.MemoryStore) -> None:
    """Begin the streams, release three slots of each, and leave events of an open slot."""
    for name in names(FORMAT):
        stream = opened(store, name)
        for slot in range(RELEASED):
            close_slot(stream, slot)
        if stream.slots is not None:
            append(stream, RELEASED, [EMPTY, "waiting"], ["DE", "FR"])


def keep(target: str) -> None:
    """Write a store of this program as SQL (`.sql`), and a saved store in memory (`.saved`)."""
    with tempfile.TemporaryDirectory() as folder:
        path, key = Path(folder) / "kept.db", Path(folder) / "kept.db.key"
        key.write_text(KEY.hex())
        key.chmod(0o600)
        with dpi.open_store(path, key_file=key, witness=False) as store:
            fill(store)
        with closing(sqlite3.connect(path)) as database:
            Path(f"{target}.sql").write_text("\n".join(database.iterdump()) + "\n")
        memory = dpi.MemoryStore(KEY)
        fill(memory)
        memory.save(Path(folder) / "saved")
        Path(f"{target}.saved").write_bytes((Path(folder) / "saved").read_bytes())


def keep_pages(target: str) -> None:
    """Write a store of this program with so little memory that most accounts are in pages: SQL, and the page files."""
    from dpi.store import opening, paged_table

    paged_table.LARGEST, paged_table.LEAST, opening.LEAST = 3, 4, 1
    Path(target).mkdir()
    with tempfile.TemporaryDirectory() as folder:
        path, key = Path(folder) / "kept.db", Path(folder) / "kept.db.key"
        key.write_text(KEY.hex())
        key.chmod(0o600)
        with dpi.open_store(path, key_file=key, witness=False, memory=2 * 37 * 24) as store:
            fill(store)
            pages = Path(store.folder.path)
        with closing(sqlite3.connect(path)) as database:
            text = "\n".join(database.iterdump()) + "\n"
        (Path(target) / "store.sql").write_text(text.replace(str(pages), FOLDER))
        for page in pages.iterdir():
            (Path(target) / page.name).write_bytes(page.read_bytes())


def laid_out(kept: Path, path: Path) -> None:
    """Put a kept store with pages in its place, with its key beside it."""
    pages = Path(f"{path}.buckets").resolve()
    pages.mkdir(mode=0o700)
    for page in kept.iterdir():
        if page.name != "store.sql":
            (pages / page.name).write_bytes(page.read_bytes())
            (pages / page.name).chmod(0o600)
    with closing(sqlite3.connect(path)) as database:
        database.executescript((kept / "store.sql").read_text().replace(FOLDER, str(pages)))
    key = Path(f"{path}.key")
    key.write_text(KEY.hex())
    key.chmod(0o600)


if __name__ == "__main__":
    if sys.argv[1] == "--pages":
        keep_pages(sys.argv[2])
    else:
        keep(sys.argv[1])
