"""Where a store has its accounts: in the database, or in files by bucket.

A ledger in the database is held in memory by the one process that pays from it. A ledger in buckets is worked on bucket
by bucket, by as many processes as can read the folder. The layout is the store's, for all its ledgers, and can be
changed at any time: accounts, levies and events of open slots are the same in each.

Sees names of files; no account.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from dpi.budget.buckets import Buckets
from dpi.errors import StateError
from dpi.store.engine import Engine
from dpi.store.schema import fact

LAYOUT = "layout"
"""The fact by which a store says where its bucket files are."""
BITS = 4
"""16 buckets, unless said: each should hold at most some million accounts."""

SUFFIX = ".buckets"
"""Of the folder of bucket files beside an embedded store, unless another is named."""


@dataclass(frozen=True)
class Layout:
    """Accounts in files by bucket."""

    path: str
    """The folder, absolute: the same for every process that works on the store."""
    mark: str
    """What the folder's mark says."""
    bits: int

    def to_json(self) -> str:
        """For a store."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """As it was stored."""
        try:
            layout = cls(**json.loads(text))
            Buckets(layout.bits)
        except (ValueError, TypeError):
            raise StateError("the store is damaged: where its accounts are cannot be read.") from None
        return layout


def layout_of(engine: Engine) -> Layout | None:
    """The layout of a store; None while all accounts are in the database."""
    text = fact(engine, LAYOUT)
    return None if text is None or not text else Layout.from_json(text)


def beside(path: Path) -> Path:
    """The folder of bucket files of an embedded store, unless another is named."""
    return path.with_name(path.name + SUFFIX)
