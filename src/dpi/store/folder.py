"""The folder of a store's bucket files, and how a store says where it is.

A store has all accounts in its database, and holds them in memory; or it has a folder beside the database, on a path
that all who work on the ledger can read. Then accounts are worked on bucket by bucket, by as many processes as can
read the folder, or by one process that reads the accounts of a slot's users alone. The layout is the store's, for all
its ledgers, and can be changed at any time: accounts, levies and events of open slots are the same in each.

Files are written once, whole and durably, under names that are never used twice, and are nobody's until a transaction
of the store lists them. So a task that was run twice, or whose driver died, leaves files that no list names: they are
removed by the next process that has the right to write. What a name says is nothing; what a file holds is private.

**A missing file is refused, never taken for empty**: an empty bucket is one that the sealed list has no run of.

The folder belongs to one store, whose mark lies in it. A copy of a store names the same folder. Which of both is the
newer one is for the witness to say, before anything is removed here: an old copy may find all the files that it lists,
for a payment adds files more often than it replaces some.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from threading import Lock
from typing import Self

from dpi.budget.account_records import Buckets
from dpi.errors import NewerVersion, OptionError, StateError, StoreBusy, StoreError, newer
from dpi.files import OWNER, draft_of, sync_folder, write_draft, write_file
from dpi.store._engine import OTHER_WRITER, Engine
from dpi.store._schema import fact

MARK = "dpi-buckets"
"""The file by which a folder says whose it is."""
_NAME = re.compile(r"[0-9a-f]{16}-[0-9a-f]{32}")
MISSING = (
    "a bucket file that the store lists is missing or was changed: refused, for an account that is not found would be "
    "refilled. Put the folder of bucket files back as it was with this store."
)
LAYOUT = "layout"
"""The fact by which a store says where its bucket files are."""
BITS = 4
"""16 buckets, unless said: each should hold at most some million accounts."""
SUFFIX = ".buckets"
"""Of the folder beside a store in a file, unless another is named."""
MEMORY = 1 << 30
"""Bytes that accounts in files may take in memory, unless said."""


@dataclass(frozen=True)
class Layout:
    """Accounts in files, by bucket."""

    path: str
    """The folder, absolute: the same for every process that works on the store."""
    mark: str
    """What the folder's mark says."""
    bits: int
    """2^bits buckets."""

    @property
    def buckets(self) -> Buckets:
        """How accounts are divided."""
        return Buckets(self.bits)

    def to_json(self) -> str:
        """Return it as a store keeps it."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return it as it was stored."""
        try:
            stated = json.loads(text)
            if set(stated) - {each.name for each in fields(cls)}:
                raise newer("the store")
            layout = cls(**stated)
            layout.buckets  # noqa: B018 - raises if there cannot be so many
        except NewerVersion:
            raise
        except (ValueError, TypeError):
            raise StateError("the store is damaged: where its accounts are cannot be read.") from None
        return layout


def layout_of(engine: Engine) -> Layout | None:
    """Return the layout of a store; None while all accounts are in the database."""
    text = fact(engine, LAYOUT)
    return Layout.from_json(text) if text else None


def folder_beside(path: Path) -> Path:
    """Return the folder of files of a store in a file, unless another is named."""
    return path.with_name(path.name + SUFFIX)


@dataclass(frozen=True, eq=False)
class Folder:
    """Where bucket files are, and the mark of the store that they belong to."""

    path: Path
    mark: str = field(repr=False)
    _attempts: set[str] = field(default_factory=set, repr=False)
    _turn: Lock = field(default_factory=Lock, repr=False)

    @classmethod
    def make(cls, path: Path, mark: str) -> Folder:
        """Make a new folder, for its owner only; one that is there must be empty, or have been begun with this mark.

        What was written into one that was begun is removed: nothing of it was ever listed.
        """
        try:
            path.mkdir(mode=0o700, exist_ok=True)
            folder = cls(path.resolve(), mark)
            there = {entry.name for entry in folder.path.iterdir()} - {draft_of(Path(MARK)).name}
            if MARK in there and (folder.path / MARK).read_text(errors="replace") == mark:
                folder.sweep(tuple)
                return folder
            if there:
                raise OptionError(f"the folder of bucket files must be new or empty. Got {str(path)!r}.")
            path.chmod(0o700)
            write_file(folder.path / MARK, mark.encode())
        except OSError as error:
            raise StoreError(f"the folder of bucket files {path} cannot be made: {error.strerror}.") from None
        return folder

    def __reduce__(self) -> tuple[type[Folder], tuple[Path, str]]:
        """For another process, which writes under an attempt of this one."""
        return Folder, (self.path, self.mark)

    def check(self) -> None:
        """Refuse a folder that is not there, cannot be read, or is another store's."""
        try:
            mark = (self.path / MARK).read_text(errors="replace")
        except OSError as error:
            raise StateError(
                f"the folder of bucket files {self.path} cannot be read here ({error.strerror}): it must be the same "
                "folder for every process that works on the store."
            ) from None
        if mark != self.mark:
            raise StateError(f"the folder {self.path} holds the bucket files of another store.")

    @contextmanager
    def attempt(self) -> Iterator[str]:
        """Lend the beginning of names for files that are being written: nobody removes them before they are listed.

        What is written inside, and not listed when this ends, is left for `sweep`.
        """
        token = secrets.token_hex(8)
        with self._turn:
            self._attempts.add(token)
        try:
            yield token
        finally:
            with self._turn:
                self._attempts.discard(token)

    @staticmethod
    def new_name(attempt: str) -> str:
        """Return a name that was never used, so that a file's content can be bound to it."""
        return f"{attempt}-{secrets.token_hex(16)}"

    def write(self, name: str, data: bytes | bytearray | memoryview, *, durable: bool = True) -> None:
        """Write a file of a new name, durably unless said otherwise but for the name itself (`sync`)."""
        try:
            write_draft(self.path / name, data, OWNER, durable=durable)
        except OSError as error:
            raise StoreError(f"a bucket file in {self.path} cannot be written: {error.strerror}.") from None

    def sync(self) -> None:
        """Make the names of new files durable."""
        try:
            sync_folder(self.path)
        except OSError as error:
            raise StoreError(f"the folder of bucket files {self.path} cannot be written: {error.strerror}.") from None

    def read(self, name: str, start: int = 0, size: int = -1) -> bytes:
        """Bytes of a file; raises `StateError` if it is not there, or shorter."""
        self.check_name(name)
        try:
            with (self.path / name).open("rb") as file:
                file.seek(start)
                data = file.read(size)
        except FileNotFoundError:
            self.check()
            raise StateError(MISSING) from None
        except OSError as error:
            raise StoreError(f"a bucket file in {self.path} cannot be read: {error.strerror}.") from None
        if 0 <= size != len(data):
            raise StateError(MISSING)
        return data

    @staticmethod
    def check_name(name: str) -> None:
        """Refuse a name that is none of ours: it might lead out of the folder."""
        if not _NAME.fullmatch(name):
            raise StateError("the store is damaged: it lists a bucket file by no name of ours.")

    def check_files(self, names: Iterable[str]) -> None:
        """Refuse to list a file that is gone: another process had the right to write meanwhile, and removed it."""
        for name in names:
            self.check_name(name)
            if not (self.path / name).is_file():
                raise StoreBusy(OTHER_WRITER)

    def sweep(self, listed: Callable[[], Collection[str]]) -> None:
        """Remove the files that no list names and nobody is writing; refuses, and removes nothing, if one is missing.

        `listed` gives all that the store lists, and raises if this process has no right to write. It is asked after the
        folder was looked at: what another process writes that has got the right since is not among what was seen.
        """
        self.check()
        with self._turn:
            there = {entry.name for entry in os.scandir(self.path) if _NAME.fullmatch(entry.name)}
            needed = listed()
            if not there.issuperset(needed):
                raise StateError(MISSING)
            for name in there.difference(needed):
                if name[:16] not in self._attempts:
                    (self.path / name).unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the folder, with nothing in it but the mark and files that nobody lists any more."""
        self.sweep(tuple)
        (self.path / MARK).unlink(missing_ok=True)
        try:
            self.path.rmdir()
        except OSError as error:
            raise StoreError(f"the folder of bucket files {self.path} cannot be removed: {error.strerror}.") from None
