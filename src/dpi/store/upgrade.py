"""Upgrading a store in place: from the format of an earlier version to that of this program.

**Guarantee.** No account has more left afterwards. *Why:* a step changes tables and not what they say, all steps happen
in one transaction that compares the chain, the paid slots and the number of rows of accounts before and after, and no
other process writes meanwhile: the right to write is this one's. Whatever happens, the store has its old format with
all that it had, or the new one with the same.

It is done only when a backup of this very moment is named, made by the store's own version: should the new program be
given up, that is put back under the rules of old copies, in which nobody's budget is refilled. A store is never taken
to an earlier format: an older program refuses a newer store.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from dpi._version import __version__
from dpi.errors import OptionError, StateError
from dpi.store import _schema
from dpi.store._engine import Engine
from dpi.store._schema import format_of, set_fact
from dpi.store.export import is_export
from dpi.store.opening import engine_at, store_exists

Step = Callable[[Engine], None]
STEPS: Mapping[int, Step] = {}
"""By format, what makes a store of the next one of it, inside a transaction. No format came after the first yet."""


class Upgraded(NamedTuple):
    """What was done."""

    before: int
    """The format that the store had."""
    after: int


def upgrade(store: str | os.PathLike[str], backup: str | os.PathLike[str], *, wait: float = 0.0) -> Upgraded:
    """Bring a store to this program's format; one that has it is left as it is.

    Raises `StateError`, with nothing changed, if `backup` is not a copy of this moment.
    """
    name = os.fspath(store)
    if not store_exists(name):
        raise OptionError("there is no store that could be upgraded.")
    if is_export(Path(name)):
        raise StateError("this is an export for analysts: make it anew from its store.")
    with closing(engine_at(name, wait=wait)) as engine:
        before = format_of(engine)
        if before == _schema.FORMAT:
            return Upgraded(before, before)
        with engine.transaction():
            kept = _moment(engine)
            _check_backup(Path(backup), before, kept)
            for number in range(before, _schema.FORMAT):
                STEPS[number](engine)
            set_fact(engine, "schema", str(_schema.FORMAT))
            set_fact(engine, "version", __version__)
            if _moment(engine) != kept:
                raise StateError("the upgrade would have changed what was spent or released. Nothing was changed.")
        engine.erase()
        return Upgraded(before, _schema.FORMAT)


def _check_backup(backup: Path, form: int, kept: object) -> None:
    if not backup.is_file() or is_export(backup):
        raise OptionError(f"`backup` must be a backup of the store (`dpi backup`). Got {str(backup)!r}.")
    with closing(engine_at(str(backup), read_only=True)) as copy:
        if not copy.exists() or format_of(copy) != form or _moment(copy) != kept:
            raise StateError(
                f"the backup {backup} is not of this moment: stop whatever writes to the store, make one with the "
                "version that wrote it, and name that. Nothing was changed."
            )


def _moment(engine: Engine) -> tuple[object, ...]:
    """Return what a backup and a store before and after its upgrade share; every format can be asked for it."""
    asked = (
        "SELECT entry, digest FROM chain WHERE entry = (SELECT MAX(entry) FROM chain)",
        "SELECT stream, MAX(slot) FROM measurements GROUP BY stream",
        "SELECT stream, last, spent FROM progress",
        "SELECT ledger, SUM(size) FROM account_runs GROUP BY ledger",
        "SELECT stream, producer, sequence FROM sequences",
        "SELECT stream, slot, SUM(size) FROM events GROUP BY stream, slot",
        "SELECT name, value FROM facts WHERE name = 'key'",
    )
    return tuple(sorted(tuple(map(str, row)) for row in engine.rows(query)) for query in asked)
