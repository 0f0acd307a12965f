"""Files that hold a secret: made whole, readable by their owner only, never printed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from dpi.errors import StateError
from dpi.files.whole import OWNER, draft_of, sync_folder, written


def create(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a new secret file; refuses to replace one."""
    target = Path(path)
    draft = written(draft_of(target), data, OWNER)
    try:
        os.link(draft, target)  # unlike a rename, never replaces a file
    except FileExistsError:
        raise StateError(f"{target} exists already; it is not replaced.") from None
    finally:
        draft.unlink()
    sync_folder(target.parent)


def read(path: str | os.PathLike[str]) -> bytes:
    """The secret; refuses a file that others may read."""
    file = Path(path)
    if stat.S_IMODE(file.stat().st_mode) & 0o077:
        raise StateError(f"{file} may be read by others than its owner: chmod 600 it, and ask who has read it.")
    return file.read_bytes()


def create_key(path: Path, size: int) -> None:
    """Write a new key of so many bytes, from the system's source."""
    create(path, os.urandom(size).hex().encode() + b"\n")


def read_key(path: Path, size: int) -> bytes | None:
    """The key in a file of hexadecimal digits; None if it is damaged. Raises `FileNotFoundError` if it is missing."""
    text = read(path)
    try:
        key = bytes.fromhex(text.decode().strip())
    except ValueError:
        return None
    return key if len(key) == size else None
