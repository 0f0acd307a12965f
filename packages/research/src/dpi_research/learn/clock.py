"""The public clock of the ledger (`dpi.budget.classes.level`), again, so that the simulator needs numpy alone."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b


@lru_cache(maxsize=1 << 16)
def level(slot: int, top: int) -> int:
    """Return the level of a slot, at most `top`: one slot of every aligned block of 2^m has level m or more.

    >>> [level(slot, top=3) for slot in range(8)]
    [0, 3, 0, 1, 0, 1, 0, 2]
    """
    for size in range(top):
        if (slot >> size) & 1 != _chosen(slot >> (size + 1), size):
            return size
    return top


def _chosen(block: int, size: int) -> int:
    text = b"%d %d" % (size, block)
    return blake2b(text, digest_size=1, person=b"dpi clock").digest()[0] & 1
