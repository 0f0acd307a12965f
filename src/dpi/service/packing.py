"""Bodies that are packed: gzip and zstd, unpacked up to a limit and no further.

The limit is on what comes out, so that a small body that unpacks to gigabytes costs no more than any other; and on how
many parts the body is packed in, for a part costs time whatever comes out of it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Protocol

import zstandard

from dpi.service.problems import Problem

PACKINGS = ("gzip", "zstd")
_WINDOW = 1 << 27
"""Bytes that a zstd stream may ask to be remembered."""
_BLOCK = 256
"""Bytes that are unpacked at a time: four of a zstd stream can become 128 KiB."""
MOST_PARTS = 1024
"""Members of gzip, or frames of zstd, that follow each other in one body. Each costs time, an empty one too."""


def unpacked(body: bytes, packing: str, limit: int) -> bytes:
    """The body as it was before it was packed; refuses more than `limit` bytes, and what is damaged or cut off."""
    match packing.strip().lower():
        case "" | "identity":
            found = body
        case "gzip" | "x-gzip":
            found = _joined(body, limit, lambda: zlib.decompressobj(wbits=31))
        case "zstd":
            unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
            found = _joined(body, limit, lambda: unpacker.decompressobj(read_across_frames=False))
        case _:
            raise Problem(415, f"`Content-Encoding` must be one of {', '.join(PACKINGS)}, or be left out.")
    if len(found) > limit:
        raise Problem(413, f"a batch has at most {limit} bytes unpacked: split it, and send its parts.")
    return found


class _Part(Protocol):
    """What unpacks one member or frame."""

    @property
    def eof(self) -> bool:
        """Whether it has ended."""
        ...

    @property
    def unused_data(self) -> bytes:
        """What came after its end."""
        ...

    def decompress(self, data: memoryview, /) -> bytes:
        """What some more of it holds."""
        ...


def _joined(body: bytes, limit: int, begin: Callable[[], _Part]) -> bytes:
    """What all parts of a body hold, up to a little more than the limit.

    Takes time in proportion to the body and to what comes out: of what follows a part, no more than a block is copied.
    """
    found, rest, at = bytearray(), memoryview(body), 0
    for _ in range(MOST_PARTS):
        if at == len(body) or len(found) > limit:
            return bytes(found)
        part = begin()
        while not part.eof and at < len(body) and len(found) <= limit:
            piece = rest[at : at + _BLOCK]
            try:
                found += part.decompress(piece)
            except (zlib.error, zstandard.ZstdError):
                raise _damaged() from None
            at += len(piece) - len(part.unused_data)
        if not part.eof and len(found) <= limit:
            raise _damaged()
    if at < len(body):
        raise Problem(413, f"a packed body has at most {MOST_PARTS} members or frames: pack it in one.")
    return bytes(found)


def _damaged() -> Problem:
    return Problem(400, "the packed body is damaged, or cut off.")
