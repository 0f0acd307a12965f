"""Bytes that begin with a name and the number of their version, such as `dpi saved 2`."""

from __future__ import annotations

import re

from dpi.errors import newer


def refuse_newer(magic: bytes, data: bytes, thing: str) -> None:
    r"""Raise `NewerVersion` if `data` begins as `magic` does, with a larger number: a later program has written it.

    >>> refuse_newer(b"dpi saved 2\n", b"dpi saved 3\n", "the file")
    Traceback (most recent call last):
    dpi.errors.NewerVersion: the file was written by a newer version of dpi: ...
    """
    name, number = magic.rstrip(b"\n").rsplit(b" ", 1)
    found = re.match(re.escape(name) + rb" (\d{1,9})\n", data)
    if found is not None and int(found[1]) > int(number):
        raise newer(thing)
