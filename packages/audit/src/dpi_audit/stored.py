"""A stream in a store on disk, under audit: what a restart must not refill lies in files."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path

from dpi.store import Store, open_store
from dpi.stream import Stream
from dpi_audit.session import MakeStream, StreamSession, Wrap


class StoredSession(StreamSession):
    """A stream in a SQLite store of its own; a restart closes the store and opens it again."""

    def __init__(self, make_in: Callable[[Store], MakeStream], *, restart_every: int | None = None) -> None:
        folder, opened = Path(tempfile.mkdtemp()), list[Store]()
        weakref.finalize(self, _remove, folder, opened)

        def make(wrap: Wrap) -> Stream:
            opened.append(open_store(folder / "audited.db"))
            return make_in(opened[-1])(wrap)

        self._folder, self._opened = folder, opened
        super().__init__(make, restart_every=restart_every)

    def restart(self) -> None:
        """Close the store, throw the stream away, open both again."""
        self._opened.pop().close()
        self.stream = self._open()


def _remove(folder: Path, opened: list[Store]) -> None:
    """Leave nothing behind."""
    while opened:
        opened.pop().close()
    shutil.rmtree(folder)
