"""Bodies that are packed: gzip and zstd, unpacked up to a limit and no further.

The limit is on what comes out, so that a small body that unpacks to gigabytes costs no more than any other.
"""

from __future__ import annotations

import io
import zlib

import zstandard

from dpi.service.problems import Problem

PACKINGS = ("gzip", "zstd")
_WINDOW = 1 << 27
"""Bytes that a zstd stream may ask to be remembered."""
_BLOCK = 256
"""Bytes of a zstd stream at a time: four of them can become 128 KiB."""


def unpacked(body: bytes, packing: str, limit: int) -> bytes:
    """The body as it was before it was packed; refuses more than `limit` bytes, and what is damaged or cut off."""
    match packing.strip().lower():
        case "" | "identity":
            found = body
        case "gzip" | "x-gzip":
            found = _gzip(body, limit)
        case "zstd":
            found = _zstd(body, limit)
        case _:
            raise Problem(415, f"`Content-Encoding` must be one of {', '.join(PACKINGS)}, or be left out.")
    if len(found) > limit:
        raise Problem(413, f"a batch has at most {limit} bytes unpacked: split it, and send its parts.")
    return found


def _gzip(body: bytes, limit: int) -> bytes:
    found = b""
    while body and len(found) <= limit:  # members may follow each other
        unpacker = zlib.decompressobj(wbits=31)
        try:
            found += unpacker.decompress(body, limit + 1 - len(found))
        except zlib.error:
            raise _damaged() from None
        if not unpacker.eof and len(found) <= limit:
            raise _damaged()
        body = unpacker.unused_data
    return found


def _zstd(body: bytes, limit: int) -> bytes:
    unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
    found, rest = bytearray(), body
    while rest and len(found) <= limit:  # frames may follow each other
        frame = unpacker.decompressobj(read_across_frames=False)
        source = io.BytesIO(rest)
        try:
            while not frame.eof and len(found) <= limit and (part := source.read(_BLOCK)):
                found += frame.decompress(part)
        except zstandard.ZstdError:
            raise _damaged() from None
        if not frame.eof and len(found) <= limit:
            raise _damaged()
        rest = frame.unused_data + source.read()
    return bytes(found)


def _damaged() -> Problem:
    return Problem(400, "the packed body is damaged, or cut off.")
