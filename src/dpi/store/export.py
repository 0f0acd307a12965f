"""An export: the public part of a store, as a file of its own that may be handed to analysts.

A store holds accounts, events of open slots and open nodes of trees beside what is public; even without its key, a copy
tells how many accounts there are. An export is not a copy with things taken out: it is a new file that is
filled from a list of public columns, and of measurements only those whose slots are released. What a stream goes on
from is left out: nothing goes on from an export. One that ends with an earlier entry of the chain is what an export at
that moment was.

**Guarantee.** Every byte of an export is a function of what was let out: certificates, releases, and the measurements
that they state. Streams with equal releases and certificates give equal bytes, whoever is in them.

*Why.* `PUBLIC` names all columns that are read, and none of them is private (`dpi.store.base`): options and domains are
declared, entries and releases are let out, a measurement is noisy and paid for before its release is, and how far a
stream is follows from them. Rows are written in the order of their keys into a fresh file of a
fixed page size, in one transaction, with deleted and unused bytes set to zero; there is no time, no path and no name
of a machine in it.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from dpi._version import __version__
from dpi.certificates.declared import DeclaredOptions
from dpi.errors import OptionError, StateError, StoreError
from dpi.files import put_new
from dpi.options.schedule import BEGINNING, Schedule
from dpi.store._schema import EXPORT, FORMAT, TABLES, THINNED, fact, keys_of
from dpi.store._sqlite import SQLite
from dpi.store.base import Checkpoint
from dpi.store.sql import SQLStore

PUBLIC: dict[str, tuple[str, ...]] = {
    "domains": ("digest", "description"),
    "streams": ("stream", "first", "options"),
    "chain": ("entry", "text", "digest", "signature"),
    "releases": ("stream", "slot", "entry", "content"),
    "measurements": ("stream", "slot", "epsilon", "partial", "data", "allocation", "assumption", "seal"),
    "progress": ("stream", "first", "last", "spent", "allocation", "mechanism", "accumulated", "seal"),
}
"""All that an export holds. A column that is not named here is not read."""

_RELEASED = (
    "EXISTS (SELECT 1 FROM releases WHERE releases.stream = measurements.stream AND releases.slot = measurements.slot "
    "AND releases.entry <= ?)"
)
"""A measurement that is not yet released is nobody's to see."""
_ALL = 1 << 62


def export(store: SQLStore, target: str | os.PathLike[str], upto: int = _ALL) -> None:
    """Write the public part of a store to a new file, up to an entry of the chain; one that is there is not replaced.

    The file appears whole or not at all.
    """
    with new_file(Path(target), "export") as draft:
        os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666))  # for others to read, unlike a store
        with store.snapshot():
            _fill(store, draft, upto)


@contextmanager
def new_file(path: Path, what: str) -> Iterator[Path]:
    """Give the draft of a database, which then has its name, whole or not at all; one that is there is not replaced."""
    refuse_existing(path, what)
    draft = path.absolute().with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        yield draft
        put_new(draft, path)
    except FileExistsError:
        refuse_existing(path, what)
    except StoreError:
        raise
    except (OSError, sqlite3.Error) as error:
        why = error.strerror if isinstance(error, OSError) else type(error).__name__
        raise StoreError(f"the {what} {path} cannot be written: {why}.") from None
    finally:
        for suffix in ("", "-wal", "-shm", ".lock"):
            draft.with_name(draft.name + suffix).unlink(missing_ok=True)


def refuse_existing(path: Path, what: str) -> None:
    """Raise `OptionError` if there is something at a path, or no folder to put it into."""
    if path.exists() or path.is_symlink():
        raise OptionError(f"{path} exists already; it is not replaced.")
    if not path.absolute().parent.is_dir():
        raise OptionError(f"the {what} must lie in a folder that exists. Got {str(path)!r}.")


def _fill(store: SQLStore, draft: Path, upto: int) -> None:
    with closing(sqlite3.connect(draft, isolation_level=None)) as file:
        for pragma in ("page_size = 4096", "auto_vacuum = NONE", "secure_delete = ON", "journal_mode = OFF"):
            file.execute(f"PRAGMA {pragma}")
        file.execute("BEGIN")
        file.execute("CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
        thinned = fact(store.engine, THINNED)
        facts = [(EXPORT, "1"), ("schema", str(FORMAT)), ("version", __version__), (THINNED, thinned)]
        file.executemany("INSERT INTO facts VALUES (?, ?)", [(name, said) for name, said in facts if said is not None])
        for name, public in PUBLIC.items():
            kinds = dict(column.split()[:2] for column in TABLES[name][0].format(**SQLite.types).split(", "))
            columns = ", ".join(f"{column} {kinds[column]}" for column in public)
            file.execute(f"CREATE TABLE {name} ({columns}, PRIMARY KEY ({', '.join(keys_of(name))}))")
            places = ", ".join("?" * len(public))
            file.executemany(f"INSERT INTO {name} VALUES ({places})", _rows(store, name, upto))  # noqa: S608 - our own names
        file.execute("COMMIT")


def _rows(store: SQLStore, name: str, upto: int) -> Iterator[Sequence[object]]:
    """Yield the rows of a table in the order of their keys; of those that grow for ever, some at a time.

    The order is Python's, not that of a database's language.
    """
    select = f"SELECT {', '.join(PUBLIC[name])} FROM {name}"  # noqa: S608 - our own names
    if "slot" in PUBLIC[name]:
        released = _RELEASED if name == "measurements" else "entry <= ?"
        for stream in sorted(store.streams()):
            where = f"{select} WHERE stream = ? AND {released}"
            yield from store.engine.pages(where, (stream, upto), "slot", column=1)
    elif name == "chain":
        yield from store.engine.pages(f"{select} WHERE entry <= ?", (upto,), "entry")
    elif name == "progress":
        yield from _reached(store, upto)
    elif name == "streams" and _declares(store, upto):
        yield from _declared(store, upto)
    else:
        yield from sorted(store.engine.rows(select))


def _reached(store: SQLStore, upto: int) -> Iterator[Sequence[object]]:
    """How far each stream was: its row, or the row that it had before releases after an entry."""
    rows = store.engine.rows("SELECT stream, first, last, spent FROM progress")
    for stream, first, last, spent in sorted((str(name), int(a), int(b), int(c)) for name, a, b, c in rows):
        after = store.engine.rows(
            "SELECT slot FROM releases WHERE stream = ? AND entry > ? ORDER BY slot LIMIT 1", (stream, upto)
        )
        if after:
            last = int(after[0][0]) - 1
            if last < first:
                continue
            spent = store.spent_after(stream, last)
        here = Checkpoint(first, last, spent, "", bytes, b"")
        yield [stream, first, last, spent, "", b"", b"", here.seal(stream, b"")]


def _declares(store: SQLStore, upto: int) -> bool:
    """Whether entries after one declare options; refuses to look behind entries of another kind than is made daily."""
    kinds = {store.link(entry).entry.get("kind") for entry in range(upto + 1, store.head().sequence + 1)}
    if not kinds <= {"release", "options"}:
        raise StoreError("the store was restored just now: an export waits for its next release.")
    return "options" in kinds


def _declared(store: SQLStore, upto: int) -> list[Sequence[object]]:
    """Return the options of streams as entries of the chain have declared them, up to one of them."""
    known: dict[str, Schedule[str]] = {}
    for link, _ in zip(store.links(), range(upto + 1), strict=False):
        match link.entry:
            case {"kind": "options", "stream": str(name), "options": dict(options), **more}:
                text, first = DeclaredOptions.from_options(options).text, more.get("from", BEGINNING)
                known[name] = known.get(name, Schedule.of(text)).changed(int(str(first)), text)
    return [(name, first, text) for name in sorted(known) for first, text in known[name].entries]


def is_export(path: Path) -> bool:
    """Whether a file is an export; False for one that is not there or is something else."""
    if not path.is_file():
        return False
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
        return file.execute("SELECT value FROM facts WHERE name = ?", (EXPORT,)).fetchone() is not None
    return False


def refuse(path: Path) -> None:
    """Raise if a file is an export: it has no accounts, so nothing can be paid from it."""
    if is_export(path):
        raise StateError(
            f"{path} is an export for analysts: it can be read (`query`, `report`, `watch`, `verify`), and has no "
            "accounts to look at or to pay from. Use the store that it was made from."
        )
