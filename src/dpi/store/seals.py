"""Seals without a key: they find damage, not forgery; what must withstand forgery is sealed by the ledger's key."""

from __future__ import annotations

import hashlib
import json

from dpi.store.base import Checkpoint, PaidSlot


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
    """Of where a stream is."""
    head = [stream, progress.first, progress.last, progress.spent, progress.allocation, len(mechanism)]
    state = hashlib.blake2b(json.dumps(head).encode() + b"\n", digest_size=32, person=b"dpi progress")
    state.update(mechanism)
    state.update(progress.accumulated)
    return state.digest()
