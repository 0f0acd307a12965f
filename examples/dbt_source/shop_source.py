"""A table of releases as a source of dbt: its freshness is checked, and a model makes averages of days.

    python examples/dbt_source/shop_source.py [FOLDER]

It makes two days of a shop that ended this hour, exports the table, and calls dbt if it is installed. A later run adds
the hours since.
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dpi
from dpi import demo

PROJECT = Path(__file__).parent
HOURS = 48
DBT = Path(sys.executable).with_name("dbt")


def export(folder: Path, ended: datetime) -> None:
    """Release the hours up to a time that are not in the store yet, and add them to the table."""
    end = ended.replace(minute=0, second=0, microsecond=0)
    start = find_start(folder / "shop.db") or end - timedelta(hours=HOURS)
    domain, hours = dpi.Categories(demo.PAGES), (end - start) // timedelta(hours=1)
    with dpi.Stream(domain=domain, epsilon=1, slot="1h", start=start, store=folder / "shop.db") as stream:
        assert stream.slots is not None  # noqa: S101 - it has a clock
        first = stream.slots.number(start)
        for hour, visits in enumerate(demo.hourly(hours)):
            if first + hour >= stream.next_slot:
                stream.release(visits["user"], visits["page"])
    words = ["export", str(folder / "shop.db"), str(folder / "shop-table"), "--as", "parquet"]
    subprocess.run([sys.executable, "-m", "dpi", *words], check=True)  # noqa: S603 - our own words


def find_start(store: Path) -> datetime | None:
    """Return where an earlier run began."""
    if not store.exists():
        return None
    with dpi.open(store) as stored:
        return next(iter(stored)).start


def call_dbt(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Call dbt on the project; what it makes lies in the folder."""
    options = ["--project-dir", str(PROJECT), "--profiles-dir", str(PROJECT), "--target-path", str(folder / "target")]
    command = [str(DBT), "--no-use-colors", "--log-path", str(folder), *words, *options]
    environment = os.environ | {"DPI_SHOP": str(folder.absolute()), "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - ours


def main(folder: Path, ended: datetime | None = None) -> list[subprocess.CompletedProcess[str]]:
    """Make the table, then have dbt check its freshness and build the model."""
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.absolute()  # dbt takes paths as from its project
    export(folder, ended or datetime.now(UTC))
    if not DBT.exists():
        print("dbt is not installed (pip install dbt-core dbt-duckdb), so freshness and model are left out.")
        return []
    said = [call_dbt(folder, "source", "freshness"), call_dbt(folder, "build")]
    for each in said:
        print(each.stdout)
    return said


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/dbt_source"))
