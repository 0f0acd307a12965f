"""States as bytes: any tree of dataclasses, tuples, numbers and arrays, in the order of its fields.

Names are not stored, so that classes and fields can be renamed; their order cannot change without another magic line.
Sees public states; no histogram, no user.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from dpi.errors import OlderState, StateError
from dpi.files import is_older, refuse_newer

_DIGEST = 32
Part = TypeVar("Part")


def encode(magic: bytes, state: object) -> bytes:
    """Encode a state, for storage: a digest of what follows it, a line of numbers and shapes, the arrays."""
    numbers: list[object] = []
    arrays: list[bytes] = []
    for leaf in _leaves(state):
        if isinstance(leaf, np.ndarray):
            numbers.append([leaf.dtype.str, leaf.shape])
            arrays.append(leaf.astype(leaf.dtype.newbyteorder("<"), copy=False).tobytes())
        else:
            numbers.append(leaf)
    body = json.dumps(numbers).encode() + b"\n" + b"".join(arrays)
    return magic + hashlib.blake2b(body, digest_size=_DIGEST).digest() + body


def decode(kind: type[Part], magic: bytes, data: bytes, whose: str) -> Part:
    """Read the state of `encode`, bit for bit; raise `OlderState` for one of an earlier version."""
    refuse_newer(magic, data, f"the state of {whose}")
    if is_older(magic, data):
        raise OlderState(f"the state of {whose} was written by an earlier version of dpi.")
    start = len(magic) + _DIGEST
    digest, body = data[len(magic) : start], data[start:]
    if not data.startswith(magic):
        raise StateError(f"the state was not written by this version of {whose}.")
    if hashlib.blake2b(body, digest_size=_DIGEST).digest() != digest:
        raise StateError(f"the state of {whose} is damaged: its checksum is wrong.")
    line, _, rest = body.partition(b"\n")
    return _build(kind, _read(json.loads(line), rest))


def digested(data: bytes) -> int:
    """How many first bytes of an encoded state end with the digest of all others; 0 of any other bytes."""
    return data.index(b"\n") + 1 + _DIGEST if data.startswith(b"dpi ") else 0


def freeze(state: object) -> None:
    """Make its arrays read-only."""
    for leaf in _leaves(state):
        if isinstance(leaf, np.ndarray):
            leaf.setflags(write=False)


def _read(numbers: list[object], rest: bytes) -> Iterator[object]:
    at = 0
    for number in numbers:
        if not isinstance(number, list):
            yield number
            continue
        kind, shape = np.dtype(number[0]), tuple(number[1])
        size = int(np.prod(shape))
        yield np.frombuffer(rest, kind, size, at).reshape(shape)
        at += size * kind.itemsize


def _leaves(value: object) -> list[object]:
    """All numbers and arrays, in order: without a call for each."""
    leaves: list[object] = []
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, tuple):
            leaves.append(len(part))
            waiting += reversed(part)
        elif is_dataclass(part):
            waiting += [getattr(part, field.name) for field in reversed(fields(part))]
        else:
            leaves.append(part)
    return leaves


def _build(kind: type[Part], leaves: Iterator[object]) -> Part:
    if get_origin(kind) is tuple:
        part, count = get_args(kind)[0], next(leaves)
        return tuple(_build(part, leaves) for _ in range(count))  # type: ignore[call-overload, return-value]
    if not is_dataclass(kind):
        return next(leaves)  # type: ignore[return-value]
    hints = get_type_hints(kind)
    return kind(**{field.name: _build(hints[field.name], leaves) for field in fields(kind)})
