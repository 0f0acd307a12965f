"""The ledgers of an SQL store: read whole, looked up, or held for tasks; and moved without a refill.

**Moving.** All accounts are read with their seals checked, and written in the new layout, in one transaction: before it
nothing has changed, after it the old files are named by nobody. Names, amounts, levies and events of open slots are the
same, and so are the options and the chain. No account has more left afterwards: every record is read or the move is
refused, a log is written in its order, and no other writer comes between reading and writing.

**Another key.** Accounts are moved to other names in the same way, with the names of open events: all in one
transaction, with the fingerprint of the key. So the store has its old names and key, or its new ones. No two accounts
become one, and none becomes two: a further key permutes names (`dpi.events.identity.rename`).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dpi.budget.account_records import RECORD, Buckets, split, to_records
from dpi.budget.account_table import AccountsByName
from dpi.errors import OptionError, StateError
from dpi.events.identity import check_chain, rename
from dpi.store._paged_table import PagedTable
from dpi.store._schema import KEY, fact, fingerprint, set_fact
from dpi.store._sql_events import SQLEvents
from dpi.store.account_files import Run, RunFiles
from dpi.store.account_log import AccountLog, is_payments, payments_log
from dpi.store.base import Levy
from dpi.store.folder import BITS, LAYOUT, Folder, Layout, folder_beside
from dpi.store.ledger_session import LedgerSession

BEGUN = "layout begun"
"""The fact by which a store remembers a folder that it has begun to fill."""


class Held(NamedTuple):
    """A ledger in buckets, as it is paid from by tasks."""

    runs: dict[int, list[Run]]
    levies: tuple[Levy, ...]


class SQLAccounts(SQLEvents):
    """Ledgers, and what accounts have paid in streams."""

    def ledgers(self) -> dict[str, str]:
        rows = self.engine.rows("SELECT ledger, options FROM ledgers")
        return {str(name): str(text) for name, text in rows if not is_payments(str(name))}

    def load_ledger(self, ledger: str, options: str) -> tuple[bytes, list[Levy]]:
        self._begin(ledger, options)
        return b"".join(self.account_parts(ledger, options)), self._accounts.levies(ledger)

    def _begin(self, ledger: str, options: str) -> None:
        known = self.engine.rows("SELECT options FROM ledgers WHERE ledger = ?", (ledger,))
        if not known:
            with self.engine.transaction():
                self._accounts.begin(ledger, options)
        elif known[0][0] != options:
            raise StateError("the store's ledger has other options (epsilon, policy or period).")

    def account_parts(self, ledger: str, options: str) -> Iterator[bytes]:
        """Give the records of a ledger, those of a bucket at a time."""
        self._accounts.check(ledger, options)
        return self._accounts.parts(ledger)

    def payments(self, stream: str) -> bytes:
        return b"".join(self.payment_parts(stream))

    def payment_parts(self, stream: str) -> Iterator[bytes]:
        return self._accounts.parts(payments_log(stream)) if self._has_payments(stream) else iter(())

    def _has_payments(self, stream: str) -> bool:
        """Return whether there is a log of what accounts have paid in a stream, as it was sealed."""
        log, name = self._accounts, payments_log(stream)
        options = log.names().get(name)
        if options is None and self.bounds(stream) is not None:
            raise StateError("the store is damaged: what accounts have paid in a stream is missing.")
        if options is not None:
            log.check(name, options)
        return options is not None

    # Accounts by name.

    def ledger_table(self, ledger: str, options: str, *, paying: bool = False) -> tuple[AccountsByName, list[Levy]]:
        """Return the accounts and levies of a ledger; of accounts in files few are read."""
        self._begin(ledger, options)
        if paying:
            self._hold(ledger)
        with self.snapshot():  # another process may write between the seal and what it is of
            self._accounts.check(ledger, options)
            return self._table(ledger, paying=paying), self._accounts.levies(ledger)

    def payment_table(self, stream: str, *, paying: bool = False) -> AccountsByName | None:
        return self._table(payments_log(stream), paying=paying) if self._has_payments(stream) else None

    def new_payments(self, stream: str) -> AccountsByName:
        log = payments_log(stream)
        return self._tables[log] if log in self._tables else self._table(log, paying=True)

    def _table(self, log: str, *, paying: bool) -> AccountsByName:
        table = self._accounts.table(log)
        if paying and isinstance(table, PagedTable):
            self._tables[log] = table
        return table

    # Accounts that tasks work on.

    def hold_ledger(self, ledger: str, options: str) -> Held:
        """Return the runs and levies of a ledger that tasks will pay from, of one moment: no file is read.

        That another process pays meanwhile is then noticed, as with `ledger_table`.
        """
        with self.engine.turn:
            self._begin(ledger, options)
            with self.engine.transaction():
                log = self._in_files()
                log.check(ledger, options)
                self._hold(ledger)
                return Held(log.runs(ledger, loaded=True), tuple(log.levies(ledger)))

    def hold_payments(self, stream: str) -> dict[int, list[Run]]:
        """Return the runs of a stream's payments by class: no file is read."""
        return self._in_files().runs(payments_log(stream), loaded=True) if self._has_payments(stream) else {}

    def run_files(self, log: str) -> RunFiles:
        """Return how the runs of a log are read and written."""
        return self._in_files().files(log)

    def _in_files(self) -> AccountLog:
        if self.layout is None:
            raise StateError("the store has its accounts in the database, not in buckets: see `dpi ledger --layout`.")
        return self._accounts

    # Moving.

    def lay_out(self, path: Path | None = None, bits: int = BITS) -> None:
        """Put all accounts into 2^bits buckets of files in a new folder, at a path or beside the store."""
        buckets = Buckets(bits)
        self.key  # noqa: B018 - without it nothing is made
        if path is None:
            if self.engine.path is None:
                raise OptionError(
                    "a store in a database server needs a folder for its buckets: give `path` (`dpi ledger --layout "
                    "buckets --path …`)."
                )
            path = folder_beside(self.engine.path)
        folder = Folder.make(path, self._mark(path))
        try:
            self._move(Layout(str(folder.path), folder.mark, buckets.bits))
        except BaseException:
            if self.folder is None or self.folder.path != folder.path:
                with suppress(Exception):
                    folder.remove()
            raise

    def lay_out_new(self, path: Path | None, bits: int) -> None:
        """Put accounts into buckets of files, before there are any; others are moved by whoever says so."""
        if any(self.engine.rows(f"SELECT 1 FROM {table} LIMIT 1") for table in ("account_runs", "measurements")):  # noqa: S608
            raise StateError(
                "the store has its accounts in the database: move them with `dpi ledger STORE --layout buckets`, which "
                "refills no account."
            )
        self.lay_out(path, bits)

    def embed(self) -> None:
        """Put all accounts back into the database; memory has to hold them, as when they are paid from."""
        if self.layout is not None:
            self._move(None)

    def change_key(self, key: bytes) -> None:
        """Name all accounts and open events by a chain of keys that goes on from the store's own."""
        check_chain(key)
        if not key.startswith(self.key):
            raise StateError("a new key is added to the one that the store has: by it alone no account would be found.")
        if LedgerSession.of(self).in_use:
            raise StateError("streams are open on this store, which name users by its key: close them first.")
        if key != self.key:
            self._move(self.layout, key)

    def _mark(self, path: Path) -> str:
        """Return the mark of a folder that is begun: the store knows it first, so that a later process goes on."""
        begun = fact(self.engine, BEGUN)
        known = json.loads(begun) if begun else {}
        if known.get("path") != str(path.absolute()):
            known = {"path": str(path.absolute()), "mark": secrets.token_hex(16)}
            with self._writing():
                set_fact(self.engine, BEGUN, json.dumps(known))
        return str(known["mark"])

    def _move(self, layout: Layout | None, key: bytes | None = None) -> None:
        """Put all accounts where a layout says, under the names that they have by a key."""
        old, own = self.folder, self.key
        further = b"" if key is None else key[len(own) :]
        try:
            with self._writing():
                log, events = self._accounts, self._take_arrivals()
                set_fact(self.engine, LAYOUT, "" if layout is None else layout.to_json())
                set_fact(self.engine, BEGUN, "")
                self.secret = own + further
                set_fact(self.engine, KEY, fingerprint(self.secret))
                target = self._accounts
                with target.attempt() as attempt:
                    for name, options in log.names().items():
                        log.check(name, options)
                        parts = (_renamed(records, further) for records in log.parts(name))
                        runs = target.write(attempt, name, parts, {})
                        log.clear(name)
                        target.put(name, runs)
                for stream, kept in events:
                    self._add_events(stream, kept)
                if further:
                    self._rename_events(further)
        except BaseException:
            self.secret = own
            raise
        self._named_by = fingerprint(self.secret)
        for name in self._seals:
            self._hold(name)
        self._tables.clear()
        LedgerSession.of(self).doubt()  # what this process has read of ledgers is read anew
        self.erase()
        if old is not None and old is not self.folder:
            with suppress(StateError):  # it is another's, or not there: nothing of ours is in it
                old.remove()


def _renamed(records: bytes, keys: bytes) -> bytes:
    """Return records in their order, under the names of further keys."""
    if not keys:
        return records
    names, standing = split(np.frombuffer(records, dtype=RECORD))
    return to_records(rename(names, keys), standing)
