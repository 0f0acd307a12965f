"""The tables of an SQL store, and how an older store becomes a newer one.

Each version is a list of steps that turn the version before it into this one. They never touch the text of a
chain entry or the content of a release, so the chain stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable

from dpi.errors import StateError, newer
from dpi.options.schedule import BEGINNING
from dpi.store.engine import Engine
from dpi.store.event_log import pack_rows

EXPORT = "export"
"""The fact by which a file says that it is an export (`dpi.store.export`)."""
THINNED = "thinned"
"""The fact that says from which slot on each stream has all its measurements (`SQLChain.thin`). Public."""

Step = str | Callable[[Engine], None]
"""A statement, or what no statement can say."""

VERSIONS: dict[int, tuple[Step, ...]] = {
    1: (
        "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
        "CREATE TABLE domains (digest TEXT PRIMARY KEY, description TEXT NOT NULL)",
        "CREATE TABLE streams (stream TEXT PRIMARY KEY, options TEXT NOT NULL)",
        "CREATE TABLE progress (stream TEXT PRIMARY KEY, first {whole} NOT NULL, last {whole} NOT NULL, "
        "spent {whole} NOT NULL, allocation TEXT NOT NULL, brain {bytes} NOT NULL, accumulated {bytes} NOT NULL, "
        "seal {bytes} NOT NULL)",
        "CREATE TABLE measurements (stream TEXT NOT NULL, slot {whole} NOT NULL, epsilon {whole} NOT NULL, "
        "partial {whole} NOT NULL, data {bytes} NOT NULL, allocation TEXT NOT NULL, assumption TEXT NOT NULL, "
        "seal {bytes} NOT NULL, PRIMARY KEY (stream, slot))",
        "CREATE TABLE trees (stream TEXT PRIMARY KEY, data {bytes} NOT NULL, seal {bytes} NOT NULL)",
        "CREATE TABLE chain (entry {whole} PRIMARY KEY, text TEXT NOT NULL, digest TEXT NOT NULL, signature TEXT)",
        "CREATE TABLE releases (stream TEXT NOT NULL, slot {whole} NOT NULL, entry {whole} NOT NULL, "
        "content {bytes} NOT NULL, PRIMARY KEY (stream, slot))",
        "CREATE TABLE ledgers (ledger TEXT PRIMARY KEY, options TEXT NOT NULL, seal {bytes} NOT NULL)",
        "CREATE TABLE levies (ledger TEXT NOT NULL, entry {whole} NOT NULL, slot {whole} NOT NULL, "
        "units {whole} NOT NULL, PRIMARY KEY (ledger, entry))",
        "CREATE TABLE account_runs (ledger TEXT NOT NULL, run {whole} NOT NULL, part {whole} NOT NULL, "
        "size {whole} NOT NULL, seal {bytes} NOT NULL, data {bytes} NOT NULL, PRIMARY KEY (ledger, run, part))",
        "CREATE TABLE sequences (stream TEXT NOT NULL, producer TEXT NOT NULL, sequence {whole} NOT NULL, "
        "PRIMARY KEY (stream, producer))",
        "CREATE TABLE events (stream TEXT NOT NULL, slot {whole} NOT NULL, account {bytes} NOT NULL, "
        "bin {whole} NOT NULL, number {whole} NOT NULL, PRIMARY KEY (stream, slot, account, bin))",
    ),
    2: (
        "CREATE TABLE marks (stream TEXT NOT NULL, number {whole} NOT NULL, mark TEXT NOT NULL, "
        "PRIMARY KEY (stream, number))",
        "ALTER TABLE progress RENAME COLUMN brain TO mechanism",
    ),
    # Options by the first slot they hold for. An older program changed all that it kept at once: no earlier options are
    # needed to go on from there.
    3: (
        "ALTER TABLE streams RENAME TO streams_of_2",
        "CREATE TABLE streams (stream TEXT NOT NULL, first {whole} NOT NULL, options TEXT NOT NULL, "
        "PRIMARY KEY (stream, first))",
        f"INSERT INTO streams (stream, first, options) SELECT stream, {BEGINNING}, options FROM streams_of_2",  # noqa: S608
        "DROP TABLE streams_of_2",
    ),
    # Events of open slots as blocks of packed rows (`dpi.store.event_log`).
    4: (
        "ALTER TABLE events RENAME TO events_of_3",
        "CREATE TABLE events (stream TEXT NOT NULL, slot {whole} NOT NULL, block {whole} NOT NULL, "
        "tier {whole} NOT NULL, size {whole} NOT NULL, data {bytes} NOT NULL, PRIMARY KEY (stream, slot, block))",
        pack_rows,
        "DROP TABLE events_of_3",
        # A ledger in buckets: the list of its run files, and of files with events of open slots.
        "CREATE TABLE manifest (ledger TEXT NOT NULL, bucket {whole} NOT NULL, run {whole} NOT NULL, "
        "name TEXT NOT NULL, size {whole} NOT NULL, seal {bytes} NOT NULL, PRIMARY KEY (ledger, bucket, run))",
        "CREATE TABLE arrivals (stream TEXT NOT NULL, slot {whole} NOT NULL, name TEXT NOT NULL, "
        "start {whole} NOT NULL, size {whole} NOT NULL, buckets {whole} NOT NULL, number {whole} NOT NULL, "
        "events {whole} NOT NULL, secret {bytes} NOT NULL, PRIMARY KEY (stream, slot, name))",
    ),
}


def prepare(engine: Engine, fingerprint: str | None) -> None:
    """Make or migrate the tables, and check that the key is the store's own.

    Raises `StateError` for a store of a newer program, and for another key.
    """
    newest = max(VERSIONS)
    version = _version(engine)
    if version == 0 and engine.read_only:
        raise StateError("there is no store here.")
    if version > newest:
        raise newer(f"the store (its schema is {version}, this program knows {newest})")
    if 0 < version < newest and fact(engine, EXPORT) is not None:
        raise StateError("the export was written by an older version of dpi: make it anew with `dpi export`.")
    if version < newest and engine.read_only:
        raise StateError(
            "the store was written by an older version of dpi: open it once for writing, which migrates it."
        )
    if version < newest:
        with engine.transaction():
            build(engine, version)
    if fingerprint is not None and not engine.read_only and lacks_key(engine):
        with engine.transaction():
            set_fact(engine, "key", fingerprint)
    if fingerprint is not None and fact(engine, "key") != fingerprint:
        raise StateError(
            "the ledger key is not the one this store was made with: users would get new accounts. Put the right key "
            "back; without it the store can be read, not continued."
        )


def lacks_key(engine: Engine) -> bool:
    """Whether a store was begun and is without a key yet: nothing was declared in it."""
    return fact(engine, "key") is None and not engine.rows("SELECT 1 FROM chain LIMIT 1")


def build(engine: Engine, since: int = 0) -> None:
    """Make the tables, or what a store of the version `since` lacks, inside a transaction."""
    newest = max(VERSIONS)
    for step in range(since + 1, newest + 1):
        for change in VERSIONS[step]:
            if callable(change):
                change(engine)
            else:
                engine.execute(change.format(**engine.types))
    set_fact(engine, "schema", str(newest))


def _version(engine: Engine) -> int:
    if not engine.exists():
        return 0
    text = fact(engine, "schema")
    if text is None or not text.isdigit():
        raise StateError("this is no store of dpi, or it is damaged.")
    return int(text)


def fact(engine: Engine, name: str) -> str | None:
    """What the store says of itself under a name."""
    rows = engine.rows("SELECT value FROM facts WHERE name = ?", (name,))
    return str(rows[0][0]) if rows else None


def set_fact(engine: Engine, name: str, value: str) -> None:
    """Write or replace a fact."""
    engine.execute(
        "INSERT INTO facts (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (name, value),
    )
