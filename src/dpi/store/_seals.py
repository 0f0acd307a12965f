"""Seals without a key: they find damage, not forgery; what must withstand forgery is sealed by the ledger's key."""

from __future__ import annotations

import hashlib
import json

from dpi.store.base import Checkpoint, PaidSlot

_DIGEST = 32
"""Bytes of a digest.

Source: by definition; BLAKE2b then withstands collisions with 128 bits.
"""


def fingerprint(key: bytes) -> str:
    """What the store remembers of its key: enough to notice another one."""
    return hashlib.blake2b(key, digest_size=16, person=b"dpi key").hexdigest()


def paid_seal(paid: PaidSlot) -> bytes:
    """Of a measurement and what is public about it."""
    head = [paid.stream, paid.slot, paid.epsilon, paid.partial, paid.allocation, paid.assumption]
    return hashlib.blake2b(
        json.dumps(head).encode() + b"\n" + paid.values, digest_size=32, person=b"dpi measured"
    ).digest()


def tree_seal(stream: str, tree: bytes) -> bytes:
    """Of a tree of sums."""
    return hashlib.blake2b(stream.encode() + b"\n" + tree, digest_size=32, person=b"dpi tree").digest()


def progress_seal(stream: str, progress: Checkpoint, mechanism: bytes) -> bytes:
    """Of where a stream is.

    A large state is most of it, and the mechanism has just digested it (`Checkpoint.digested`): then the seal is of
    that digest, and says so by two more bytes. Whoever checks it digests the state anew (`is_progress_seal`).
    """
    start = progress.digested(mechanism)
    return _progress_seal(stream, progress, mechanism, start, mechanism[max(start - _DIGEST, 0) : start])


def is_progress_seal(seal: bytes, stream: str, progress: Checkpoint, mechanism: bytes) -> bool:
    """Whether a seal is that of where a stream is: every byte of it was looked at."""
    start = int.from_bytes(seal[_DIGEST:], "big")
    rest = hashlib.blake2b(memoryview(mechanism)[start:], digest_size=_DIGEST).digest() if start else b""
    return seal == _progress_seal(stream, progress, mechanism, start, rest)


def _progress_seal(stream: str, progress: Checkpoint, mechanism: bytes, start: int, rest: bytes) -> bytes:
    """The same with the state from `start` on as the digest `rest`; all of it as it is, if that is 0."""
    head = [stream, progress.first, progress.last, progress.spent, progress.allocation, len(mechanism)]
    digest = hashlib.blake2b(json.dumps(head).encode() + b"\n", digest_size=_DIGEST, person=b"dpi progress")
    digest.update(mechanism[:start] + rest if start else mechanism)
    digest.update(progress.accumulated)
    return digest.digest() + (start.to_bytes(2, "big") if start else b"")
