"""The events of some files, as they lie there, slot by slot, or as they arrive."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from dpi.errors import OptionError
from dpi.identity import users as canonical_users
from dpi.integers import Integers
from dpi.slots import Slots
from dpi.sources.follow import Position, follow
from dpi.sources.partition import USER, Partition
from dpi.sources.source import Progress, Source
from dpi.sources.spill import Spill

if TYPE_CHECKING:
    import polars as pl

PathLike = str | os.PathLike[str]


class Batch(NamedTuple):
    """Some events: columns of users, times and values, or of each part of a value by its name."""

    users: pl.Series
    times: pl.Series
    values: pl.Series | dict[str, pl.Series]


@dataclass(frozen=True, repr=False)
class FileEvents:
    """The events in some files. Made by `read`; holds no event itself."""

    path: str
    """What was asked for."""
    user: str
    time: str
    value: str | Mapping[str, str]
    unit: str | None
    sources: tuple[Source, ...] = field(compare=False)
    kinds: Mapping[str, pl.DataType] = field(compare=False)
    """The type of each column of values, the same in all files."""

    def __repr__(self) -> str:
        return f"FileEvents({self.path!r}, user={self.user!r}, time={self.time!r}, value={self.value!r})"

    @property
    def size(self) -> int:
        """Bytes of all files; 0 for standard input, whose end is not known."""
        return sum(source.size for source in self.sources)

    @property
    def _parts(self) -> dict[str, str]:
        """The column of each part of a value; the part of a plain value has no name."""
        return dict(self.value) if isinstance(self.value, Mapping) else {"": self.value}

    @property
    def _names(self) -> list[str]:
        return list(dict.fromkeys([self.user, self.time, *self._parts.values()]))

    def _batch(self, frame: pl.DataFrame) -> Batch:
        values = {part: frame[name] for part, name in self._parts.items()}
        return Batch(frame[self.user], frame[self.time], values.get("", values))

    def batches(self, *, progress: Progress | None = None) -> Iterator[Batch]:
        """All events in the order of the files, some at a time. `progress` is told the bytes read so far."""
        for frame in self._frames(progress):
            yield self._batch(frame)

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
        first: int,
        last: int,
        *,
        memory: int = 1 << 30,
        spill: PathLike | None = None,
        progress: Progress | None = None,
    ) -> Generator[tuple[int, pl.Series, pl.Series | dict[str, pl.Series]], None, None]:
        """Number, users and values of every slot of the public period [first, last), also of one without events.

        The files may be in any order and larger than memory: about `memory` bytes of events are held, the others lie
        encrypted in a temporary folder (inside `spill`, if given), which is gone when the iteration ends or is left.
        One slot has to fit in memory. Events outside the period, with a time that cannot be read or without a user are
        dropped, each by itself. All files are read before the first slot is given, so that a damaged one refuses
        before anything is released.
        """
        if last <= first:
            raise OptionError("`last` must be above `first`.")
        if memory < 1:
            raise OptionError(f"`memory` must be a number of bytes above 0. Got {memory!r}.")
        return self._slots(slots, first, last, memory, spill, progress)

    def _slots(
        self, slots: Slots, first: int, last: int, memory: int, folder: PathLike | None, progress: Progress | None
    ) -> Generator[tuple[int, pl.Series, pl.Series | dict[str, pl.Series]], None, None]:
        import polars as pl

        parts = {part: f"value {part}" for part in self._parts}
        kinds = {parts[part]: self.kinds[name] for part, name in self._parts.items()}
        with Spill(folder) as spill:
            partition = Partition(first, last, memory, spill, pl.DataFrame(schema={USER: pl.String, **kinds}))
            for frame in self._frames(progress):
                values = {parts[part]: frame[name].cast(self.kinds[name]) for part, name in self._parts.items()}
                numbers = slot_numbers(slots, frame[self.time], self.unit)
                partition.add(numbers, {USER: _ids(frame[self.user]), **values})
            for number, table in partition.slots():
                columns = {part: table[name] for part, name in parts.items()}
                yield number, table[USER], columns.get("", columns)

    def follow(
        self,
        *,
        poll: float = 1.0,
        stop: threading.Event | None = None,
        start: Sequence[Position] = (),
    ) -> Iterator[tuple[Batch, tuple[Position, ...]]]:
        """Events as they are appended to CSV or NDJSON files, for ever or until `stop` is set.

        Each batch comes with the positions up to which the files have been read: store them together with what was
        made of the batch, and give them as `start` to go on there. A batch without events comes after every wait of
        `poll` seconds, so that a consumer can look at the clock: slots close by it, also in silence. Standard input
        is followed to its end.
        """
        for frame, positions in follow(self.sources, self.user, self._names, poll, stop, start):
            yield self._batch(frame), positions


def slot_numbers(slots: Slots, times: pl.Series, unit: str | None) -> Integers:
    """Slot numbers of a column of times; texts that are whole numbers of `unit` are read at full speed, exactly."""
    import polars as pl

    if unit is None or times.dtype != pl.String:
        return slots.numbers(times, unit)
    whole = times.cast(pl.Int64, strict=False)
    found = slots.numbers(whole, unit)
    odd = (whole.is_null() & times.is_not_null()).to_numpy()
    if odd.any():
        found = found.copy()
        found[odd] = slots.numbers(times.filter(pl.Series(odd)), unit)
    return found


def _ids(users: pl.Series) -> pl.Series:
    """Canonical ids: integers if the declared type says so, else texts, whatever the rows of this batch hold."""
    import polars as pl

    ids = canonical_users(users)
    small = users.dtype.is_integer() and users.dtype not in (pl.UInt64, pl.Int128, pl.UInt128)
    return ids if small else ids.cast(pl.String)
