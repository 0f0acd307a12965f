"""Writers: two processes that pay from the same accounts, each as it read them."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

import dpi
from dpi.errors import StateError, StoreBusy
from dpi.store.sql import SQLStore
from dpi.store.sqlite import SQLite
from dpi.testing.laws import Law
from dpi_audit import neighbours
from dpi_audit.neighbours import Rows
from dpi_audit.session import MakeStream, SeveralStreams, Wrap
from dpi_audit.small import EPSILON, SLOTS, VALUES, stream
from dpi_audit.zoo.base import Pair, on

EVERY = neighbours.every_slot(SLOTS, VALUES)


class Writers(SeveralStreams):
    """Two streams with one ledger in one file, each opened by a writer of its own whose lock was lost."""

    def __init__(self) -> None:
        folder, self.stores = Path(tempfile.mkdtemp()), list[SQLStore]()
        weakref.finalize(self, _remove, folder, self.stores)
        super().__init__([partial(self._make, folder, name) for name in ("visits", "orders")], EPSILON)

    def _make(self, folder: Path, name: str, wrap: Wrap) -> dpi.Stream:
        store = dpi.open_store(folder / "audited.db")
        self.stores.append(store)
        if isinstance(store.engine, SQLite):
            store.engine._use.give_up()
        make: MakeStream = stream(budget=dpi.Ledger(per_slot="0.2"), store=store, name=name)
        return make(wrap)


class BrokenWriters(Writers):
    """Each writer pays from the accounts in its own memory, and does not compare them with those that are stored."""

    def look(self, rows: Rows) -> Law:
        """The law of the writer whose turn it is, by accounts that lack what the other one took."""
        for store in self.stores:
            store._known.compare = _unseen  # type: ignore[method-assign]
        return super().look(rows)


class CorrectWriters(Writers):
    """A writer that is behind is refused, shows nothing, and reads the accounts anew."""

    def look(self, rows: Rows) -> Law:
        """The law of the writer whose turn it is, after it was refused: the other one has written since."""
        session = self._sessions[self._turn]
        session.look(rows)
        try:
            session.force(np.zeros(len(VALUES), dtype=np.int64))
        except StoreBusy:
            return super().look(rows)
        raise StateError("a writer that was behind has paid.")


def _unseen(ledger: str | None) -> None:
    """Compares nothing."""


def _remove(folder: Path, opened: Sequence[SQLStore]) -> None:
    """Leave nothing behind."""
    for store in opened:
        store.close()
    shutil.rmtree(folder)


PAIRS = (
    Pair(
        "two writers pay from stale accounts",
        "a payment compares the ledger with the one it was made from, in its own transaction",
        on(BrokenWriters, EVERY),
        on(CorrectWriters, EVERY),
    ),
)
