"""Where a store has its accounts: in the database, in files by bucket, or in pages.

A ledger in the database is held in memory by the one process that pays from it. A ledger in buckets is worked on bucket
by bucket, by as many processes as can read the folder. A ledger in pages is paid from by one process, which reads the
accounts of a slot's users alone. The layout is the store's, for all its ledgers, and can be
changed at any time: accounts, levies and events of open slots are the same in each.

Sees names of files; no account.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Self

from dpi.budget.account_table import Buckets
from dpi.errors import NewerVersion, StateError, newer
from dpi.store.engine import Engine
from dpi.store.schema import fact

LAYOUT = "layout"
"""The fact by which a store says where its bucket files are."""
BITS = 4
"""16 buckets, unless said: each should hold at most some million accounts."""

SUFFIX = ".buckets"
"""Of the folder of bucket files, or pages, beside an embedded store, unless another is named."""
MEMORY = 1 << 30
"""Bytes that accounts in pages may take in memory, unless said."""


@dataclass(frozen=True)
class Layout:
    """Accounts in files, by bucket or in pages."""

    path: str
    """The folder, absolute: the same for every process that works on the store."""
    mark: str
    """What the folder's mark says."""
    bits: int | None
    """2^bits buckets; None for pages."""

    @property
    def buckets(self) -> Buckets | None:
        """How accounts are divided; None for pages."""
        return None if self.bits is None else Buckets(self.bits)

    def to_json(self) -> str:
        """For a store."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """As it was stored."""
        try:
            stated = json.loads(text)
            if set(stated) - {each.name for each in fields(cls)}:
                raise newer("the store")
            layout = cls(**stated)
            layout.buckets  # noqa: B018 - raises if there cannot be so many
        except NewerVersion:
            raise
        except (ValueError, TypeError):
            raise StateError("the store is damaged: where its accounts are cannot be read.") from None
        return layout


def layout_of(engine: Engine) -> Layout | None:
    """The layout of a store; None while all accounts are in the database."""
    text = fact(engine, LAYOUT)
    return None if text is None or not text else Layout.from_json(text)


def beside(path: Path) -> Path:
    """The folder of files of an embedded store, unless another is named."""
    return path.with_name(path.name + SUFFIX)
