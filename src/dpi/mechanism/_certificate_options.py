"""A mechanism's options as a certificate states them: the same words as the stream's options, with nothing left out."""

from __future__ import annotations

import hashlib
import json

from dpi.options import Options

LONGEST = 64
"""Every release repeats the parameters: of a column with more numbers, how many there are and their digest is told."""


def parameters(options: Options) -> dict[str, object]:
    """Return what a mechanism's options say besides its kind.

    >>> parameters({"kind": "prefix_tree", "per_slot": 5, "more": list(range(100))})["more"]["number"]
    100
    """
    return {name: _short(part) for name, part in options.items() if name != "kind"}


def _short(value: object) -> object:
    if isinstance(value, dict):
        return {name: _short(part) for name, part in value.items()}
    if not isinstance(value, list) or _numbers(value) <= LONGEST:
        return value
    digest = hashlib.blake2b(json.dumps(value).encode(), digest_size=16, person=b"dpi parameters")
    return {"number": len(value), "digest": digest.hexdigest()}


def _numbers(value: object) -> int:
    return sum(map(_numbers, value)) if isinstance(value, list) else 1
