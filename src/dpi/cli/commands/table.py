"""`dpi table`: releases as rows with intervals, or synthetic rows of one slot. It is made of releases alone."""

from __future__ import annotations

from collections.abc import Mapping
from json import dumps, loads
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from dpi.cli._errors import check_folder
from dpi.cli.options import Begin, Config, End, Json, Rules, Slot, StoreArgument, StreamName, choose_slots
from dpi.cli.output import answer, document
from dpi.cli.output import number as number_text
from dpi.cli.output import table as print_table
from dpi.errors import OptionError, StoreError
from dpi.reader import open
from dpi.release.interval import LEVEL_TEXT
from dpi.release.queries import interval_text
from dpi.release.rows import draw_rows
from dpi.settings.declaration import Setting
from dpi.settings.quality import read_quality

if TYPE_CHECKING:
    import polars as pl

SUFFIXES = (".parquet", ".csv")


def table(
    store: StoreArgument,
    out: Annotated[Path | None, Setting("FILE", "Write a new file: .parquet or .csv.", short="-o")] = None,
    kind: Annotated[str, Setting("KIND", "table, or rows: synthetic rows of one slot.", name="as")] = "table",
    number: Annotated[
        int | None, Setting("N", "Of rows, how many; as many as the released number of users unless given.")
    ] = None,
    slot: Slot = "last",
    begin: Begin = None,
    end: End = None,
    quality: Rules = None,
    stream: StreamName = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Print a row for each slot and value, with 95 % intervals; or write these, or synthetic rows, to a file.

    --quality has rules of what is shown. points=10: no share whose 95 % interval is wider than ± 10 percentage points.
    percent=50: no number of users whose interval is wider than ± 50 % of it. week: where a slot is too noisy, the mean
    of the seven days that end with it. size=20: values of fewer than 20 users are one. A column says why a number is
    not shown.

    With --as rows it draws synthetic rows of one slot, for tools that take rows: STORE-rows.parquet unless --out says
    another file. No row is a user. The intervals are in the file's metadata (key dpi), or beside a CSV file in
    FILE-metadata.json.

    Examples:
      dpi table visits.db
      dpi table visits.db --from 2026-01-01 --to 2026-02-01 -o visits.csv
      dpi table visits.db --quality points=2,percent=50,size=20,week
      dpi table visits.db --as rows --number 10000
    """
    if kind not in ("table", "rows"):
        raise OptionError(f"`--as` must be table or rows. Got {kind!r}.")
    target = out or (Path(Path(store).stem + "-rows.parquet") if kind == "rows" else None)
    if target is not None:
        if target.suffix not in SUFFIXES:
            raise OptionError(f"`--out` must end in .parquet or .csv. Got {str(target)!r}.")
        check_folder(target, "--out")
    with open(store, stream) as opened:
        chosen = choose_slots(opened.under(read_quality(quality)), slot, begin, end)
        if kind == "rows":
            if begin is not None or end is not None or quality is not None:
                raise OptionError("synthetic rows are of one `--slot`, and follow no rules: leave those out.")
            frame, about = draw_rows(chosen.newest, number)
            about = {"stream": opened.name, **about}
        elif number is not None:
            raise OptionError("`number` is for `--as rows`.")
        else:
            frame, about = chosen.table(), {}
    if target is not None:
        _write(frame, target, about)
        what = "synthetic rows" if about else "rows"
        answer(json, {"file": str(target), "rows": frame.height}, f"{target}: {frame.height:,} {what}.")
    elif json:
        document({"rows": loads(frame.write_json())})
    else:
        _print(frame)


def _write(frame: pl.DataFrame, target: Path, about: Mapping[str, object]) -> None:
    """Write a new file, with what is said of it: in a file of Parquet, or beside a text."""
    said = dumps(about, ensure_ascii=False)
    try:
        with target.open("xb") as file:
            if target.suffix == ".parquet":
                frame.write_parquet(file, metadata={"dpi": said} if about else None)
            else:
                frame.write_csv(file)
        if about and target.suffix == ".csv":
            target.with_name(f"{target.name}-metadata.json").write_text(said + "\n", encoding="utf-8")
    except FileExistsError:
        raise OptionError(f"{target} exists already; it is not replaced.") from None
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error.strerror}.") from None


def _print(frame: pl.DataFrame) -> None:
    """Print shares and numbers of users with their intervals, and why some are not shown."""
    rows = []
    for row in frame.iter_rows(named=True):
        cells = [row["start"].isoformat() if row["start"] is not None else row["slot"], row["value"]]
        for name, lower, upper in (("share", "lower", "upper"), ("users", "lower_users", "upper_users")):
            ends = (number_text(row[lower]), number_text(row[upper]), inf if row[upper] is None else row[upper])
            cells += [number_text(row[name]), "–" if row[name] is None else interval_text(*ends)]
        rows.append([*cells, row.get("note") or ""])
    noted = any(row[-1] for row in rows)
    interval = f"{LEVEL_TEXT} interval"
    headings = ["slot", "value", "share", interval, "users", interval, "note"]
    print_table(headings if noted else headings[:-1], rows if noted else [row[:-1] for row in rows], left=2)
