"""Files that hold a secret: made whole, readable by their owner only, never printed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from dpi.errors import StateError


def create(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a new secret file; refuses to replace one."""
    target = Path(path)
    draft = target.with_name(target.name + ".new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
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


def sync_folder(folder: Path) -> None:
    """Make the names of new files in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
