"""The embedded store: one SQLite file, with the ledger's key in a file beside it.

SQLite was chosen over DuckDB and LMDB: it is part of Python, commits durably in one write-ahead log that is known to
survive crashes, lets others read while one process writes, and overwrites what is deleted (`secure_delete`). What it is
slow at, millions of row updates, does not happen here: accounts are appended as runs.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

from dpi import secret
from dpi.errors import StateError, StoreBusy, StoreError
from dpi.store.engine import Engine


class SQLite(Engine):
    """A connection to a file. A writer holds a lock beside it; readers need none.

    Deleted rows are overwritten with zeros, and the log is copied into the file and cut to nothing after every slot,
    so that a closed slot's events are gone from both. A reader in mid-query delays that until the next slot.
    """

    types: ClassVar = {"bytes": "BLOB", "whole": "INTEGER"}

    def __init__(self, path: Path, *, read_only: bool = False, wait: float = 0.0) -> None:
        self._path, self._read_only = path, read_only
        self._lock = None if read_only else _lock(path, wait)
        try:
            if not read_only:
                os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            with _plainly():
                mode = "ro" if read_only else "rw"
                self._connection = sqlite3.connect(
                    f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, timeout=30.0
                )
                if not read_only:
                    self._set_up()
        except BaseException as error:
            self._unlock()
            if isinstance(error, OSError) and not isinstance(error, StoreError):
                raise StoreError(f"the store {path} cannot be opened: {error.strerror}.") from None
            raise

    def _set_up(self) -> None:
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON", "temp_store = MEMORY"):
            self._connection.execute(f"PRAGMA {pragma}")

    def __repr__(self) -> str:
        return f"SQLite({str(self._path)!r})"

    @property
    def read_only(self) -> bool:
        """Whether nothing may be written."""
        return self._read_only

    def execute(self, statement: str, values: Sequence[object] = ()) -> None:
        """Run a statement."""
        with _plainly():
            self._connection.execute(statement, tuple(values))

    def execute_many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Run a statement for every row of values."""
        with _plainly():
            self._connection.executemany(statement, rows)

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """What a query finds."""
        with _plainly():
            return self._connection.execute(statement, tuple(values)).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All statements inside happen durably at once, or none of them does."""
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            with suppress(StoreError):
                self.execute("ROLLBACK")
            raise

    def exists(self) -> bool:
        """Whether the schema is there."""
        tables = {name for (name,) in self.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and "facts" not in tables:
            raise StateError("this file is a database of something else than dpi.")
        return bool(tables)

    def erase(self) -> None:
        """Copy the log into the file, where deleted rows are zeros, and cut it to nothing."""
        self.rows("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the file and let others write."""
        self._connection.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


@contextmanager
def _plainly() -> Iterator[None]:
    """SQLite's errors as ours. Its messages name tables and conditions of the file, never a row's values."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if "not a database" in str(error) or "malformed" in str(error):
            raise StateError("this is no store of dpi, or it is damaged.") from None
        raise StoreError(f"the store cannot be read or written: {error}.") from None


def _lock(path: Path, wait: float) -> int:
    """The right to write, which the operating system takes back when the process ends, however it ends."""
    try:
        descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StoreError(f"the store {path} cannot be opened for writing: {error.strerror}.") from None
    deadline = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(descriptor)
                raise StoreBusy(
                    f"another process writes to the store {path}: wait for it, or open the store read-only."
                ) from None
            time.sleep(0.05)
        else:
            return descriptor


def ledger_key(path: Path, *, new: bool) -> bytes:
    """The secret in a key file; made for a new store."""
    if new and not path.exists():
        secret.create(path, os.urandom(32).hex().encode() + b"\n")
    try:
        key = bytes.fromhex(secret.read(path).decode().strip())
    except FileNotFoundError:
        raise StateError(
            f"the ledger key {path} is missing: without it every user would get a new account. Put it back from your "
            "backup of secrets; the store can still be read (`report`, `query`, `verify`)."
        ) from None
    except ValueError:
        raise StateError(f"the ledger key {path} is damaged: it must hold 64 hexadecimal digits.") from None
    return key
