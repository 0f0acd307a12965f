"""Bodies of requests, taken as they come: in memory while there is room, else in encrypted files without a name.

No body waits for another request: for no place, no decoder and no store. The moment of its last byte is the kernel's
(`dpi.service._arrivals`). Bodies share `MEMORY` bytes; one that finds no room there goes to a
file of its own, with a key of its own that lives in memory: what a kill leaves on the disk is ciphertext. How many
bodies there are at a time is limited by their number (`dpi.service._places`), so the disk is bounded by that number
times the size of a body.

**A lowest rate.** A slot waits for the bodies whose heads arrived before it closed (`dpi.service._receipts`). A body
that comes more slowly than `RATE` after the first `GRACE` seconds, or takes longer than the configured patience in all,
is refused, and its slot waits no longer.

Sees bytes; looks at none.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from io import FileIO
from threading import Lock
from typing import Any

from dpi.service._problems import Problem

MEMORY = 1 << 28
"""Bytes of all bodies that are held in memory."""
GRACE, RATE = 5.0, 1 << 16
"""Seconds for a body to begin, and bytes a second that it must keep up after that: a body of a slow uplink (512 kbit/s)
arrives, and one that stands still holds its slot for five seconds."""


class Room:
    """Bytes that bodies may hold in memory.

    >>> room = Room(10)
    >>> room.take(6), room.take(6), room.give(6), room.take(6)
    (True, False, None, True)
    """

    def __init__(self, most: int = MEMORY) -> None:
        self._left, self._turn = most, Lock()

    def take(self, size: int) -> bool:
        """Take so many bytes, if there are as many."""
        with self._turn:
            fits = size <= self._left
            self._left -= size if fits else 0
            return fits

    def give(self, size: int) -> None:
        """Give bytes back."""
        with self._turn:
            self._left += size


class Body:
    """The bytes of one request. Private.

    >>> body = Body(Room(10))
    >>> for part in (b"in memory ", b"and ", b"on the disk"):
    ...     body.add(part)
    >>> body.size, body.take(), body.size
    (25, b'in memory and on the disk', 25)
    """

    def __init__(self, room: Room) -> None:
        self.size = 0
        self._room, self._held = room, bytearray()
        self._file: FileIO | None = None
        self._cipher: Any = None
        self._encryptor: Any = None

    def add(self, part: bytes) -> None:
        """Take the next bytes."""
        self.size += len(part)
        if self._file is None and self._room.take(len(part)):
            self._held += part
            return
        if self._file is None:
            self._begin_file()
            self._write(bytes(self._held))
            self._let_go()
        self._write(part)

    def _begin_file(self) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import AES256
        from cryptography.hazmat.primitives.ciphers.modes import CTR

        self._cipher = Cipher(AES256(os.urandom(32)), CTR(bytes(16)))  # a key of its own, so one counter from zero
        self._encryptor = self._cipher.encryptor()
        self._file = tempfile.TemporaryFile(prefix="dpi-", buffering=0)  # noqa: SIM115 - closed by `drop`

    def _write(self, part: bytes) -> None:
        assert self._file is not None  # noqa: S101 - begun by the caller
        data = memoryview(self._encryptor.update(part))
        while data:
            data = data[self._file.write(data) :]

    def take(self) -> bytes:
        """Return all bytes, and let go of them."""
        if self._file is None:
            content = bytes(self._held)
        else:
            self._file.seek(0)
            content = self._cipher.decryptor().update(self._file.read())
        self.drop()
        return content

    def drop(self) -> None:
        """Let go of the bytes."""
        self._let_go()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _let_go(self) -> None:
        self._room.give(len(self._held))
        self._held = bytearray()


async def receive_body(
    parts: AsyncIterator[bytes], room: Room, limit: int, patience: float, progress: Callable[[], None]
) -> Body:
    """Return a body when its last byte is there; refuse one of more than `limit` bytes, and one that is too slow."""
    loop, body = asyncio.get_running_loop(), Body(room)
    began = loop.time()
    try:
        while True:
            part = await _next_part(parts, began + min(patience, GRACE + body.size / RATE))
            if part is None:
                return body
            if body.size + len(part) > limit:
                raise too_large(limit)
            body.add(part)
            if part:
                progress()
    except BaseException as error:
        body.drop()
        if isinstance(error, TimeoutError):
            raise Problem(408, f"the body came too slowly: {RATE >> 10} KiB a second are expected.") from None
        if isinstance(error, OSError):  # no room on the disk
            raise Problem(503, "there is no room for the body: come again.", retry=1) from None
        raise


async def _next_part(parts: AsyncIterator[bytes], deadline: float) -> bytes | None:
    """Return the next part, or None at the end; raise if it has not come by a time of the loop.

    A loop that was kept busy reads what came meanwhile before it looks at the time. So nothing is cancelled by the time
    alone: what was read counts.
    """
    coming = asyncio.ensure_future(anext(parts, None))
    try:
        await asyncio.wait({coming}, timeout=max(0.0, deadline - asyncio.get_running_loop().time()))
        if not coming.done():
            raise TimeoutError
        return coming.result()
    finally:
        coming.cancel()


def too_large(limit: int) -> Problem:
    """Return what is said of a body with more bytes than a request may have."""
    return Problem(413, f"a request has at most {limit} bytes: split the batch, and send its parts.")
