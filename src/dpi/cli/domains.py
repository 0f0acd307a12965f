"""Domains as files, with the keys of hashed ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from dpi import domain_file, secret
from dpi.domain import Categories, Domain, Hashed
from dpi.errors import OptionError
from dpi.identity import KEY_BYTES


def domain_keys(paths: Sequence[Path] | None) -> dict[str, bytes]:
    """Keys by their fingerprint."""
    keys = [read_key(path) for path in paths or ()]
    return {Hashed(1, key).fingerprint: key for key in keys}


def read_key(path: Path, *, make: bool = False) -> bytes:
    """The 32 bytes in a key file of 64 hexadecimal digits; made, for its owner alone, if that is asked for."""
    if make and not path.exists():
        secret.create(path, os.urandom(KEY_BYTES).hex().encode() + b"\n")
    try:
        text = secret.read(path)
    except FileNotFoundError:
        raise OptionError(f"there is no key file {path}.") from None
    try:
        key = bytes.fromhex(text.decode().strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise OptionError(f"the key file {path} is damaged: it must hold 64 hexadecimal digits.")
    return key


def read_domain(path: Path, other: str | None, keys: Sequence[Path] | None) -> Domain:
    """The domain in a file; `other` names the bin of everything that a list of values does not name."""
    domain = domain_file.read(path, keys=domain_keys(keys))
    if other is None:
        return domain
    if path.suffix == ".json" or not isinstance(domain, Categories):
        raise OptionError("`--other` is for a list of values; a JSON domain says it itself.")
    return Categories(domain.values, other=other)
