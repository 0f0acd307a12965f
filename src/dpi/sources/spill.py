"""A private file for events that do not fit in memory: unreadable without a key that is never written.

The key is made anew for each use and lives in memory only. So whatever stays on the disk after a kill, in a backup or
on a freed block, is ciphertext. AES-256-GCM also notices if somebody changes it.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

from dpi.errors import StateError

if TYPE_CHECKING:
    import polars as pl

_NONCE = 12


@dataclass(frozen=True)
class Piece:
    """Where one piece lies in the file."""

    start: int
    size: int


class Spill:
    """Writes tables, gives them back, and leaves nothing behind.

    The folder is made when the first piece is written, with access for its owner only, and removed by `close`.

    >>> import polars as pl
    >>> with Spill() as spill:
    ...     piece = spill.write(pl.DataFrame({"user": ["ada"]}))
    ...     spill.read(piece).rows()
    [('ada',)]
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._parent = folder
        self._folder: Path | None = None
        self._file: BinaryIO | None = None
        self._cipher = AESGCM(AESGCM.generate_key(bit_length=256))
        self._end = 0

    def write(self, frame: pl.DataFrame) -> Piece:
        """Append a table, encrypted; where it starts in the file is its nonce, so that none is used twice."""
        plain = io.BytesIO()
        frame.write_ipc(plain, compression="uncompressed")
        data = self._cipher.encrypt(self._end.to_bytes(_NONCE, "big"), plain.getbuffer(), None)
        file = self._open()
        file.seek(self._end)
        file.write(data)
        piece = Piece(self._end, len(data))
        self._end += len(data)
        return piece

    def read(self, piece: Piece) -> pl.DataFrame:
        """A table that was written."""
        import polars as pl
        from cryptography.exceptions import InvalidTag

        file = self._open()
        file.seek(piece.start)
        try:
            plain = self._cipher.decrypt(piece.start.to_bytes(_NONCE, "big"), file.read(piece.size), None)
        except InvalidTag:
            raise StateError("the temporary file of events was changed while it was in use.") from None
        return pl.read_ipc(io.BytesIO(plain))

    def _open(self) -> BinaryIO:
        if self._file is None:
            self._folder = Path(tempfile.mkdtemp(prefix="dpi-", dir=self._parent))
            descriptor = os.open(self._folder / "events", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            self._file = os.fdopen(descriptor, "w+b")
        return self._file

    def close(self) -> None:
        """Remove everything that was written."""
        if self._file is not None and self._folder is not None:
            self._file.close()
            shutil.rmtree(self._folder, ignore_errors=True)
            self._file = self._folder = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
