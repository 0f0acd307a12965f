"""The chain's entries as the leaves of a Merkle tree (RFC 6962, SHA-256): what witnesses compare.

A witness that saw 1,000 entries checks that a tree of 1,200 still begins with them, from some ten hashes. The chain's
own links would need all entries in between. The tree is computed from the entries' texts whenever it is needed, and is
not stored: it says nothing that the chain does not say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def leaf_hash(text: str) -> bytes:
    """Return the hash of one entry's text.

    >>> leaf_hash("").hex()[:16]
    '6e340b9cffb37a98'
    """
    return hashlib.sha256(b"\0" + text.encode(errors="surrogatepass")).digest()


def root_hash(leaves: Sequence[bytes]) -> bytes:
    """Return the root of the tree over these leaf hashes.

    >>> root_hash([]).hex()[:16]
    'e3b0c44298fc1c14'
    """
    if not leaves:
        return hashlib.sha256(b"").digest()
    level = list(leaves)
    while len(level) > 1:  # the last node of an odd level goes up as it is: that is the tree of RFC 6962
        pairs = [hashlib.sha256(b"\1" + a + b).digest() for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[len(pairs) * 2 :]
    return level[0]


def consistency_proof(leaves: Sequence[bytes], old: int) -> list[bytes]:
    """Return the hashes that show that the tree over the first `old` leaves is the beginning of the tree over all.

    This is PROOF(old, leaves) of RFC 6962, section 2.1.2; empty where there is nothing to show.

    >>> leaves = [leaf_hash(str(n)) for n in range(7)]
    >>> len(consistency_proof(leaves, 3)), consistency_proof(leaves, 7), consistency_proof(leaves, 0)
    (4, [], [])
    """
    if not 0 <= old <= len(leaves):
        raise ValueError("the old tree must be a beginning of the new one")
    return [] if old == 0 else _subproof(leaves, old, whole=True)


def _subproof(leaves: Sequence[bytes], old: int, *, whole: bool) -> list[bytes]:
    """SUBPROOF of RFC 6962; `whole` says that the old tree is this one, whose root the reader has."""
    if old == len(leaves):
        return [] if whole else [root_hash(leaves)]
    split = 1 << (len(leaves) - 1).bit_length() - 1  # the largest power of two below their number
    if old <= split:
        return [*_subproof(leaves[:split], old, whole=whole), root_hash(leaves[split:])]
    return [*_subproof(leaves[split:], old - split, whole=False), root_hash(leaves[:split])]
