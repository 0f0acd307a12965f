"""The head of the chain, kept in a small file elsewhere, so that a store that was restored from an old copy is noticed.

An old copy of a store has forgotten debits: going on from it would spend them again. The witness is written after a
release is stored and before `release` hands it to anyone; so it knows every release that was given out. (Who reads the
store itself meanwhile may see one a moment earlier.) It holds public facts only. Keep it on another disk or machine
than the store, and out of the store's backup.

Witness and store know each other by a name drawn at random: a store that has a witness is not continued without it. So
an old copy cannot go on unseen for a while and then come back, which is what charging for lost slots relies on.

What it remembers does not go back where replicas take turns: that the store is as it was read, and the writing, are one
step, with a lock on a file beside it. A process that stood still before that step, while another took over, has lost
its session with the store and reads nothing; one that stands still in its midst keeps the other from writing here, for
that one cannot know whether it has read already.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Self

from dpi.errors import NewerVersion, StateError, StoreBusy, StoreError, newer
from dpi.files import lock_alone, write_file

PATIENCE = 10.0
"""Seconds that another process may take to write the witness."""


@dataclass(frozen=True)
class Seen:
    """What the witness saw last."""

    sequence: int
    digest: str
    last: dict[str, int] = field(default_factory=dict)
    """The last released slot of each stream."""
    spent: dict[str, int] = field(default_factory=dict)
    """The sum of each stream's budgets, in units."""
    witness: str = ""
    """The name by which the store knows its witness."""
    largest: dict[str, list[int]] = field(default_factory=dict)
    """Of each stream that measures by class: the largest share that each class was ever asked for, in steps of 2^-12.

    Any class may have been due in slots that a copy of the store has forgotten, and by this it is known what it can
    have paid at most. Each slot's own shares would say less, in a file that grows with every slot.
    """
    restored: dict[str, list[int]] = field(default_factory=dict)
    """Of the same streams: the slots after which an old copy went on, and so with the classes that it remembered."""
    quotas: dict[str, int] = field(default_factory=dict)
    """What accounts of each stream that has a quota hold, in units."""

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return what was written; raise `StateError` if it is damaged."""
        try:
            stated = json.loads(text)
            if set(stated) - set(cls.__dataclass_fields__):
                raise newer("the witness file")
            seen = cls(**stated)
            lists = chain(*seen.largest.values(), *seen.restored.values())
            numbers = [seen.sequence, *seen.last.values(), *seen.spent.values(), *seen.quotas.values(), *lists]
            if not isinstance(seen.digest, str) or not isinstance(seen.witness, str) or {*map(type, numbers)} != {int}:
                raise ValueError
        except NewerVersion:
            raise
        except (ValueError, TypeError, AttributeError):
            raise StateError("the witness file is damaged: it no longer detects an old copy of the store.") from None
        return seen


@dataclass(frozen=True)
class Witness:
    """A file that remembers the head of one store's chain."""

    path: Path
    name: str = ""
    mode: int = 0o666
    """Of the file when it is made. It holds public facts: the owner's umask decides who reads them."""

    def read(self) -> Seen | None:
        """Return what was seen last; None if there is no file yet."""
        try:
            return Seen.from_json(self.path.read_text(errors="replace"))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"the witness {self.path} cannot be read: {error.strerror}.") from None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One process at a time, by a lock that ends with its process; not for ever, if that one stands still."""
        try:
            descriptor = os.open(self.path.with_name(self.path.name + ".lock"), os.O_RDWR | os.O_CREAT, self.mode)
        except OSError as error:
            raise StoreError(f"the witness {self.path} cannot be written: {error.strerror}.") from None
        try:
            deadline = time.monotonic() + PATIENCE
            while not lock_alone(descriptor, wait=False):
                if time.monotonic() >= deadline:
                    raise StoreBusy("another process is writing to the witness, and does not end: stop it.")
                time.sleep(0.05)
            yield
        finally:
            os.close(descriptor)

    def write(self, seen: Seen) -> None:
        """Remember, durably."""
        told = asdict(replace(seen, witness=self.name))
        told = {name: fact for name, fact in told.items() if fact or name not in ("largest", "restored", "quotas")}
        text = json.dumps(told, sort_keys=True) + "\n"
        try:
            write_file(self.path, text.encode(), mode=self.mode)
        except OSError as error:
            raise StoreError(f"the witness {self.path} cannot be written: {error.strerror}.") from None
