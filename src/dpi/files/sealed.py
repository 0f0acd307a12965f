"""A file of named parts with a checksum, written whole or not at all, readable by its owner only."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from dpi.errors import StateError
from dpi.files import whole
from dpi.files.numbered import refuse_newer

_MAGIC = b"dpi saved 2\n"
_SEAL = 32

Head = dict[str, Any]
"""JSON values that stand before the parts."""


def write(path: str | os.PathLike[str], head: Head, parts: dict[str, bytes]) -> None:
    """Write head and parts to a new file and put it in place of `path`."""
    sizes = {name: len(data) for name, data in parts.items()}
    body = _MAGIC + json.dumps({"head": head, "parts": sizes}).encode() + b"\n" + b"".join(parts.values())
    whole.write(Path(path), seal_of(body) + body)


def seal_of(body: bytes) -> bytes:
    """The checksum that stands before all else."""
    return hashlib.blake2b(body, digest_size=_SEAL).digest()


def read(path: str | os.PathLike[str]) -> tuple[Head, dict[str, bytes]]:
    """Head and parts; raises `StateError` if a byte is not as it was written."""
    data = Path(path).read_bytes()
    seal, body = data[:_SEAL], data[_SEAL:]
    intact = seal_of(body) == seal
    if intact:
        refuse_newer(_MAGIC, body, "the file")
    if not body.startswith(_MAGIC) or not intact:
        raise StateError("the file is damaged, or holds no saved stream.")
    text, _, rest = body[len(_MAGIC) :].partition(b"\n")
    description = json.loads(text)
    parts: dict[str, bytes] = {}
    for name, size in description["parts"].items():
        parts[name], rest = rest[:size], rest[size:]
    return description["head"], parts
