"""Files that appear whole or not at all, durably: written under another name first, then put in their place."""

from __future__ import annotations

import os
from pathlib import Path

OWNER = 0o600
"""Permissions of a file that its owner alone may read."""


def draft_of(path: Path) -> Path:
    """Where a file is written before it has its name."""
    return path.with_name(path.name + ".new")


def write(path: Path, data: bytes, *, mode: int = OWNER) -> None:
    """Put a file in the place of `path`."""
    put(written(draft_of(path), data, mode), path)


def written(draft: Path, data: bytes | bytearray | memoryview, mode: int, *, durable: bool = True) -> Path:
    """A new file with these bytes; a left-over one, which may have other permissions, is removed first."""
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        if durable:
            os.fsync(file.fileno())
    return draft


def put(draft: Path, path: Path) -> None:
    """Give a finished draft its name, in the place of what had it."""
    draft.replace(path)
    sync_folder(path.absolute().parent)


def put_new(draft: Path, path: Path) -> None:
    """Give a finished draft its name, durably; raises `FileExistsError` if something has that name by now."""
    with draft.open("rb") as file:
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except OSError:  # a disk without hard links
        if path.exists():
            raise FileExistsError from None
        draft.replace(path)
    sync_folder(path.absolute().parent)


def sync_folder(folder: Path) -> None:
    """Make the names of new files in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
