"""Taking back a store that was made and never used, so that a command that fails leaves nothing behind.

**What is kept.** A store that has paid, released or kept anything is never removed: its accounts are the promise, and
events that were acknowledged are in no other place. That is looked at, and the files are removed, with the right to
write, so that no other process can begin to use it meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from dpi.errors import StateError, StoreError
from dpi.store._sqlite import SQLite
from dpi.store.folder import Folder, layout_of

_SAID = {"facts", "domains", "streams", "chain", "ledgers"}
"""Tables that hold what was said of a stream before its first slot; rows in any other mean that it was used."""


def remove_unused(path: Path, others: Iterable[Path] = ()) -> bool:
    """Remove a store in a file that was never used, and the other files that were made with it; whether it did so."""
    if not path.exists():
        return False
    try:
        engine = SQLite(path)
    except (StateError, StoreError):  # another process has it, or it is something else
        return False
    try:
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
    finally:
        engine.close()


def _used(engine: SQLite) -> bool:
    if not engine.exists():
        return False
    tables = {name for (name,) in engine.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}
    filled = {name for name in tables if engine.rows(f"SELECT 1 FROM {name} LIMIT 1")}  # noqa: S608 - our own tables
    return not filled <= _SAID or engine.rows("SELECT COUNT(*) FROM chain")[0][0] > 1
