"""A back-up: a copy of one moment of a store, made while others write, and put back by the rules of old copies.

It is a store in a file, whatever it was copied from, and may be put back as a file or into PostgreSQL. It has all that
the store had, events of open slots and open nodes of trees included, but for the key: private, its owner's only. Of a
store with accounts in buckets it is two, the file and the folder of its own bucket files beside it, of the same moment.

**Guarantee.** Putting a back-up back gives nobody more than ε. *Why:* only a store that has a witness is copied, and
the copy knows its witness; a store that knows a witness is written to under it alone. A copy that lacks a release which
the witness saw is refused, or every account is charged for all that it lacks (`dpi.store.rollback`). So what was spent
after the copy was made is either there or charged. Should the store that was copied still run, whichever of the two
comes second to the witness is refused before it lets anything out (`Store.testify`).

The copy appears whole or not at all: what was half put back would be a store whose accounts are full. A folder comes
before the database that names it, and a file that is missing there is refused by whoever opens the store.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from dpi.certificates.signature import Signer
from dpi.errors import OptionError, StateError, StoreError
from dpi.files import put_new
from dpi.store import rollback
from dpi.store.bucket_copy import BucketCopy
from dpi.store.engine import Engine
from dpi.store.export import is_export
from dpi.store.folder import LAYOUT, MISSING, Folder, Layout, folder_beside
from dpi.store.opening import engine_at, is_remote, open_store
from dpi.store.schema import TABLES, build, keys_of, set_fact
from dpi.store.sql import SQLStore
from dpi.store.sqlite import SQLite
from dpi.store.witness import Seen, Witness

TRIES = 8
"""So often a copy of bucket files begins with what the store lists by then."""
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
        if store.layout is None:
            with store.snapshot():
                _write(store.engine, path)
        else:
            _back_up_buckets(store, path)


def _back_up_buckets(store: SQLStore, path: Path) -> None:
    """Copy files and database as they were at one moment: the first at which no file was replaced meanwhile."""
    with BucketCopy.begun(folder_beside(path)) as copy:
        for _ in range(TRIES):
            _taken(store, copy)  # most of it, without a snapshot that the database would have to keep
            with store.snapshot():
                if _taken(store, copy) and store.layout is not None:
                    _write(store.engine, path, copy.finished(store._listed_files(), store.layout.bits))
                    return
        raise StateError(
            "bucket files that the store lists were gone before they were copied. Slots that close so fast are copied "
            "between two of them; if none is closing, the folder has lost files."
        )


def _taken(store: SQLStore, copy: BucketCopy) -> bool:
    """Copy the files that a store lists now, and that are not copied yet; whether all of them were there."""
    return store.folder is None or copy.take(store.folder, store._listed_files())


def restore(
    backup: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    witness: str | os.PathLike[str],
    key_file: str | os.PathLike[str] | None = None,
    path: str | os.PathLike[str] | None = None,
    charge_lost: bool = False,
    signer: Signer | None = None,
) -> Seen:
    """Put a back-up in a place where there is no store; returns what its witness had seen.

    If something was released since it was made, it is refused, or with `charge_lost` every account is charged for it.
    Bucket files are put in the new folder `path`, or beside the store.
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
        with _put_buckets(store, source, name, path) as layout:
            if is_remote(name):
                with closing(engine_at(name)) as engine:
                    if engine.exists():
                        raise OptionError("there is a store already; it is not replaced.")
                    _copy(store.engine, engine, layout)
            else:
                _write(store.engine, Path(name), layout)
    open_store(
        name, key_file=key_file, witness=witness, charge_lost=charge_lost, signer=signer
    ).close()  # fmt: skip
    return seen


@contextmanager
def _put_buckets(
    store: SQLStore, source: Path, target: str, path: str | os.PathLike[str] | None
) -> Iterator[Layout | None]:
    """The bucket files of a back-up, which lie beside it, in a folder of the store that is made; None without any."""
    layout = store.layout
    if layout is None:
        if path is not None:
            raise OptionError("`path` is of buckets, and this back-up has its accounts in the database: leave it out.")
        yield None
        return
    if path is None and is_remote(target):
        raise OptionError("a store in a database server needs a folder for its buckets: give `path`.")
    with BucketCopy.begun(folder_beside(Path(target)) if path is None else Path(path)) as copy:
        listed = store._listed_files()
        if not copy.take(Folder(folder_beside(source.absolute()), layout.mark), listed):
            raise StateError(MISSING)
        yield copy.finished(listed, layout.bits)


def _write(source: Engine, path: Path, layout: Layout | None = None) -> None:
    """Copy into a new file, which appears whole or not at all."""
    if path.exists() or path.is_symlink():
        raise OptionError(f"{path} exists already; it is not replaced.")
    if not path.absolute().parent.is_dir():
        raise OptionError(f"a copy must lie in a folder that exists. Got {str(path)!r}.")
    draft = path.absolute().with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with closing(SQLite(draft)) as engine:
            _copy(source, engine, layout)
            engine.erase()
            engine.rows("PRAGMA journal_mode = DELETE")  # a copy is one file: reading it makes none beside it
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


def _copy(source: Engine, target: Engine, layout: Layout | None = None) -> None:
    """All rows of all tables, in one transaction; the copy of a store in buckets has them in a folder of its own."""
    with target.transaction():
        build(target)
        target.execute("DELETE FROM facts")
        for table in TABLES:
            for row in _rows(source, table):
                places = ", ".join("?" * len(row))
                target.execute(f"INSERT INTO {table} VALUES ({places})", row)  # noqa: S608 - our own names
        if layout is not None:
            set_fact(target, LAYOUT, layout.to_json())


def _rows(engine: Engine, table: str) -> Iterator[Sequence[object]]:
    """The rows of a table, some at a time; columns are in the order in which every store is made."""
    keys = keys_of(table)
    listed, places = ", ".join(keys), ", ".join("?" * len(keys))
    select = f"SELECT {listed}, {table}.* FROM {table}"  # noqa: S608 - our own names
    rows = engine.rows(f"{select} ORDER BY {listed} LIMIT {_AT_ONCE}")
    while rows:
        yield from (row[len(keys) :] for row in rows)
        after = rows[-1][: len(keys)]
        rows = engine.rows(f"{select} WHERE ({listed}) > ({places}) ORDER BY {listed} LIMIT {_AT_ONCE}", after)
