"""Routes for whoever checks: the chain of certificates, and the public part of the store as a file.

What is given of the chain ends where releases that are not yet to be seen begin.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from dpi.service.endpoints import Call, document
from dpi.store.export import export
from dpi.store.sql import SQLStore

MOST_ENTRIES = 1000
DATABASE = "application/vnd.sqlite3"
PIECE = 1 << 16


async def get_chain(call: Call) -> Response:
    """Entries of the chain after a number, in order, as they are hashed and signed."""
    after = call.whole("after", -1, -1) or 0
    limit = call.whole("limit", MOST_ENTRIES, 1, MOST_ENTRIES) or MOST_ENTRIES
    seen = call.service.publication.entry

    def read() -> list[dict[str, object]]:
        with call.service.reading.store() as store:
            entries = range(after + 1, min(seen, after + limit) + 1)
            links = ((entry, store.link(entry)) for entry in entries)
            return [{"entry": n, "text": x.text, "digest": x.digest, "signature": x.signature} for n, x in links]

    entries = await call.read(read)
    return document({"entries": entries, "head": seen})


async def get_key(call: Call) -> Response:
    """The public key of the one that signs, in PEM form; null where the chain is not signed.

    Whoever checks compares it with what they were given elsewhere: a service could say any key.
    """
    verifier = call.service.verifier
    return document({"key": None if verifier is None else verifier.pem()})


async def get_export(call: Call) -> Response:
    """The public part of the store as a file that `dpi verify`, `dpi query` and `dpi report` read.

    It ends with the last entry of the chain that is seen at this moment.
    """
    made = await call.read(lambda: _export(call))
    headers = {
        "content-disposition": 'attachment; filename="public.db"',
        "content-length": str(made.seek(0, 2)),
    }
    return FileAnswer(made, headers)


def _export(call: Call) -> BinaryIO:
    """An export that has no name any more: it goes with whoever reads it."""
    seen = call.service.publication.entry
    with tempfile.TemporaryDirectory() as folder, call.service.reading.store() as store:
        assert isinstance(store, SQLStore)  # noqa: S101 - a service opens no other
        target = Path(folder) / "public.db"
        export(store, target, seen)
        return target.open("rb")


class FileAnswer(StreamingResponse):
    """A file piece by piece, which is closed whether somebody has read it or not."""

    def __init__(self, file: BinaryIO, headers: dict[str, str]) -> None:
        self._file = file
        super().__init__(_pieces(file), headers=headers, media_type=DATABASE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._file.close()


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    file.seek(0)
    while piece := file.read(PIECE):
        yield piece
