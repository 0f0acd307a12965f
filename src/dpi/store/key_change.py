"""Replacing the ledger's key: the store's accounts and open events are named anew, and nobody is refilled.

Names are a one-way function of key and id, and the store has no ids. So the new key is a further one: it permutes the
names that there are (`dpi.events.identity.rename`), and the key file keeps all keys, the oldest first. Who has the old
key can tell nothing of the store as it is from then on; what was copied before stays readable.

**Guarantee.** Each user has left what they had, wherever the process ends. *Why:* the key file has the further key,
durably, before any account is named by it, and no key ever leaves the file. The store goes over in one transaction,
which holds the fingerprint of its keys. Before it the store is opened with the beginning of the file, after it with all
of the file; a file that lacks a key of the store is refused.

A key file that holds more keys than the store has come to is of a replacement that was interrupted, of another store
with the same file, or of a copy that was put back: the store goes over to the keys that are there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_bytes
from typing import NamedTuple

from dpi.errors import OptionError, StoreError
from dpi.events.identity import KEY_BYTES
from dpi.files import OWNER, draft_of, lock_alone, need_posix, put, write_draft
from dpi.store._sqlite import ledger_key
from dpi.store.opening import key_path_of, open_store, store_exists

PathLike = str | os.PathLike[str]


class Changed(NamedTuple):
    """A key file after a replacement."""

    path: Path
    number: int
    """How many keys it holds."""


def replace_key(target: PathLike, *, key_file: PathLike | None = None, witness: PathLike | None = None) -> Changed:
    """Name the accounts of a store by a further key. Refused while another process writes to it."""
    name = os.fspath(target)
    if not store_exists(name):
        raise OptionError("there is no store whose key could be replaced.")
    path = key_path_of(name, key_file)
    with open_store(name, key_file=path, witness=witness) as store:
        with _alone(path):
            keys = ledger_key(path, new=False)
            if keys == store.key:
                keys += token_bytes(KEY_BYTES)
                _write(path, keys)
        store.change_key(keys)
    return Changed(path, len(keys) // KEY_BYTES)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time in the folder of a key file, which several stores may share."""
    need_posix("a ledger's key")
    descriptor = os.open(path.resolve().parent, os.O_RDONLY)
    try:
        lock_alone(descriptor)
        yield
    finally:
        os.close(descriptor)


def _write(path: Path, keys: bytes) -> None:
    """Put a key file with more keys in the place of one, with its owner; where a link leads to it, there."""
    place = path.resolve()
    lines = [keys[at : at + KEY_BYTES].hex() + "\n" for at in range(0, len(keys), KEY_BYTES)]
    try:
        draft, status = write_draft(draft_of(place), "".join(lines).encode(), OWNER), place.stat()
        os.chown(draft, status.st_uid, status.st_gid)
        put(draft, place)
    except OSError as error:
        raise StoreError(f"the ledger key {path} cannot be written: {error.strerror}. Nothing was changed.") from None
