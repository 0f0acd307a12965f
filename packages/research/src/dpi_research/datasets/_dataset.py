"""A real stream: whose it is, who its user is, where its file lies, and how that file is read.

The files are other people's, so none is in the package. A file is read from a path, or from the folder that DPI_DATA
names; it is downloaded only if asked, and used only if its checksum is the stated one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.request import urlopen

import polars as pl

from dpi.errors import OptionError, SchemaError

Parse = Callable[[Path], pl.DataFrame]
Open = Callable[[str], AbstractContextManager[IO[bytes]]]

FOLDER = "DPI_DATA"
"""The variable that names the folder of stored streams and of downloads."""


@dataclass(frozen=True)
class Dataset:
    """A real stream of events, or of counts."""

    name: str
    publisher: str
    licence: str
    unit: str
    """Who is protected: one `user` of the table, or, where the table has counts, who is counted."""
    value: str
    """What the column `value` holds."""
    columns: list[str]
    """What the table has, whichever file it comes from."""
    file: str
    """The publisher's file, by its usual name."""
    parse: Parse
    """Reads the publisher's file."""
    stored: str
    """The Parquet file of the same stream in the folder DPI_DATA."""
    stored_sha256: str
    address: str | None = None
    """Where the publisher's file is, if it has an address of its own."""

    def load(
        self, path: str | os.PathLike[str] | None = None, *, download: bool = False, sha256: str | None = None
    ) -> pl.DataFrame:
        """The table, from `path`, or a stored file, or a download; with `sha256`, only of a file with that checksum."""
        if path is not None:
            return self._read(self._checked(Path(path), sha256))
        if download:
            return self._read(self._downloaded(sha256))
        folder = os.environ.get(FOLDER)
        if folder is not None and (stored := Path(folder) / self.stored).is_file():
            check(stored, sha256 or self.stored_sha256)
            return pl.read_parquet(stored, columns=self.columns)
        raise OptionError(self._needed(folder))

    def _read(self, path: Path) -> pl.DataFrame:
        try:
            table = pl.read_parquet(path) if path.suffix == ".parquet" else self.parse(path)
            return table.select(self.columns)
        except pl.exceptions.PolarsError:  # its text may quote a row
            raise SchemaError(f"{path.name} does not have the columns of {self.file} by {self.publisher}.") from None

    def _checked(self, path: Path, sha256: str | None) -> Path:
        if not path.is_file():
            raise OptionError(f"`path` must be a file. There is none at {str(path)!r}. {self._needed(None)}")
        if sha256 is not None:
            check(path, sha256)
        return path

    def _downloaded(self, sha256: str | None) -> Path:
        folder = os.environ.get(FOLDER)
        if self.address is None:
            raise OptionError(f"{self.file} has no address that stays. {self._needed(folder)}")
        if folder is None or sha256 is None:
            raise OptionError(
                f"a download needs a folder, named by {FOLDER}, and the `sha256` of the version you want: "
                f"{self.publisher} may change {self.file} at any time."
            )
        target = Path(folder) / self.address.rpartition("/")[2]
        if not target.exists():
            fetch(self.address, target, sha256)
        return self._checked(target, sha256)

    def _needed(self, folder: str | None) -> str:
        where = f" from {self.address}" if self.address else ""
        stored = f"{self.stored} in {folder}" if folder else f"a folder with {self.stored}, named by {FOLDER}"
        return f"{self.name!r} needs {self.file} ({self.publisher}){where}, given as `path`, or {stored}."


def check(path: Path, sha256: str) -> None:
    """Refuse a file with another checksum."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != sha256.lower():
        raise OptionError(
            f"{path.name} has the SHA-256 {digest}, expected was {sha256.lower()}: it is another version, or damaged. "
            "Give it as `path`, without `sha256`, if it is the one you mean."
        )


def fetch(address: str, target: Path, sha256: str, open_address: Open = urlopen) -> None:
    """Download a file; it appears at `target` only if it is whole and has the stated checksum."""
    if not address.startswith("https://"):
        raise OptionError(f"a download must be by https. Got {address!r}.")
    partial = target.with_name(target.name + ".part")
    try:
        with open_address(address) as source, partial.open("wb") as sink:
            while block := source.read(1 << 20):
                sink.write(block)
        check(partial, sha256)
        partial.replace(target)
    except OSError as error:
        raise OptionError(
            f"{address} cannot be downloaded ({type(error).__name__}): get the file elsewhere and give it as `path`."
        ) from None
    finally:
        partial.unlink(missing_ok=True)
