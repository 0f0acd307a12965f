"""Engines: how the work on a stream's users is divided.

`Stream(engine=…)` takes one, with the options and the store that it would have without. What is released, paid and
certified is the same, bit for bit.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

from dpi.certificates.signature import Signer
from dpi.engine.bucket_slot_closer import BucketSlotCloser
from dpi.engine.executor import Executor, Local, Pool
from dpi.errors import OptionError, StateError
from dpi.noise import RandomSource
from dpi.store.folder import BITS, Folder
from dpi.store.ledger_session import LedgerSession
from dpi.stream.options import StreamOptions


@dataclass(frozen=True, eq=False)
class BucketEngine:
    """Works on a ledger in buckets with the tasks of an executor; may serve several streams, one after the other.

    A new store is laid out in a folder, `path` or the store's name with .buckets added; one that has accounts in its
    database is refused, and moved by `dpi ledger STORE --layout buckets`.
    """

    executor: Executor
    path: str | os.PathLike[str] | None = None
    bits: int = BITS
    """2^bits buckets, for a store that is laid out now."""

    def driver(
        self, newest: StreamOptions, session: LedgerSession, signer: Signer | None, source: RandomSource
    ) -> BucketSlotCloser:
        """Return a driver of the stream with these options."""
        store = session.store
        if store.layout is None:
            store.lay_out_new(None if self.path is None else Path(self.path), self.bits)
        elif self.path is not None and Path(self.path).resolve() != Path(store.layout.path):
            raise OptionError(
                f"the store has its buckets in {store.layout.path}: leave out `path`, or move them with `dpi ledger "
                "--layout buckets --path …`."
            )
        assert store.folder is not None  # noqa: S101 - it has a layout by now
        self._probe(store.folder)
        return BucketSlotCloser(newest, session, signer, source, self.executor)

    def _probe(self, folder: Folder) -> None:
        """Refuse a folder that is not the same one for every worker."""
        folder.check()
        with folder.attempt() as attempt:
            name = folder.new_name(attempt)
            folder.write(name, attempt.encode(), durable=False)
            look: Callable[[int], bool] = partial(_sees, folder, name, attempt.encode())
            if not all(self.executor.map(look, range(getattr(self.executor, "workers", 1)))):
                raise StateError(
                    f"the folder of bucket files {folder.path} is not shared: a worker does not find there what this "
                    "process has written."
                )

    def close(self) -> None:
        """Let go of processes."""
        self.executor.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _sees(folder: Folder, name: str, expected: bytes, _worker: int) -> bool:
    """Whether a worker finds a file that the driver has just written."""
    try:
        folder.check()
        return folder.read(name) == expected
    except (StateError, OSError):
        return False


def local(path: str | os.PathLike[str] | None = None, *, bits: int = BITS) -> BucketEngine:
    """One process, bucket by bucket: memory holds one bucket's accounts, and not the ledger.

    >>> local()
    BucketEngine(executor=Local(), path=None, bits=4)
    """
    return BucketEngine(Local(), path, bits)


def pool(workers: int | None = None, path: str | os.PathLike[str] | None = None, *, bits: int = BITS) -> BucketEngine:
    """Return processes on this machine, one for each core unless said."""
    return BucketEngine(Pool(workers), path, bits)
