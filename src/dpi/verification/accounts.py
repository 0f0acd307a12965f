"""Checking accounts, for the curator: that they are as they were sealed, and that none is beyond what it may hold.

Sees accounts, and needs the ledger's key; bucket by bucket, where a ledger is in buckets.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from dpi.budget.account_table import AccountTable
from dpi.certificates.declared import DeclaredOptions, assigned, declared
from dpi.errors import StateError

if TYPE_CHECKING:
    from dpi.store.base import Store


def check_accounts(store: Store) -> tuple[str, ...]:
    """For the curator: whether any account is beyond what it may hold. What is said of it is private.

    An account may have spent at most what it held (ε, or its part of it by quotas), and at most what all slots of its
    streams have cost together. What accounts of one user held is at most ε in all, as the chain says (`verify`).
    """
    problems = []
    units: dict[str, int] = defaultdict(int)
    for name, text in store.streams().items():
        try:
            store.progress(name)  # with the tree of sums, whose open nodes are private
            reached, pending = store.reached(name), store.pending(name)
            ledger = DeclaredOptions.from_text(text).accounts
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
            streams = declared(store.streams())
            held = json.loads(options)["epsilon"] - assigned(ledger, streams)
        except StateError as error:
            problems.append(f"ledger {ledger!r}: {error}")
            continue
        if largest > min(held, units[ledger]):
            problems.append(f"ledger {ledger!r}: an account has spent more than its slots have cost, or more than ε")
    return tuple(problems)


def _largest(parts: Iterable[bytes]) -> int:
    """The most that any account has spent; raises `StateError` if a part is not as it was sealed."""
    return max((AccountTable.from_bytes(part).largest() for part in parts), default=0)
