"""A store in a schema of a PostgreSQL database.

A commit counts when the server says so, with the durability it is set to (a replicated server should wait for its
quorum: `synchronous_commit`); a server set to answer before its own disk has it is asked to wait. Deleted rows are
vacuumed after every slot, so their space is used again; PostgreSQL does not overwrite it at once, and archived logs
keep what they hold: see the how-to on backups.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qsl, quote, urlencode

from dpi._version import how_to_install
from dpi.errors import OptionError, StoreBusy, StoreError
from dpi.store._engine import OTHER_WRITER, Engine

if TYPE_CHECKING:
    import psycopg


class PostgreSQL(Engine):
    """A connection to a schema of a database: `postgresql://…/database?schema=dpi`."""

    types: ClassVar = {"bytes": "BYTEA", "whole": "BIGINT"}
    begin_writing = "BEGIN ISOLATION LEVEL SERIALIZABLE"
    begin_reading = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

    def __init__(self, url: str, *, read_only: bool = False, wait: float = 0.0) -> None:
        try:
            import psycopg
        except ImportError:
            raise OptionError(f"a PostgreSQL store needs psycopg: {how_to_install('postgres')}.") from None
        super().__init__(read_only=read_only)
        self._url, self.schema = _split(url)
        self._errors: type[Exception] = psycopg.Error
        try:
            self._connection: psycopg.Connection[tuple[Any, ...]] = psycopg.connect(self._url, autocommit=True)
        except psycopg.Error as error:  # before anything private was said
            raise StoreError(f"PostgreSQL cannot be reached: {str(error).splitlines()[0]}") from None
        try:
            self._set_up(wait)
        except BaseException:
            self._connection.close()
            raise

    def _set_up(self, wait: float) -> None:
        self.execute("SELECT set_config('search_path', ?, false)", (f'"{self.schema}"',))
        if self.read_only:
            self.execute("SET default_transaction_read_only = on")
            return
        if self.rows("SHOW synchronous_commit")[0][0] in ("off", "local"):
            self.execute("SET synchronous_commit = on")
        name = hashlib.blake2b(f"dpi/{self.schema}".encode(), digest_size=8).digest()
        number = int.from_bytes(name, "big", signed=True)
        deadline = time.monotonic() + wait
        while not self.rows("SELECT pg_try_advisory_lock(?)", (number,))[0][0]:
            if time.monotonic() >= deadline:
                raise StoreBusy("another process writes to this store: wait for it, or open the store read-only.")
            time.sleep(0.1)
        self.execute(f'CREATE SCHEMA IF NOT EXISTS "{self.schema}"')

    def lease(self, seconds: float) -> None:
        """Have the server end this session, its transaction and its right to write, when nothing is heard for so long.

        It is the server that looks, so a process that is stopped, or cut off, or whose machine is asleep is noticed;
        when it comes back its session is gone, and all that it can do is to open the store again. (PostgreSQL 14.)
        """
        for name in ("idle_session_timeout", "idle_in_transaction_session_timeout"):
            self.execute("SELECT set_config(?, ?, false)", (name, f"{max(1, round(seconds * 1000))}ms"))

    def __repr__(self) -> str:
        return f"PostgreSQL(schema={self.schema!r})"

    def execute(self, statement: str, values: Sequence[object] = ()) -> None:
        with self._plainly():
            self._connection.execute(_placeholders(statement), tuple(values))

    def execute_many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        with self._plainly(), self._connection.cursor() as cursor:
            cursor.executemany(_placeholders(statement), rows)
            # What psycopg sends after its pipeline stops the server's clock of a lease: a statement starts it again.
            cursor.execute("SELECT 1")

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._plainly():
            return self._connection.execute(_placeholders(statement), tuple(values)).fetchall()

    def exists(self) -> bool:
        return bool(self.rows("SELECT 1 FROM pg_tables WHERE schemaname = ? AND tablename = 'facts'", (self.schema,)))

    def erase(self) -> None:
        """Let the space of deleted events and runs be used again."""
        with self.turn:
            self.execute("VACUUM events, account_runs, arrivals, progress, trees, marks")

    def close(self) -> None:
        """Give the right to write back, and close the connection: the server notices its end only a moment later."""
        with suppress(StoreError):
            self.give_up()
        self._connection.close()

    def give_up(self) -> None:
        self.execute("SELECT pg_advisory_unlock_all()")

    @contextmanager
    def _plainly(self) -> Iterator[None]:
        """Raise the server's errors as ours: by their kind alone, since its messages may quote a row."""
        try:
            yield
        except self._errors as error:
            kind = getattr(error, "sqlstate", None) or "no connection"
            if kind == "40001":  # two transactions that write at the same time: the server lets one of them happen
                raise StoreBusy(OTHER_WRITER) from None
            raise StoreError(f"PostgreSQL refused or was lost: {type(error).__name__} ({kind}).") from None


def _placeholders(statement: str) -> bytes:
    return statement.replace("?", "%s").encode()


def _split(url: str) -> tuple[str, str]:
    """Return the URL without our own parameter, and the schema."""
    address, _, text = url.partition("?")
    query = dict(parse_qsl(text))
    schema = query.pop("schema", "dpi")
    if not schema.isidentifier() or not schema.isascii():
        raise OptionError("`schema` of a PostgreSQL store must be a plain name.")
    return address + ("?" + urlencode(query, quote_via=quote) if query else ""), schema
