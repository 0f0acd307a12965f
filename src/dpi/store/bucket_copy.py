"""The bucket files of a back-up, or of a store that is made from one: a folder of its own, with files as they were.

Files are written once and never changed, so that they can be copied while the store goes on. Those that a payment
replaces meanwhile are removed, and the copy is made of a later moment instead: what was copied and is still listed
stays, and large runs are replaced rarely. The folder has its name when it holds all that one moment of the store lists.

Sees names of files and bytes; seals are checked by whoever reads accounts.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dpi.errors import OptionError, StoreError
from dpi.files import OWNER, sync_folder
from dpi.store.folder import Folder, Layout


@dataclass(frozen=True, eq=False)
class BucketCopy:
    """A folder that fills with what a store lists."""

    path: Path
    """Where it will be."""
    draft: Folder

    @classmethod
    @contextmanager
    def begun(cls, path: Path) -> Iterator[BucketCopy]:
        """A new folder, where there is none; if what is done with it fails, nothing of it is left."""
        path = path.absolute()
        if path.exists() or path.is_symlink():
            raise OptionError(f"{path} exists already; it is not replaced.")
        if not path.parent.is_dir():
            raise OptionError(f"a copy must lie in a folder that exists. Got {str(path)!r}.")
        draft = Folder.make(path.with_name(f".{path.name}.{secrets.token_hex(8)}"), secrets.token_hex(16))
        copy = cls(path, draft)
        try:
            yield copy
        except BaseException:
            for place in (draft.path, path):
                if Folder(place, draft.mark).is_here():
                    shutil.rmtree(place, ignore_errors=True)
            raise

    def take(self, source: Folder, names: Collection[str]) -> bool:
        """Copy the files of these names that are not here yet; False if one of them has been replaced meanwhile."""
        source.check()
        for name in names:
            source.check_name(name)
            target = self.draft.path / name
            if target.exists():
                continue
            try:
                with (source.path / name).open("rb") as file:
                    _written(target, file)
            except FileNotFoundError:
                return False
            except OSError as error:
                target.unlink(missing_ok=True)
                raise StoreError(f"a copy of a bucket file cannot be written: {error.strerror}.") from None
        return True

    def finished(self, names: Collection[str], bits: int) -> Layout:
        """Give the folder its name, with these files and no other; how a store says that it has its accounts there."""
        self.draft.sweep(lambda: names)
        self.draft.sync()
        self.draft.path.rename(self.path)
        sync_folder(self.path.parent)
        return Layout(str(self.path), self.draft.mark, bits)


def _written(path: Path, file: BinaryIO) -> None:
    """A new file for its owner only, durably but for its name."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER), "wb") as made:
        shutil.copyfileobj(file, made, 1 << 20)
        made.flush()
        os.fsync(made.fileno())
