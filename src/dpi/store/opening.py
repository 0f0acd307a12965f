"""Opening a store by its name: a path, or the address of a PostgreSQL database."""

from __future__ import annotations

import os
from pathlib import Path

from dpi.errors import StateError
from dpi.store import rollback
from dpi.store.engine import Engine
from dpi.store.sql import SQLStore
from dpi.store.sqlite import SQLite, ledger_key
from dpi.store.witness import Witness

DEFAULT_KEY = "dpi.key"
"""The key file of a PostgreSQL store, in the working folder, unless another is named."""


def open_store(
    target: str | os.PathLike[str],
    *,
    key_file: str | os.PathLike[str] | None = None,
    read_only: bool = False,
    curator: bool = False,
    wait: float = 0.0,
    witness: str | os.PathLike[str] | None = None,
    charge_lost: bool = False,
) -> SQLStore:
    """The store at a path or URL; made if there is none, unless `read_only`.

    Read-only, the key is left alone unless a `curator` asks, who looks at accounts. `witness` is a file kept elsewhere
    that remembers the head of the chain: a store that is older than it is refused, or with `charge_lost` every account
    is charged for what the store has forgotten.

    One process writes to a store: another gets `StoreBusy`, at once or after `wait` seconds. The ledger's key lies in
    `key_file` (for a path, the same name with .key added), is made with the store, and belongs into your back-up of
    secrets, apart from the store: who has both can test whether a user has an account.

    >>> import tempfile
    >>> store = open_store(tempfile.mkdtemp() + "/visits.db")
    >>> store.streams()
    {}
    >>> store.close()
    """
    name = os.fspath(target)
    remote = name.startswith(("postgresql://", "postgres://"))
    key_path = Path(key_file if key_file is not None else DEFAULT_KEY if remote else name + ".key")
    if read_only and not remote and not Path(name).exists():
        raise StateError(f"there is no store at {name}.")
    engine = _engine(name, remote, read_only, wait)
    try:
        key = None if read_only and not curator else ledger_key(key_path, new=not read_only and not engine.exists())
        store = SQLStore(engine, key)
        if witness is not None:
            _check(store, Witness(Path(witness)), charge_lost)
        return store
    except BaseException:
        engine.close()
        raise


def _check(store: SQLStore, witness: Witness, charge_lost: bool) -> None:
    seen = witness.read()
    if seen is not None and rollback.lost(store, seen):
        if not charge_lost or store.engine.read_only:
            rollback.refuse(store, seen)
        rollback.charge(store, seen)
    store.witness = None if store.engine.read_only else witness
    store.testify()


def _engine(name: str, remote: bool, read_only: bool, wait: float) -> Engine:
    if not remote:
        return SQLite(Path(name), read_only=read_only, wait=wait)
    from dpi.store.postgres import PostgreSQL

    return PostgreSQL(name, read_only=read_only, wait=wait)
