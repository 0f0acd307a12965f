"""Files that appear whole or not at all, durably: written under another name first, then put in their place.

Among them are secrets, which their owner alone may read, and sealed files: named parts with a checksum.

A system without locks and permissions of files (Windows) reads what others have written. It is refused here, in one
sentence, to write a store or to keep a secret: two processes would spend one budget, or others read the key.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import sys
from pathlib import Path
from typing import Any

from dpi.errors import OptionError, StateError, newer

OWNER = 0o600
"""Permissions of a file that its owner alone may read."""
_SAVED = b"dpi saved 1\n"
_SEAL = 32

PathLike = str | os.PathLike[str]
Head = dict[str, Any]
"""JSON values that stand before the parts of a sealed file."""


def need_posix(what: str) -> None:
    """Raise `OptionError` on a system that has no locks or no permissions of files.

    >>> need_posix("a store that is written to")
    """
    try:
        import fcntl  # noqa: F401 - whether it is there
    except ImportError:
        raise OptionError(
            f"{what} needs locks and permissions of files, which this system lacks: use Linux or macOS; on Windows, "
            "its subsystem for Linux (WSL)."
        ) from None


def lock_alone(descriptor: int, *, wait: bool = True) -> bool:
    """Lock an open file for this process, until it is closed or the process ends; False if another one has it."""
    need_posix("writing")
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def make_durable(descriptor: int) -> None:
    """Have the disk keep what was written to a file; on macOS `fsync` alone leaves it in the disk's own memory."""
    if sys.platform == "darwin":
        import fcntl

        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
        except OSError:  # a disk that does not know it
            pass
    os.fsync(descriptor)


def draft_of(path: Path) -> Path:
    """Return where a file is written before it has its name."""
    return path.with_name(path.name + ".new")


def write_file(path: Path, data: bytes, *, mode: int = OWNER) -> None:
    """Put a file in the place of `path`."""
    put(write_draft(draft_of(path), data, mode), path)


def write_draft(draft: Path, data: bytes | bytearray | memoryview, mode: int, *, durable: bool = True) -> Path:
    """Write a new file and return its path; a left-over one, which may have other permissions, is removed first."""
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        if durable:
            make_durable(file.fileno())
    return draft


def put(draft: Path, path: Path) -> None:
    """Give a finished draft its name, in the place of what had it."""
    draft.replace(path)
    sync_folder(path.absolute().parent)


def put_new(draft: Path, path: Path) -> None:
    """Give a finished draft its name, durably; raise `FileExistsError` if something has that name by now."""
    with draft.open("rb+") as file:  # Windows flushes what is open for writing alone
        make_durable(file.fileno())
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
    """Make the names of new files in a folder durable; Windows does so by itself, and opens no folder."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        make_durable(descriptor)
    finally:
        os.close(descriptor)


def create_secret(path: PathLike, data: bytes) -> None:
    """Write a new secret file; refuse to replace one."""
    need_posix("a file that its owner alone may read")
    target = Path(path)
    draft = write_draft(draft_of(target), data, OWNER)
    try:
        os.link(draft, target)  # unlike a rename, never replaces a file
    except FileExistsError:
        raise StateError(f"{target} exists already; it is not replaced.") from None
    finally:
        draft.unlink()
    sync_folder(target.parent)


def read_secret(path: PathLike) -> bytes:
    """Return the secret in a file; refuse one that others may read."""
    need_posix("a file that its owner alone may read")
    file = Path(path)
    if stat.S_IMODE(file.stat().st_mode) & 0o077:
        raise StateError(f"{file} may be read by others than its owner: chmod 600 it, and ask who has read it.")
    return file.read_bytes()


def create_key(path: Path, size: int) -> None:
    """Write a new key of so many bytes, from the system's source."""
    create_secret(path, os.urandom(size).hex().encode() + b"\n")


def read_key(path: Path, size: int) -> bytes | None:
    """Return the key in a file of hexadecimal digits; None if it is damaged. Raises `FileNotFoundError`."""
    keys = read_keys(path, size)
    return keys[0] if keys is not None and len(keys) == 1 else None


def read_keys(path: Path, size: int) -> list[bytes] | None:
    """Return the keys in a file, one a line; None if it is damaged. Raises `FileNotFoundError`."""
    text = read_secret(path)
    try:
        keys = [bytes.fromhex(line) for line in text.decode().split("\n") if line.strip()]
    except ValueError:
        return None
    return keys if keys and {len(key) for key in keys} == {size} else None


def seal_of(body: bytes) -> bytes:
    """Return the checksum that stands before all else in a sealed file."""
    return hashlib.blake2b(body, digest_size=_SEAL).digest()


def write_sealed(path: PathLike, head: Head, parts: dict[str, bytes]) -> None:
    """Write head and parts to a new file and put it in place of `path`."""
    sizes = {name: len(data) for name, data in parts.items()}
    body = _SAVED + json.dumps({"head": head, "parts": sizes}).encode() + b"\n" + b"".join(parts.values())
    write_file(Path(path), seal_of(body) + body)


def read_sealed(path: PathLike) -> tuple[Head, dict[str, bytes]]:
    """Return head and parts; raise `StateError` if a byte is not as it was written."""
    data = Path(path).read_bytes()
    body = data[_SEAL:]
    intact = seal_of(body) == data[:_SEAL]
    if intact:
        refuse_newer(_SAVED, body, "the file")
    if not body.startswith(_SAVED) or not intact:
        raise StateError("the file is damaged, or holds no saved stream.")
    text, _, rest = body[len(_SAVED) :].partition(b"\n")
    description = json.loads(text)
    parts: dict[str, bytes] = {}
    for name, size in description["parts"].items():
        parts[name], rest = rest[:size], rest[size:]
    return description["head"], parts


def refuse_newer(magic: bytes, data: bytes, thing: str) -> None:
    r"""Raise `NewerVersion` if `data` begins as `magic` does, with a larger number: a later program has written it.

    >>> refuse_newer(b"dpi saved 1\n", b"dpi saved 2\n", "the file")
    Traceback (most recent call last):
    dpi.errors.NewerVersion: the file was written by a newer version of dpi: ...
    """
    if _versions_after(magic, data) > 0:
        raise newer(thing)


def is_older(magic: bytes, data: bytes) -> bool:
    r"""Return whether `data` begins as `magic` does, with a smaller number: an earlier program has written it.

    >>> is_older(b"dpi state 2\n", b"dpi state 1\n..."), is_older(b"dpi state 2\n", b"dpi state 2\n...")
    (True, False)
    """
    return _versions_after(magic, data) < 0


def _versions_after(magic: bytes, data: bytes) -> int:
    """Return by how much the number in `data` exceeds that of `magic`; 0 if it begins otherwise."""
    name, number = magic.rstrip(b"\n").rsplit(b" ", 1)
    match = re.match(re.escape(name) + rb" (\d{1,9})\n", data)
    return 0 if match is None else int(match[1]) - int(number)
