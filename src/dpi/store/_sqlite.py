"""The embedded store: one SQLite file, with the ledger's key in a file beside it.

SQLite was chosen over DuckDB and LMDB: it is part of Python, commits durably in one write-ahead log that is known to
survive crashes, lets others read while one process writes, and overwrites what is deleted (`secure_delete`). What it is
slow at, millions of row updates, does not happen here: accounts are appended as runs.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

from dpi.errors import StateError, StoreError
from dpi.events.identity import KEY_BYTES
from dpi.files import create_key, read_keys
from dpi.store._engine import Engine
from dpi.store._write_lock import FileUse


class SQLite(Engine):
    """A connection to a file. A writer has the right to write (`dpi.store._write_lock`); readers need none.

    Deleted rows are overwritten with zeros, and the log is copied into the file and cut to nothing after every slot,
    so that a closed slot's events are gone from both. A reader in mid-query delays that until the next slot.
    """

    path: Path
    types: ClassVar = {"bytes": "BLOB", "whole": "INTEGER"}
    begin_writing = "BEGIN IMMEDIATE"
    begin_reading = "BEGIN"

    def __init__(self, path: Path, *, read_only: bool = False, wait: float = 0.0) -> None:
        super().__init__(read_only=read_only)
        self.path, self._query = path, Lock()
        self._use = FileUse(path, write=not read_only, wait=wait)
        try:
            mode = "ro" if read_only else "rw"
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}",
                uri=True,
                isolation_level=None,
                timeout=30.0,
                check_same_thread=False,  # transactions take turns
            )
            self._connection.text_factory = partial(str, encoding="utf-8", errors="replace")
            self.exists()  # before anything of a foreign database is changed
            if not read_only:
                self._set_up()
        except BaseException as error:
            self.close()
            if isinstance(error, sqlite3.DatabaseError):
                raise _plain(error) from None
            if isinstance(error, OSError) and not isinstance(error, StoreError):
                raise StoreError(f"the store {path} cannot be opened: {error.strerror}.") from None
            raise

    def _set_up(self) -> None:
        for pragma in ("synchronous = FULL", "fullfsync = ON", "temp_store = MEMORY"):
            self._connection.execute(f"PRAGMA {pragma}")
        for pragma, answer in (("journal_mode = WAL", "wal"), ("secure_delete = ON", 1)):
            if self.rows(f"PRAGMA {pragma}")[0][0] != answer:
                raise StoreError(f"SQLite cannot erase safely on this disk: it refuses {pragma}.")

    def __repr__(self) -> str:
        return f"SQLite({str(self.path)!r})"

    def execute(self, statement: str, values: Sequence[object] = ()) -> None:
        try:
            self._connection.execute(statement, tuple(values))
        except sqlite3.DatabaseError as error:
            raise _plain(error) from None

    def execute_many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        try:
            self._connection.executemany(statement, rows)
        except sqlite3.DatabaseError as error:
            raise _plain(error) from None

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return what a query finds; one query at a time: SQLite refuses to erase in the middle of another thread's."""
        try:
            with self._query:
                return self._connection.execute(statement, tuple(values)).fetchall()
        except sqlite3.DatabaseError as error:
            raise _plain(error) from None

    def exists(self) -> bool:
        tables = {name for (name,) in self.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and "facts" not in tables:
            raise StateError("this file is a database of something else than dpi.")
        return bool(tables)

    def erase(self) -> None:
        """Copy the log into the file, where deleted rows are zeros, and cut it to nothing.

        A release never waits for a reader: what one still looks at is erased with the next slot.
        """
        with self.turn:
            self.execute("PRAGMA busy_timeout = 0")
            self.rows("PRAGMA wal_checkpoint(TRUNCATE)")
            self.execute("PRAGMA busy_timeout = 30000")

    def give_up(self) -> None:
        self._use.give_up()

    def close(self) -> None:
        """Close the file and let others write."""
        if hasattr(self, "_connection"):
            self._connection.close()
        self._use.end()  # after the connection: what it closes would take SQLite's own locks from this process


def _plain(error: sqlite3.DatabaseError) -> StoreError | StateError:
    """Return SQLite's error as ours. Its messages name tables and conditions of the file, never a row's values."""
    if "not a database" in str(error) or "malformed" in str(error):
        return StateError("this is no store of dpi, or it is damaged.")
    return StoreError(f"the store cannot be read or written: {error}.")


def ledger_key(path: Path, *, new: bool) -> bytes:
    """Return the keys in a key file, the oldest first; made for a new store."""
    if new and not path.exists():
        create_key(path, KEY_BYTES)
    try:
        keys = read_keys(path, KEY_BYTES)
    except FileNotFoundError:
        raise StateError(
            f"the ledger key {path} is missing: without it every user would get a new account. Put it back from your "
            "backup of secrets; the store can still be read (`report`, `query`, `verify`)."
        ) from None
    except OSError as error:
        raise StoreError(f"the ledger key {path} cannot be read: {error.strerror}.") from None
    if keys is None:
        raise StateError(f"the ledger key {path} is damaged: each line must hold {2 * KEY_BYTES} hexadecimal digits.")
    return b"".join(keys)
