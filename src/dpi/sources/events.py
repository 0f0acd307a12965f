"""The events of some files, as they lie there, slot by slot, or as they arrive."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dpi.domain.overlap import by_slot
from dpi.errors import OptionError
from dpi.sources.admission import Admission, Events
from dpi.sources.followed import Batch, FollowedEvents
from dpi.sources.growing import GrowingFile, input_name
from dpi.sources.inputs import is_packed
from dpi.sources.live import Done, LiveInput, Reach
from dpi.sources.slot_sorter import SlotSorter
from dpi.sources.source import EventFile, PlayedSlots, Progress
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
        admission: Admission,
        *,
        memory: int = 1 << 30,
        spill: PathLike | None = None,
        progress: Progress | None = None,
    ) -> PlayedSlots:
        """Number and rows of every slot of the admission's period, also of one without events.

        The files may be in any order and larger than memory: about `memory` bytes of rows are held, the others lie
        encrypted in a temporary folder (inside `spill`, if given), which is gone when the iteration ends or is left.
        The different (account, bin) pairs of one slot have to fit in memory; equal ones are made one row, so that no
        user takes more of it than the domain has bins, however many events they send. Events outside the period, with
        a time that cannot be read, without a user or a bin are dropped, each by itself. All files are read before the
        first slot is given, so that a damaged one refuses before anything is released.
        """
        first, last = admission.first, admission.last
        if last is None or last <= first:
            raise OptionError("`last` must be above `first`.")
        if memory < 1:
            raise OptionError(f"`memory` must be a number of bytes above 0. Got {memory!r}.")
        domains = by_slot(admission.domain).since(first, last)
        for _, each in domains.entries:
            each.encode(self._values(self._empty()))  # refuses a type that it cannot take, before any row is read
        bins = max(domain.size for _, domain in domains.entries)
        return self._slots(admission, SlotSorter(first, last, bins, memory, Spill(spill)), progress)

    def _slots(self, admission: Admission, sorter: SlotSorter, progress: Progress | None) -> PlayedSlots:
        with sorter.spill:
            for batch in self.batches(progress=progress):
                sorter.add(admission.admit(Events(*batch, self.unit)))
            yield from sorter.slots()

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
