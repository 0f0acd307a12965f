"""Opening a store by its name: a path, or the address of a PostgreSQL database."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

from dpi.certificates.signature import Signer
from dpi.errors import OptionError, StateError, StoreError
from dpi.files import OWNER
from dpi.store import _rollback, export
from dpi.store._engine import Engine
from dpi.store._schema import lacks_key, prepare
from dpi.store._sqlite import SQLite, ledger_key
from dpi.store.base import Store
from dpi.store.folder import MEMORY, Folder, layout_of
from dpi.store.sql import SQLStore
from dpi.store.witness import Witness

DEFAULT_KEY = "dpi.key"
"""The key file of a PostgreSQL store, in the working folder, unless another is named."""
LEAST = 1 << 20
"""Bytes of memory that accounts in files need."""
PAGED_BITS = 6
"""64 buckets, where memory is short: one of them is written anew at a time."""
_REMOTE = ("postgresql://", "postgres://")
_DECLARATION_TABLES = {"facts", "domains", "streams", "chain", "ledgers"}
"""Tables that hold what was declared of a stream before its first slot; rows in any other mean that it was used."""


def open_store(
    target: str | os.PathLike[str],
    *,
    key_file: str | os.PathLike[str] | None = None,
    read_only: bool = False,
    curator: bool = False,
    wait: float = 0.0,
    witness: str | os.PathLike[str] | Literal[False] | None = None,
    charge_lost: bool = False,
    new_witness: bool = False,
    new: bool = False,
    signer: Signer | None = None,
    memory: int | None = None,
) -> SQLStore:
    """Return the store at a path or URL; made if there is none, unless `read_only`.

    Read-only, the key is left alone unless a `curator` asks, who looks at accounts. `witness` is a file that remembers
    the head of the chain: a store that is older than it is refused, or with `charge_lost` every account is charged for
    what the store has forgotten (an entry of the chain says so, signed by `signer`). A new store in a file has one
    beside it (the same name with .witness added); it is better kept elsewhere, and `witness=False` keeps none. A store
    that has a witness is not written to without it; if that is lost, `new_witness` begins another, and whoever says it
    vouches that no newer copy of the store has released anything.

    A key that was made with a store is refused if that store is gone: the same slots would be published again from full
    accounts. `new` begins another store with it, in which every user has all of ε once more. A `key_file` that is named
    may be made before its store; there the witness tells that a store is gone.

    One process writes to a store: another gets `StoreBusy`, at once or after `wait` seconds. The ledger's key lies in
    `key_file` (for a path, the same name with .key added), is made with the store, and belongs into your backup of
    secrets, apart from the store: who has both can test whether a user has an account.

    With `memory`, accounts take at most about so many bytes in this process, however many there are: those that do not
    fit lie in a folder of files beside the store, from which a slot reads the accounts of its users alone. Once a store
    has a folder it stays so (`dpi ledger --layout embedded` moves it back), with 1 GiB unless said.

    >>> import tempfile
    >>> store = open_store(tempfile.mkdtemp() + "/visits.db")
    >>> store.streams()
    {}
    >>> store.close()
    """
    name = os.fspath(target)
    if memory is not None and (type(memory) is not int or memory < LEAST):
        raise OptionError(f"`memory` must be a whole number of bytes, at least {LEAST}. Got {memory!r}.")
    key_path = key_path_of(name, key_file)
    kept = key_path if key_file is None and not new else None
    if not is_remote(name):
        _check_file(name, kept, read_only=read_only, curator=curator)
    engine = engine_at(name, read_only=read_only, wait=wait)
    try:
        if not read_only:
            _begin(engine, kept, new)
        key = None if read_only and not curator else ledger_key(key_path, new=not read_only and lacks_key(engine))
        store = SQLStore(engine, key, MEMORY if memory is None else memory)
        if read_only:
            if witness:
                _refuse_older(store, Witness(Path(witness)))
            return store
        guard = _find_witness(store, name, witness)
        if guard is not None:
            _ask_witness(store, guard, charge_lost, new_witness or new, signer)
        store.erase()  # what a process left that ended before it came to this; of the newest copy alone
        if memory is not None and store.layout is None:
            store.lay_out(bits=PAGED_BITS)
        return store
    except BaseException:
        engine.close()
        raise


def _check_file(name: str, key: Path | None, *, read_only: bool, curator: bool) -> None:
    """Refuse a file that is not there to be read, an export to be written, and a new store beside an old key."""
    path = Path(name)
    if read_only and not path.exists():
        raise StateError(f"there is no store at {name}.")
    if curator or not read_only:
        export.refuse(path)
    if not read_only and not path.exists():
        _refuse_key(key)  # before an empty file is made


def _refuse_older(store: SQLStore, witness: Witness) -> None:
    """Refuse to read a copy that lacks what its witness has seen."""
    seen = witness.read()
    if seen is not None and store.lacks(seen):
        _rollback.refuse(store, seen)


def _begin(engine: Engine, key: Path | None, new: bool) -> None:
    """Make the tables of a new store, before its key: one that is there by its own name already had another store."""
    if engine.exists():
        if new:
            raise OptionError("`new` begins a store where there is none. There is one: leave it out.")
        return
    _refuse_key(key)
    prepare(engine, None)


def _refuse_key(key: Path | None) -> None:
    if key is not None and key.exists():
        raise StateError(
            f"the ledger key {key} is there and its store is not: the same slots would be published again from full "
            "accounts. Put the store back (`dpi backup restore`); or say `new=True`, after which every user "
            "has all of ε once more, beside what the lost store has published.",
            options=("new",),
        )


def key_path_of(name: str, key_file: str | os.PathLike[str] | None) -> Path:
    """Return where the ledger's key of a store is."""
    return Path(key_file if key_file is not None else DEFAULT_KEY if is_remote(name) else name + ".key")


def witness_beside(name: str) -> Path:
    """Return where the witness of a store in a file is, unless another place is named."""
    return Path(name + ".witness")


def _find_witness(
    store: SQLStore, name: str, witness: str | os.PathLike[str] | Literal[False] | None
) -> Witness | None:
    """Return the witness of a store that is written to: the one named, or one beside a file that is new or has one."""
    if witness:
        return Witness(Path(witness), mode=0o666)
    path = witness_beside(name)
    if witness is not False and not is_remote(name) and (store.head().sequence < 0 or path.exists()):
        return Witness(path, mode=OWNER)  # beside the store as all that lies there
    if store.witnessed_by is not None:
        raise StateError(
            "this store has a witness, which alone detects an old copy: name it (`witness=`).",
            options=("witness",),
        )
    return None


def find_store(target: str | os.PathLike[str] | Store, *, read_only: bool = False) -> Store:
    """Return a store object as it is; opens one that is named by a path or URL."""
    return target if isinstance(target, Store) else open_store(target, read_only=read_only)


def is_remote(target: str) -> bool:
    """Say whether a store is in a database of a server, to which processes of several machines can turn."""
    return target.startswith(_REMOTE)


def store_exists(target: str | os.PathLike[str]) -> bool:
    """Say whether there is a store at a path or URL; nothing is made or changed."""
    name = os.fspath(target)
    if not is_remote(name) and not Path(name).exists():
        return False
    with closing(engine_at(name, read_only=True)) as engine:
        return engine.exists()


def _ask_witness(
    store: SQLStore, witness: Witness, charge_lost: bool, new_witness: bool, signer: Signer | None
) -> None:
    """Ask the witness whether the store is the newest; from then on tell it of every release."""
    seen, known, path = (None if new_witness else witness.read()), store.witnessed_by, witness.path
    if seen is None and known is not None and not new_witness:
        raise StateError(
            f"the witness {path} is missing: without it an old copy of the store is not detected. Put it back; "
            "or say `new_witness=True`, if you are sure that the store is the newest one.",
            options=("new_witness",),
        )
    if seen is not None and known not in (None, seen.witness):
        raise StateError(f"the witness {path} is not the one of this store.")
    if seen is not None and store.lacks(seen):
        if not charge_lost:
            _rollback.refuse(store, seen)
        if known is None:
            raise StateError(
                "this copy is from before the witness, or of another store: the slots that it lacks are not known."
            )
        _rollback.charge(store, seen, signer)
    store.witness = replace(witness, name=secrets.token_hex(16) if seen is None else seen.witness)
    store.testify()  # before the store says that it has a witness: a crash in between must not leave it without one
    if store.witnessed_by != store.witness.name:
        store.witnessed_by = store.witness.name


def engine_at(name: str, *, read_only: bool = False, wait: float = 0.0) -> Engine:
    """Return a connection to whatever is, or will be, at a path or URL."""
    if not is_remote(name):
        return SQLite(Path(name), read_only=read_only, wait=wait)
    from dpi.store._postgres import PostgreSQL

    return PostgreSQL(name, read_only=read_only, wait=wait)


def remove_unused(path: Path, others: Iterable[Path] = ()) -> bool:
    """Remove a store in a file that was never used, and the other files that were made with it; whether it did so.

    So a command that fails leaves nothing behind. A store that has paid, released or kept anything is never removed:
    its accounts are the promise, and events that were acknowledged are in no other place. That is looked at, and the
    files are removed, with the right to write, so that no other process can begin to use it meanwhile.
    """
    if not path.exists():
        return False
    try:
        engine = SQLite(path)
    except (StateError, StoreError):  # another process has it, or it is something else
        return False
    with closing(engine):
        if _used(engine):
            return False
        layout = layout_of(engine) if engine.exists() else None
        if layout is not None:
            with suppress(StateError, StoreError):
                Folder(Path(layout.path), layout.mark).remove()
        beside = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm", ".lock"))
        for file in (path, *beside, *others):
            with suppress(OSError):
                file.unlink(missing_ok=True)
        return True


def _used(engine: SQLite) -> bool:
    if not engine.exists():
        return False
    tables = {name for (name,) in engine.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}
    filled = {name for name in tables if engine.rows(f"SELECT 1 FROM {name} LIMIT 1")}  # noqa: S608 - our own tables
    return not filled <= _DECLARATION_TABLES or engine.rows("SELECT COUNT(*) FROM chain")[0][0] > 1
