"""The export of a store as something that an analyst can reach: a file, all of whose bytes are compared."""

from __future__ import annotations

import tempfile
from pathlib import Path

from dpi.errors import OptionError
from dpi.store.export import export
from dpi.store.sql import SQLStore
from dpi_audit.session import StreamSession


def exported(session: StreamSession) -> dict[str, bytes]:
    """A surface: the file that `dpi export` writes of the session's store, after every slot."""
    store = session.stream.store
    if not isinstance(store, SQLStore):
        raise OptionError("an export is made of a store on disk: audit a `StoredSession`.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "public.db"
        export(store, path)
        return {"file": path.read_bytes()}
