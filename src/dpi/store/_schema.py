"""The tables of an SQL store, and whether a store is one that this program reads.

There is one format. A store of a later one is refused, with the version that wrote it; one of an earlier format is
upgraded first (`dpi.store.upgrade`). A change of these tables is a new format, with a step from the one before.
"""

from __future__ import annotations

import hashlib

from dpi._version import __version__
from dpi.errors import NewerVersion, StateError
from dpi.events.identity import KEY_BYTES
from dpi.store._engine import Engine

FORMAT = 1
KEY = "key"
"""The fact that holds the fingerprint of the ledger's key."""
EXPORT = "export"
"""The fact by which a file says that it is an export (`dpi.store.export`)."""
THINNED = "thinned"
"""The fact that says from which slot on each stream has all its measurements (`SQLStore.thin`). Public."""

TABLES: dict[str, tuple[str, int]] = {
    "facts": ("name TEXT, value TEXT", 1),
    "domains": ("digest TEXT, description TEXT", 1),
    "streams": ("stream TEXT, first {whole}, options TEXT", 2),  # options by the first slot that they hold for
    "progress": (
        "stream TEXT, first {whole}, last {whole}, spent {whole}, allocation TEXT, mechanism {bytes}, "
        "accumulated {bytes}, seal {bytes}",
        1,
    ),
    "measurements": (
        "stream TEXT, slot {whole}, epsilon {whole}, partial {whole}, data {bytes}, allocation TEXT, "
        "assumption TEXT, seal {bytes}",
        2,
    ),
    "trees": ("stream TEXT, data {bytes}, seal {bytes}", 1),
    "chain": ("entry {whole}, text TEXT, digest TEXT, signature TEXT NULL", 1),
    "releases": ("stream TEXT, slot {whole}, entry {whole}, content {bytes}", 2),
    "ledgers": ("ledger TEXT, options TEXT, seal {bytes}", 1),
    "levies": ("ledger TEXT, entry {whole}, slot {whole}, units {whole}", 2),
    # Runs of accounts: a run has its records in rows, each a part of it, or one row with the name of a file.
    "account_runs": (
        "ledger TEXT, bucket {whole}, run {whole}, part {whole}, name TEXT, size {whole}, seal {bytes}, data {bytes}",
        4,
    ),
    "sequences": ("stream TEXT, producer TEXT, sequence {whole}", 2),
    # Events of open slots: blocks of packed rows, and the list of files that tasks have written.
    "events": ("stream TEXT, slot {whole}, block {whole}, tier {whole}, size {whole}, data {bytes}", 3),
    "arrivals": (
        "stream TEXT, slot {whole}, name TEXT, start {whole}, size {whole}, buckets {whole}, number {whole}, "
        "events {whole}, secret {bytes}",
        3,
    ),
    "marks": ("stream TEXT, number {whole}, mark TEXT", 2),
}
"""All tables: columns with their types, of which the first so many tell rows apart. None is NULL, unless said."""


def keys_of(table: str) -> list[str]:
    """Return the columns that tell the rows of a table apart."""
    columns, keys = TABLES[table]
    return [column.split()[0] for column in columns.split(", ")][:keys]


def prepare(engine: Engine, key: bytes | None) -> bytes | None:
    """Make the tables of a new store, and return the key that is its own, of which it remembers a fingerprint.

    That is the chain of keys as it was given, or its beginning: later keys are of a replacement that this store has not
    come to, because it was interrupted or the store is a copy from before it.
    Raises `StateError` for a store of another format, and for another key.
    """
    if not engine.exists():
        if engine.read_only:
            raise StateError("there is no store here.")
        with engine.transaction():
            build(engine)
    _check_format(engine)
    if key is None:
        return None
    if not engine.read_only and lacks_key(engine):
        with engine.transaction():
            set_fact(engine, KEY, fingerprint(key))
    known = fact(engine, KEY)
    for end in range(len(key), 0, -KEY_BYTES):
        if fingerprint(key[:end]) == known:
            return key[:end]
    raise StateError(
        "the ledger key is not the one this store was made with, or lacks one that replaced it: users would get new "
        "accounts. Put the right key back; without it the store can be read, not continued."
    )


def fingerprint(key: bytes) -> str:
    """Return what a store remembers of its key."""
    return hashlib.blake2b(key, digest_size=16, person=b"dpi key").hexdigest()


def _check_format(engine: Engine) -> None:
    stored = format_of(engine)
    if stored < FORMAT:
        raise StateError(
            f"the store has format {stored}, of dpi {version_of(engine)}, and this program writes {FORMAT}. Upgrade it "
            "in place with a backup that its own version has made: `dpi backup upgrade STORE FILE`. Nothing was "
            "changed."
        )


def format_of(engine: Engine) -> int:
    """Return the format of a store; raises `NewerVersion` for one that this program does not know."""
    text = fact(engine, "schema")
    if text is None or not text.isdigit():
        raise StateError("this is no store of dpi, or it is damaged.")
    if int(text) > FORMAT:
        raise NewerVersion(
            f"the store was written by a newer version of dpi ({version_of(engine)}): its format is {text}, and this "
            f"program reads {FORMAT}. Install that version, or a later one. Nothing was changed."
        )
    return int(text)


def version_of(engine: Engine) -> str:
    """Return the version that made a store, or upgraded it last."""
    return fact(engine, "version") or "an unpublished version"


def lacks_key(engine: Engine) -> bool:
    """Return whether a store was begun and is without a key yet: nothing was declared in it."""
    return fact(engine, KEY) is None and not engine.rows("SELECT 1 FROM chain LIMIT 1")


def build(engine: Engine) -> None:
    """Make the tables, inside a transaction."""
    for name, (columns, _) in TABLES.items():
        typed = ", ".join(
            column.removesuffix(" NULL") if column.endswith(" NULL") else f"{column} NOT NULL"
            for column in columns.format(**engine.types).split(", ")
        )
        engine.execute(f"CREATE TABLE {name} ({typed}, PRIMARY KEY ({', '.join(keys_of(name))}))")
    for name, value in {"schema": str(FORMAT), "version": __version__}.items():
        set_fact(engine, name, value)


def fact(engine: Engine, name: str) -> str | None:
    """Return what the store says of itself under a name."""
    rows = engine.rows("SELECT value FROM facts WHERE name = ?", (name,))
    return str(rows[0][0]) if rows else None


def set_fact(engine: Engine, name: str, value: str) -> None:
    """Write or replace a fact."""
    engine.execute(
        "INSERT INTO facts (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (name, value),
    )
