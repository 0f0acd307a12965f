"""A shop's pages, released once a day by Airflow.

    python examples/airflow_dag/shop_dag.py [FOLDER]

makes visits and lets Airflow run the DAG for two days, with a database of its own in FOLDER. In a deployment this
file and `release_operator.py` lie in the folder of DAGs, and `DPI_SHOP` is a disk that the workers share.
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, timedelta
from pathlib import Path

import polars as pl
from airflow.sdk import DAG, CronDataIntervalTimetable

from dpi import demo
from release_operator import DpiReleaseOperator

START = demo.START.replace(tzinfo=UTC)
FOLDER = Path(os.environ.get("DPI_SHOP", "out/airflow_dag")).absolute()

with DAG(
    "shop",
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),  # a run has the interval of one slot
    start_date=START,
    catchup=True,
    max_active_runs=1,  # slots are released in their order, by one process at a time
) as dag:
    release = DpiReleaseOperator(
        task_id="release", config=str(FOLDER / "dpi.toml"), store=str(FOLDER / "shop.db"), depends_on_past=True
    )


def make(folder: Path, days: int) -> None:
    """Write made-up visits, the list of pages, and the options of the stream."""
    folder.mkdir(parents=True, exist_ok=True)
    pl.concat(demo.hourly(24 * days)).write_parquet(folder / "visits.parquet")
    (folder / "pages.txt").write_text("\n".join(demo.PAGES) + "\n", "utf-8")
    options = {
        "files": [str(folder / "visits.parquet")], "time": "at", "value": "page", "domain": str(folder / "pages.txt"),
        "slot": "1d", "from": START.date().isoformat(), "epsilon": 1, "store": str(folder / "shop.db"),
    }  # fmt: skip
    lines = [f"{name} = {value!r}\n" for name, value in options.items()]
    (folder / "dpi.toml").write_text("[run]\n" + "".join(lines), "utf-8")


def main(folder: Path, days: int = 2) -> None:
    """Have Airflow run the DAG at the end of each day, as its scheduler does."""
    folder = folder.absolute()
    make(folder, days)
    program = str(Path(sys.executable).with_name("airflow"))
    own = {
        "AIRFLOW_HOME": str(folder / "airflow"), "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(Path(__file__).parent.absolute()), "DPI_SHOP": str(folder),
    }  # fmt: skip
    ends = [(START + timedelta(days=day + 1)).date().isoformat() for day in range(days)]
    for words in (["db", "migrate"], *(["dags", "test", "shop", end] for end in ends)):
        subprocess.run([program, *words], env=os.environ | own, check=True)  # noqa: S603 - our own words


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/airflow_dag"))
