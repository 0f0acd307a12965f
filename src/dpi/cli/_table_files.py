"""Tidy tables as files: a folder of Parquet with a part for each day, or a Delta table; and their lineage.

All of it is made of releases alone.

A table grows with its stream: the next export adds the slots that were released since. A day is one of the calendar in
the stream's zone. What is there is added to only if its newest day is of the same stream of the same store: rows name
the certificates of their releases. What is decided here is public.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from itertools import chain, groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING

from dpi._version import how_to_install
from dpi.cli._errors import check_folder
from dpi.cli._outfile import TEXT
from dpi.errors import OptionError, StoreError
from dpi.files import draft_of, put, write_file
from dpi.reader import Releases
from dpi.release import Release
from dpi.release.table import tidy
from dpi.report.lineage import make_events, run_id, to_line

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from deltalake import DeltaTable

FILE = "slots.parquet"
"""The file of a day."""
_KEYS = ("slot", "value", "certificate")
"""What tells a row from all others, of this store and of other ones."""


def write_parquet(stored: Releases, target: str) -> int:
    """Add what is new to a folder with a folder for each day; return how many slots that was.

    A day's file appears whole, in the place of one with fewer slots. After a crash the next export goes on.
    """
    import polars as pl

    if "://" in target:
        raise OptionError(f"Parquet is written to a folder of this machine. Got {target!r}.")
    folder, newest, there = Path(target), None, None
    if folder.exists():
        days = sorted(path.name for path in folder.glob("day=*") if (path / FILE).is_file())
        if not days:
            raise OptionError(f"{target} is there and holds no table: name another folder, or move it away.")
        try:
            newest = date.fromisoformat(days[-1].removeprefix("day="))
            there = pl.read_parquet(folder / days[-1] / FILE, hive_partitioning=False)
        except (pl.exceptions.PolarsError, ValueError, OSError):
            raise OptionError(f"{target} holds no table that can be read: nothing is added.") from None
    elif not folder.absolute().parent.is_dir():
        raise OptionError(f"the table must lie in a folder that exists. Got {target!r}.")
    added = 0
    for day, frame, held in _new_days(stored, target, newest, there):
        part = folder / f"day={day.isoformat()}"
        try:
            part.mkdir(parents=True, exist_ok=True)
            frame.write_parquet(draft_of(part / FILE))
            put(draft_of(part / FILE), part / FILE)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise StoreError(f"the table {target} cannot be written: {type(error).__name__}.") from None
        added += frame["slot"].n_unique() - held
    return added


def write_delta(stored: Releases, target: str) -> int:
    """Add what is new to a Delta table, in one commit; return how many slots that was.

    The commit names the newest slot as the version of the transaction `dpi`. So of two exports that add the same slots
    at once, one is refused.
    """
    try:
        import pyarrow as pa
        from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
        from deltalake.exceptions import DeltaError
    except ImportError:
        raise OptionError(f"a Delta table needs deltalake and pyarrow: {how_to_install('delta')}.") from None

    table, newest, there, added = None, None, None, 0
    try:
        if DeltaTable.is_deltatable(target):
            table = DeltaTable(target)
            newest, there = _newest_day(target, table)
        elif "://" not in target and Path(target).exists():
            raise OptionError(f"{target} is there and holds no Delta table: name another folder, or move it away.")
    except (DeltaError, OSError) as error:
        raise StoreError(f"the Delta table {target} cannot be read: {type(error).__name__}.") from None
    new = _new_days(stored, target, newest, there)
    first, extent = next(new, None), stored.extent
    if first is None or extent is None:
        return 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal added
        for day, frame, held in chain([first], new):
            rows = frame.filter(frame["slot"].rank("dense") > held)
            added += rows["slot"].n_unique()
            yield from _with_day(rows, day).to_batches()

    schema = _with_day(tidy([], stored.slots, quality=stored.quality), date(1970, 1, 1)).schema
    try:
        write_deltalake(
            table or target,
            pa.RecordBatchReader.from_batches(schema, batches()),
            mode="append",
            partition_by=["day"],
            commit_properties=CommitProperties(app_transactions=[Transaction("dpi", extent[2])]),
        )
    except (DeltaError, OSError) as error:
        raise StoreError(f"the Delta table {target} cannot be written: {type(error).__name__}.") from None
    return added


def write_lineage(stored: Releases, target: str) -> int:
    """Add the events of new releases to a file of lines; return how many releases that was.

    What is there stays as it was written, by an earlier version too.
    """
    path, lines = Path(target), list[str]()
    if "://" in target or path.suffix not in TEXT:
        raise OptionError(f"events of lineage are written to a file that ends in .ndjson. Got {target!r}.")
    check_folder(path, "FILE")
    slots = stored.slots
    if path.exists():
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    releases, added = iter(stored), 0
    there = [_run_of(line) for line in lines]
    known = [run_id(release) for release in islice(releases, (len(lines) + 1) // 2) for _ in ("START", "COMPLETE")]
    if there != known:
        raise OptionError(f"{target} holds something else than events of this stream: nothing is added.")
    for release in releases:
        lines += map(to_line, make_events(release, slots))
        added += 1
    if added:
        write_file(path, "".join(f"{line}\n" for line in lines).encode(), mode=0o644)
    return added


def _run_of(line: str) -> str | None:
    try:
        return str(json.loads(line)["run"]["runId"])
    except (ValueError, KeyError, TypeError):
        return None


def _new_days(
    stored: Releases, target: str, newest: date | None, there: pl.DataFrame | None
) -> Iterator[tuple[date, pl.DataFrame, int]]:
    """Give the table of each day that has new slots, and how many of its slots are there.

    Refuse a target whose newest day is not the beginning of that day in the store.
    """
    import polars as pl

    slots, first = stored.slots, None
    foreign = OptionError(
        f"{target} holds releases that are not of this stream of this store: nothing is added. Name another folder."
    )
    if there is not None:
        if not set(_KEYS) <= set(there.columns) or there.schema["slot"] != pl.Int64 or there.is_empty():
            raise foreign
        first = int(there["slot"][0])

    def day(pair: tuple[Release, Release | None]) -> date:
        return slots.start(pair[0].slot).date()

    held = "" if there is None or "rules" not in there.columns else str(there["rules"][0])
    if there is not None and held != str(stored.quality or ""):
        raise OptionError(f"{target} was made under other rules ({held or 'none'}): give these, or another folder.")
    shown = groupby(stored.between(first, None).shown(), day)
    days = ((each, tidy(group, slots, quality=stored.quality)) for each, group in shown)
    if newest is not None and there is not None:
        begun, frame = next(days, (None, there))
        if begun != newest or not frame.select(_KEYS).head(there.height).equals(there.select(_KEYS)):
            raise foreign
        if frame.height > there.height:
            yield newest, frame, there["slot"].n_unique()
    for each, frame in days:
        yield each, frame, 0


def _with_day(frame: pl.DataFrame, day: date) -> pa.Table:
    """Return a day's rows with the column that a Delta table is divided by; its times are those of UTC."""
    import polars as pl

    times = [pl.col(name).dt.convert_time_zone("UTC") for name in ("start", "end", "measured_at")]
    return frame.with_columns(*times, pl.lit(day).alias("day")).to_arrow(compat_level=pl.CompatLevel.oldest())


def _newest_day(target: str, table: DeltaTable) -> tuple[date | None, pl.DataFrame | None]:
    """Return the newest day of a Delta table, and its rows in order."""
    import polars as pl

    if table.metadata().partition_columns != ["day"]:
        raise OptionError(f"{target} is a Delta table of another kind: nothing is added. Name another folder.")
    days = [partition["day"] for partition in table.partitions()]
    if not days:
        return None, None
    newest = date.fromisoformat(max(map(str, days)))
    rows = pl.from_arrow(table.to_pyarrow_table(filters=[("day", "=", newest)]))
    assert isinstance(rows, pl.DataFrame)  # noqa: S101 - a table becomes no series
    return newest, rows.sort("slot", maintain_order=True)
