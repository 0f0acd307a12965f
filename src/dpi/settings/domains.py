"""Domains as files, with the keys of hashed ones."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from dpi import files
from dpi.domain import Amounts, Categories, Discovered, Domain, Hashed, Texts
from dpi.domain import file as domain_file
from dpi.errors import OptionError
from dpi.events.identity import KEY_BYTES
from dpi.settings.declaration import EVENTS, Setting
from dpi.sources.files import find_files
from dpi.stream.options import LONGEST_TEXT

DOMAIN = Setting("FILE", "File of values, one per line, or JSON; or discover.", EVENTS)
OTHER = Setting("NAME", "Name of the bin for values that are not listed.", EVENTS)
DOMAIN_KEY = Setting("FILE", "Key of a hashed domain. Repeat it for several.", EVENTS)


@dataclass(frozen=True, kw_only=True)
class DomainSettings:
    """A domain as a file, or the amounts of a column."""

    domain: Annotated[Path | None, DOMAIN] = None
    other: Annotated[str | None, OTHER] = None
    domain_key: Annotated[list[Path] | None, DOMAIN_KEY] = None
    amount: Annotated[
        str | None,
        Setting("COLUMN", "Instead of --domain and --value: column whose numbers are summed per user.", EVENTS),
    ] = None
    step: Annotated[str | None, Setting("NUMBER", "Smallest unit of amounts (0.01).", EVENTS)] = None

    def read(self, events: Sequence[str | os.PathLike[str]] = ()) -> Domain:
        """Return the domain; `other` names the bin of everything that a list of values does not name.

        Refuses, before it is read, a file that is one of the files of events: its rows would be published as values.
        """
        path = self.domain
        if self.amount is not None:
            if path is not None or self.other is not None:
                text = "amounts have no list of values: leave out `domain` and `other`."
                raise OptionError(text, options=("domain", "other"))
            return Amounts("0.01" if self.step is None else self.step)
        if self.step is not None:
            raise OptionError("`step` is for amounts: give `amount` as well.", options=("step", "amount"))
        if path == Path("discover"):
            if self.other is not None:
                raise OptionError("values that are discovered need no more: leave out `other`.", options=("other",))
            return Discovered(Texts(LONGEST_TEXT))
        if path is None:
            raise OptionError(
                "`domain` is required: a file of public values. Or give `amount`: a column whose numbers are summed by "
                "user.",
                options=("domain", "amount"),
            )
        if events and _is_one_of(path, [os.fspath(name) for name in events]):
            raise OptionError(
                f"the domain file {path} is one of the files of events: its rows are private, and what a domain lists "
                "is published. Declare the values in a file of their own, from a public list."
            )
        domain = domain_file.read(path, keys=domain_keys(self.domain_key))
        if self.other is None:
            return domain
        if path.suffix == ".json" or not isinstance(domain, Categories):
            raise OptionError("`other` is for a list of values; a JSON domain says it itself.")
        return Categories(domain.values, other=self.other)


def domain_keys(paths: Sequence[Path] | None) -> dict[str, bytes]:
    """Return keys by their fingerprint."""
    keys = [read_key(path) for path in paths or ()]
    return {Hashed(1, key).fingerprint: key for key in keys}


def read_key(path: Path, *, make: bool = False) -> bytes:
    """Return the 32 bytes in a key file of 64 hexadecimal digits; made, for its owner alone, if that is asked for."""
    if make and not path.exists():
        files.create_key(path, KEY_BYTES)
    try:
        key = files.read_key(path, KEY_BYTES)
    except FileNotFoundError:
        raise OptionError(f"there is no key file {path}.") from None
    if key is None:
        raise OptionError(f"the key file {path} is damaged: it must hold 64 hexadecimal digits.")
    return key


def _is_one_of(path: Path, events: Sequence[str]) -> bool:
    """Return whether a file is the same as one of those that paths and patterns name, whatever it is called."""
    if not path.exists():
        return False
    state = path.stat()
    return any(
        os.path.samestat(state, os.fstat(sys.stdin.fileno()) if name == "-" else os.stat(name))
        for name in find_files(events)
    )
