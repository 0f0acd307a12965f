"""Buckets of accounts: the parts of a ledger that can be worked on apart.

A bucket is a prefix of the account's name: its first bits, as an unsigned number. Names are keyed digests, so buckets
are of equal size but for chance, whoever the users are. Which bucket an account is in never changes while the ledger
has so many; to have more of them, the ledger is laid out anew (`dpi ledger --layout`).

Sees names of accounts; no id and no amount.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpi.errors import OptionError
from dpi.events.identity import Digests
from dpi.exact.integers import Integers

MOST_BITS = 16
_WORD = 64


@dataclass(frozen=True)
class Buckets:
    """2^bits buckets.

    >>> names = np.array([[2**63, 0], [0, 2**63], [2**64 - 1, 0]], dtype=np.uint64)
    >>> Buckets(2).of(names).tolist(), Buckets(0).of(names).tolist()
    ([2, 0, 3], [0, 0, 0])
    """

    bits: int

    def __post_init__(self) -> None:
        if type(self.bits) is not int or not 0 <= self.bits <= MOST_BITS:
            raise OptionError(f"`bits` must be a whole number from 0 to {MOST_BITS}. Got {self.bits!r}.")

    @property
    def number(self) -> int:
        """How many there are."""
        return 1 << self.bits

    def of(self, names: Digests) -> Integers:
        """The bucket of each account."""
        if self.bits == 0:
            return np.zeros(len(names), dtype=np.int64)
        return (names[:, 0] >> np.uint64(_WORD - self.bits)).astype(np.int64)
