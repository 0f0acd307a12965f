"""A back-up: a copy of one moment of a store, made while others write, and put back by the rules of old copies.

It is a store in a file, whatever it was copied from, and may be put back as a file or into PostgreSQL. It has all that
the store had, events of open slots and open nodes of trees included, but for the key: private, its owner's only.

**Guarantee.** Putting a back-up back gives nobody more than ε. *Why:* only a store that has a witness is copied, and
the copy knows its witness; a store that knows a witness is written to under it alone. A copy that lacks a release which
the witness saw is refused, or every account is charged for all that it lacks (`dpi.store.rollback`). So what was spent
after the copy was made is either there or charged. Should the store that was copied still run, whichever of the two
comes second to the witness is refused before it lets anything out (`Store.testify`).

The copy appears whole or not at all: what was half put back would be a store whose accounts are full.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from dpi.certificates.signature import Signer
from dpi.errors import OptionError, StateError, StoreError
from dpi.files.whole import put_new
from dpi.store import rollback
from dpi.store.engine import Engine
from dpi.store.export import is_export
from dpi.store.opening import engine_at, is_remote, open_store
from dpi.store.schema import build
from dpi.store.sqlite import SQLite
from dpi.store.witness import Seen, Witness

KEYS: dict[str, tuple[str, ...]] = {
    "facts": ("name",),
    "domains": ("digest",),
    "streams": ("stream", "first"),
    "progress": ("stream",),
    "measurements": ("stream", "slot"),
    "trees": ("stream",),
    "chain": ("entry",),
    "releases": ("stream", "slot"),
    "ledgers": ("ledger",),
    "levies": ("ledger", "entry"),
    "account_runs": ("ledger", "run", "part"),
    "sequences": ("stream", "producer"),
    "events": ("stream", "slot", "block"),
    "marks": ("stream", "number"),
    "manifest": ("ledger", "bucket", "run"),
    "arrivals": ("stream", "slot", "name"),
}
"""All tables of a store, with the columns that tell rows apart."""
_AT_ONCE = 16
"""Rows that are in memory at a time: a run of accounts has up to 16 MiB in each."""


def back_up(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Copy a store to a new file while it is in use; a file that is there is not replaced."""
    path = Path(target)
    with open_store(source, read_only=True) as store:
        if store.witnessed_by is None:
            raise StateError(
                "this store has no witness, so that nobody could tell a back-up of it from the newest copy: what was "
                "spent since would be spent again. Open it once with a `witness`, kept elsewhere.",
                options=("witness",),
            )
        if store.layout is not None:
            raise StateError(
                "the accounts of this store are in files, which a copy of the database would lack: move them into it "
                "first (`dpi ledger STORE --layout embedded`), or stop the program and copy both as they are."
            )
        with store.snapshot():
            _write(store.engine, path)


def restore(
    backup: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    witness: str | os.PathLike[str],
    key_file: str | os.PathLike[str] | None = None,
    charge_lost: bool = False,
    signer: Signer | None = None,
) -> Seen:
    """Put a back-up in a place where there is no store; returns what its witness had seen.

    If something was released since it was made, it is refused, or with `charge_lost` every account is charged for it.
    """
    name, source = os.fspath(target), Path(backup)
    if is_export(source):
        raise StateError("this is an export for analysts: it has no accounts, and cannot be gone on from.")
    with open_store(source, read_only=True) as store:
        seen = Witness(Path(witness)).read()
        if seen is None or store.witnessed_by != seen.witness:
            raise StateError(
                f"the witness {witness} is missing, or not the one of this back-up: without it nobody can tell what "
                "was spent since."
            )
        if store.lacks(seen) and not charge_lost:
            rollback.refuse(store, seen)
        if is_remote(name):
            with closing(engine_at(name)) as engine:
                if engine.exists():
                    raise OptionError("there is a store already; it is not replaced.")
                _copy(store.engine, engine)
        else:
            _write(store.engine, Path(name))
    open_store(
        name, key_file=key_file, witness=witness, charge_lost=charge_lost, signer=signer
    ).close()  # fmt: skip
    return seen


def _write(source: Engine, path: Path) -> None:
    """Copy into a new file, which appears whole or not at all."""
    if path.exists() or path.is_symlink():
        raise OptionError(f"{path} exists already; it is not replaced.")
    if not path.absolute().parent.is_dir():
        raise OptionError(f"a copy must lie in a folder that exists. Got {str(path)!r}.")
    draft = path.absolute().with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with closing(SQLite(draft)) as engine:
            _copy(source, engine)
            engine.erase()
        put_new(draft, path)
    except FileExistsError:
        raise OptionError(f"{path} exists already; it is not replaced.") from None
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"the copy {path} cannot be written: {error.strerror}.") from None
    finally:
        for suffix in ("", "-wal", "-shm", ".lock"):
            draft.with_name(draft.name + suffix).unlink(missing_ok=True)


def _copy(source: Engine, target: Engine) -> None:
    """All rows of all tables, in one transaction."""
    with target.transaction():
        build(target)
        target.execute("DELETE FROM facts")
        for table, keys in KEYS.items():
            for row in _rows(source, table, keys):
                places = ", ".join("?" * len(row))
                target.execute(f"INSERT INTO {table} VALUES ({places})", row)  # noqa: S608 - our own names


def _rows(engine: Engine, table: str, keys: tuple[str, ...]) -> Iterator[Sequence[object]]:
    """The rows of a table, some at a time; columns are in the order in which every store is made."""
    listed, places = ", ".join(keys), ", ".join("?" * len(keys))
    select = f"SELECT {listed}, {table}.* FROM {table}"  # noqa: S608 - our own names
    rows = engine.rows(f"{select} ORDER BY {listed} LIMIT {_AT_ONCE}")
    while rows:
        yield from (row[len(keys) :] for row in rows)
        after = rows[-1][: len(keys)]
        rows = engine.rows(f"{select} WHERE ({listed}) > ({places}) ORDER BY {listed} LIMIT {_AT_ONCE}", after)
