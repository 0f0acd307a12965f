"""A backup: a copy of one moment of a store, made while others write, and put back by the rules of old copies.

It is a store in a file, whatever it was copied from, and may be put back as a file or into PostgreSQL. It has all that
the store had, events of open slots and open nodes of trees included, but for the key: private, its owner's only. Of a
store with accounts in buckets it is two, the file and the folder of its own bucket files beside it, of the same moment.

**Guarantee.** Putting a backup back gives nobody more than ε. *Why:* only a store that has a witness is copied, and
the copy knows its witness; a store that knows a witness is written to under it alone. A copy that lacks a release which
the witness saw is refused, or every account is charged for all that it lacks (`dpi.store._rollback`). So what was spent
after the copy was made is either there or charged. Should the store that was copied still run, whichever of the two
comes second to the witness is refused before it lets anything out (`Store.testify`).

The copy appears whole or not at all: what was half put back would be a store whose accounts are full. A folder comes
before the database that names it, and a file that is missing there is refused by whoever opens the store.

Bucket files are written once and never changed, so that they can be copied while the store goes on. Those that a
payment replaces meanwhile are removed, and the copy is made of a later moment instead: what was copied and is still
listed stays, and large runs are replaced rarely. Seals are checked by whoever reads accounts.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dpi.certificates.signature import Signer
from dpi.errors import OptionError, StateError, StoreError
from dpi.files import OWNER, make_durable, sync_folder
from dpi.store import _rollback
from dpi.store._engine import Engine
from dpi.store._schema import TABLES, build, keys_of, set_fact
from dpi.store._sqlite import SQLite
from dpi.store.export import is_export, new_file, refuse_existing
from dpi.store.folder import LAYOUT, MISSING, Folder, Layout, folder_beside
from dpi.store.opening import engine_at, is_remote, open_store
from dpi.store.sql import SQLStore
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
                "this store has no witness, so that a backup could pass for the newest copy, and budget spent since "
                "be spent again. Open it once with a `witness`, kept elsewhere.",
                options=("witness",),
            )
        if store.folder is None:
            with store.snapshot():
                _write(store.engine, path)
        else:
            _back_up_buckets(store, store.folder, path)


def _back_up_buckets(store: SQLStore, folder: Folder, path: Path) -> None:
    """Copy files and database as they were at one moment: the first at which no file was replaced meanwhile."""
    with BucketCopy.begin(folder_beside(path)) as copy:
        for _ in range(TRIES):
            copy.take(folder, store._listed_files())  # most of it, without a snapshot that the database has to keep
            with store.snapshot():
                if copy.take(folder, store._listed_files()) and store.layout is not None:
                    _write(store.engine, path, copy.finish(store._listed_files(), store.layout.bits))
                    return
        raise StateError(
            "bucket files that the store lists were gone before they were copied. Slots that close so fast are copied "
            "between two of them; if none is closing, the folder has lost files."
        )


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
    """Put a backup in a place where there is no store; returns what its witness had seen.

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
                f"the witness {witness} is missing, or not the one of this backup: without it the budget "
                "spent since is not known."
            )
        if store.lacks(seen) and not charge_lost:
            _rollback.refuse(store, seen)
        if store.lacks(seen):
            _rollback.refuse_unsigned(store, signer)
        with _put_buckets(store, source, name, path) as layout:
            if is_remote(name):
                with closing(engine_at(name)) as engine:
                    if engine.exists():
                        raise OptionError("there is a store already; it is not replaced.")
                    _copy(store.engine, engine, layout)
            else:
                _write(store.engine, Path(name), layout)
    open_store(name, key_file=key_file, witness=witness, charge_lost=charge_lost, signer=signer).close()
    return seen


@contextmanager
def _put_buckets(
    store: SQLStore, source: Path, target: str, path: str | os.PathLike[str] | None
) -> Iterator[Layout | None]:
    """Put the bucket files of a backup, which lie beside it, into a new folder of the store; None without any."""
    layout = store.layout
    if layout is None:
        if path is not None:
            raise OptionError("`path` is of buckets, and this backup has its accounts in the database: leave it out.")
        yield None
        return
    if path is None and is_remote(target):
        raise OptionError("a store in a database server needs a folder for its buckets: give `path`.")
    with BucketCopy.begin(folder_beside(Path(target)) if path is None else Path(path)) as copy:
        listed = store._listed_files()
        if not copy.take(Folder(folder_beside(source.absolute()), layout.mark), listed):
            raise StateError(MISSING)
        yield copy.finish(listed, layout.bits)


def _write(source: Engine, path: Path, layout: Layout | None = None) -> None:
    """Copy into a new file, which appears whole or not at all."""
    with new_file(path, "copy") as draft, closing(SQLite(draft)) as engine:
        _copy(source, engine, layout)
        engine.erase()
        engine.rows("PRAGMA journal_mode = DELETE")  # a copy is one file: reading it makes none beside it


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
    """Give the rows of a table, some at a time; columns are in the order in which every store is made, keys first."""
    keys = keys_of(table)
    listed, places = ", ".join(keys), ", ".join("?" * len(keys))
    rows = engine.rows(f"SELECT * FROM {table} ORDER BY {listed} LIMIT {_AT_ONCE}")  # noqa: S608 - our own names
    while rows:
        yield from rows
        after = f"SELECT * FROM {table} WHERE ({listed}) > ({places})"  # noqa: S608 - our own names
        rows = engine.rows(f"{after} ORDER BY {listed} LIMIT {_AT_ONCE}", rows[-1][: len(keys)])


@dataclass(frozen=True, eq=False)
class BucketCopy:
    """A folder that fills with what a store lists, and has its name when it holds all of one moment."""

    path: Path
    """Where it will be."""
    draft: Folder

    @classmethod
    @contextmanager
    def begin(cls, path: Path) -> Iterator[BucketCopy]:
        """Make a new folder, where there is none; if what is done with it fails, nothing of it is left."""
        path = path.absolute()
        refuse_existing(path, "copy")
        draft = Folder.make(path.with_name(f".{path.name}.{secrets.token_hex(8)}"), secrets.token_hex(16))
        try:
            yield cls(path, draft)
        except BaseException:
            for place in (draft.path, path):
                with suppress(StateError):  # it is not there, or another's
                    Folder(place, draft.mark).check()
                    shutil.rmtree(place, ignore_errors=True)
            raise

    def take(self, source: Folder, names: Collection[str]) -> bool:
        """Copy the files of these names that are not here yet; False if one of them has been replaced meanwhile."""
        source.check()
        for name in names:
            source.check_name(name)
            target = self.draft.path / name
            if target.exists():
                continue
            try:
                with (source.path / name).open("rb") as file:
                    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER)
                    with os.fdopen(descriptor, "wb") as made:
                        shutil.copyfileobj(file, made, 1 << 20)
                        made.flush()
                        make_durable(made.fileno())
            except FileNotFoundError:
                return False
            except OSError as error:
                target.unlink(missing_ok=True)
                raise StoreError(f"a copy of a bucket file cannot be written: {error.strerror}.") from None
        return True

    def finish(self, names: Collection[str], bits: int) -> Layout:
        """Give the folder its name, with these files and no other; return how a store says that it is there."""
        self.draft.sweep(lambda: names)
        self.draft.sync()
        self.draft.path.rename(self.path)
        sync_folder(self.path.parent)
        return Layout(str(self.path), self.draft.mark, bits)
