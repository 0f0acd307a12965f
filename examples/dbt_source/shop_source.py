"""A table of releases as a source of dbt: its freshness is checked, and a model makes averages of days.

    python examples/dbt_source/shop_source.py [FOLDER]

It makes two days of a shop that ended this hour, exports the table, and calls dbt.
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


def export(folder: Path, ended: datetime) -> None:
    """Release hours up to a time, and add them to the table."""
    start = ended.replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS)
    domain = dpi.Categories(demo.PAGES)
    with dpi.Stream(domain=domain, epsilon=1, slot="1h", start=start, store=folder / "shop.db") as stream:
        for visits in demo.hourly(HOURS):
            stream.release(visits["user"], visits["page"])
    words = ["export", str(folder / "shop.db"), str(folder / "shop-table"), "--as", "parquet"]
    subprocess.run([sys.executable, "-m", "dpi", *words], check=True)  # noqa: S603 - our own words


def call_dbt(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Call dbt on the project; what it makes lies in the folder."""
    program = Path(sys.executable).with_name("dbt")
    options = ["--project-dir", str(PROJECT), "--profiles-dir", str(PROJECT), "--target-path", str(folder / "target")]
    command = [str(program), "--no-use-colors", "--log-path", str(folder), *words, *options]
    environment = os.environ | {"DPI_SHOP": str(folder.absolute()), "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - ours


def main(folder: Path, ended: datetime | None = None) -> list[subprocess.CompletedProcess[str]]:
    """Make the table, then have dbt check its freshness and build the model."""
    folder.mkdir(parents=True)
    folder = folder.absolute()  # dbt takes paths as from its project
    export(folder, ended or datetime.now(UTC))
    said = [call_dbt(folder, "source", "freshness"), call_dbt(folder, "build")]
    for each in said:
        print(each.stdout)
    return said


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/dbt_source"))
