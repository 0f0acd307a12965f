"""The events of some files, as they lie there, slot by slot, or as they arrive."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from dpi.domain import Domain
from dpi.domain.overlap import Domains, by_slot, encode
from dpi.errors import OptionError
from dpi.events.identity import users as canonical_users
from dpi.events.slots import Slots
from dpi.options.schedule import Schedule
from dpi.sources.followed import Batch, FollowedEvents
from dpi.sources.growing import GrowingFile, input_name
from dpi.sources.inputs import is_packed
from dpi.sources.live import Done, LiveInput, Reach
from dpi.sources.slot_sorter import BIN, COUNT, USER, SlotSorter
from dpi.sources.source import EventFile, PlayedSlots, Progress, SlotRows
from dpi.sources.spill import Spill
from dpi.sources.spool import Spool
from dpi.sources.textual import Textual

if TYPE_CHECKING:
    import polars as pl

PathLike = str | os.PathLike[str]


@dataclass(frozen=True, repr=False)
class FileEvents(FollowedEvents):
    r"""The events in some files. Made by `read`; holds no event itself.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import dpi
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "events.csv").write_text("user,time,value\nada,2026-01-01T01:30,DE\n")
    ...     events = dpi.read(f"{folder}/events.csv")
    ...     events.size, [batch.values.to_list() for batch in events.batches()]
    (40, [['DE']])
    """

    path: str
    """What was asked for."""
    user: str
    time: str
    value: str | Mapping[str, str]
    unit: str | None
    sources: tuple[EventFile, ...] = field(compare=False)
    kinds: Mapping[str, pl.DataType] = field(compare=False)
    """The type of each column of values, the same in all files."""
    arrived: str | None = None
    """The column that says when an event reached the input, if there is one."""

    def __repr__(self) -> str:
        return f"FileEvents({self.path!r}, user={self.user!r}, time={self.time!r}, value={self.value!r})"

    @property
    def size(self) -> int:
        """Bytes of all files; 0 for standard input, whose end is not known."""
        return sum(source.size for source in self.sources)

    def _empty(self) -> pl.DataFrame:
        import polars as pl

        return pl.DataFrame(schema=dict(self.kinds))

    def pieces(self) -> list[FileEvents]:
        """The same events in pieces for several processes; none, if a file must be read from its beginning."""
        pieces = [source.pieces() for source in self.sources]
        return [replace(self, sources=(piece,)) for each in pieces for piece in each] if all(pieces) else []

    def batches(self, *, progress: Progress | None = None) -> Iterator[Batch]:
        """All events in the order of the files, some at a time. `progress` is told the bytes read so far."""
        for frame in self._frames(progress):
            yield self.batch(frame)

    def _frames(self, progress: Progress | None) -> Iterator[pl.DataFrame]:
        before = 0

        def tell(done: int) -> None:
            if progress is not None:
                progress(before + done)

        for source in self.sources:
            for frame in source.frames(self.user, self._names, tell):
                yield frame.rechunk()  # what follows is many times slower on columns in pieces
            before += source.size

    def slots(
        self,
        slots: Slots,
        domain: Domains,
        first: int,
        last: int,
        *,
        memory: int = 1 << 30,
        spill: PathLike | None = None,
        progress: Progress | None = None,
    ) -> PlayedSlots:
        """Number and rows of every slot of the public period [first, last), also of one without events.

        A slot's rows are its events by the bins of `domain`: users, bins, and how many events each row stands for.
        Where the domain changes within the period, `domain` has them by slot (`Stream.domains`).
        The files may be in any order and larger than memory: about `memory` bytes of rows are held, the others lie
        encrypted in a temporary folder (inside `spill`, if given), which is gone when the iteration ends or is left.
        The different (user, bin) pairs of one slot have to fit in memory; equal ones are made one row, so that no
        user takes more of it than the domain has bins, however many events they send. Events outside the period, with
        a time that cannot be read, without a user or a bin are dropped, each by itself. All files are read before the
        first slot is given, so that a damaged one refuses before anything is released.
        """
        if last <= first:
            raise OptionError("`last` must be above `first`.")
        if memory < 1:
            raise OptionError(f"`memory` must be a number of bytes above 0. Got {memory!r}.")
        domains = by_slot(domain).since(first, last)
        for _, each in domains.entries:
            each.encode(self._values(self._empty()))  # refuses a type that it cannot take, before any row is read
        return self._slots(slots, domains, first, last, memory, spill, progress)

    def _slots(
        self,
        slots: Slots,
        domains: Schedule[Domain],
        first: int,
        last: int,
        memory: int,
        folder: PathLike | None,
        progress: Progress | None,
    ) -> PlayedSlots:
        import polars as pl

        with Spill(folder) as spill:
            partition = SlotSorter(first, last, max(domain.size for _, domain in domains.entries), memory, spill)
            for frame in self._frames(progress):
                numbers, users = slots.numbers(frame[self.time], self.unit), _ids(frame[self.user])
                # Values of other rows are not looked at: a domain may hold what it has seen (`dpi.discovery.seen`).
                inside = (numbers >= first) & (numbers < last) & users.is_not_null().to_numpy()
                if not inside.all():
                    kept = pl.Series(inside)
                    numbers, users, frame = numbers[inside], users.filter(kept), frame.filter(kept)
                partition.add(numbers, users, encode(domains, numbers, self._values(frame)))
            for number, table in partition.slots():
                bins, counts = (table[name].to_numpy().astype(np.int64) for name in (BIN, COUNT))
                yield number, SlotRows(table[USER], bins, counts, domains.at(number))

    def live(self, done: Done, known: Mapping[str, tuple[Reach, ...]]) -> list[LiveInput]:
        """The files as inputs that grow: CSV or NDJSON, not compressed; or standard input, by itself.

        `done` tells what is stored of a producer, `known` how far each input had got when that was noted last.
        """
        inputs: list[LiveInput] = []
        seen = set[str]()  # a file and a link to it are one input
        for source in self.sources:
            if not isinstance(source, Textual) or is_packed(source.path):
                raise OptionError("only CSV and NDJSON files that are not compressed can be followed.")
            if source.input is not None:
                if len(self.sources) > 1:
                    raise OptionError("standard input is followed by itself, without files.")
                inputs.append(Spool(source, source.input, self.user, self._names, done))
            elif os.path.realpath(source.path) not in seen:
                seen.add(os.path.realpath(source.path))
                inputs.append(GrowingFile(source, self.user, self._names, done, known.get(input_name(source.path), ())))
        return inputs


def _ids(users: pl.Series) -> pl.Series:
    """Canonical ids: integers if the declared type says so, else texts, whatever the rows of this batch hold.

    By the first rule: which of them are one user is for the store to say, whose rule that is.
    """
    import polars as pl

    ids = canonical_users(users, rule=1)
    small = users.dtype.is_integer() and users.dtype not in (pl.UInt64, pl.Int128, pl.UInt128)
    return ids if small else ids.cast(pl.String)
