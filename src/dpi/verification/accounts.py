"""Checking accounts, for the curator: that they are as they were sealed, and that none is beyond what it may hold.

Sees accounts, and needs the ledger's key; bucket by bucket, where a ledger is in buckets.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from dpi.budget.account_table import AccountTable
from dpi.certificates.declared import DeclaredOptions
from dpi.errors import StateError

if TYPE_CHECKING:
    from dpi.store.sql import SQLStore


def check_accounts(store: SQLStore) -> tuple[str, ...]:
    """For the curator: whether any account is beyond what it may hold. What is said of it is private.

    An account may hold at most ε, and at most what all slots of the ledger's streams have cost together.
    """
    problems = []
    units: dict[str, int] = defaultdict(int)
    for name, text in store.streams().items():
        try:
            store.progress(name)  # with the tree of sums, whose open nodes are private
            reached, pending = store.reached(name), store.pending(name)
            ledger = DeclaredOptions.from_text(text).ledger
            paid = _largest(store.payment_parts(name))
        except StateError as error:
            problems.append(f"stream {name!r}: {error}")
            continue
        if ledger is not None:
            before = 0 if reached is None else reached[1]
            most = before if pending is None else pending.spent_after(before)
            units[ledger] += most
            if paid > most:
                problems.append(f"stream {name!r}: an account has paid more than its slots have cost")
    for ledger, options in store.ledgers().items():
        try:
            largest = _largest(store.account_parts(ledger, options))
        except StateError as error:
            problems.append(f"ledger {ledger!r}: {error}")
            continue
        epsilon = json.loads(options)["epsilon"]
        if largest > min(epsilon, units[ledger]):
            problems.append(f"ledger {ledger!r}: an account has spent more than its slots have cost, or more than ε")
    return tuple(problems)


def _largest(parts: Iterable[bytes]) -> int:
    """The most that any account has spent; raises `StateError` if a part is not as it was sealed."""
    return max((AccountTable.from_bytes(part).largest() for part in parts), default=0)
