"""What two examples do with real attacks, on a small made-up file in the publisher's format, and the real one."""

import os
import re
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import polars as pl
import pytest

pytestmark = pytest.mark.skipif(  # it takes seconds to import, and whoever collects tests need not
    find_spec("sklearn") is None, reason="the tutorial needs scikit-learn (the extra apps)"
)

EXAMPLES = Path(__file__).parents[2] / "examples"


def made_attacks():
    """A hundred addresses a day and, on one day, a thousand that all want port 5060."""
    rng = np.random.default_rng(1)
    ports = rng.choice([22, 80, 445, 1433, 3389], 18_800, p=[0.1, 0.1, 0.3, 0.3, 0.2])
    day = np.repeat(np.arange(188), 100)
    day, ports = np.append(day, [120] * 1000), np.append(ports, [5060] * 1000)
    hosts = ["groucho-eu", "groucho-oregon", "groucho-singapore", "groucho-tokyo"]
    return pl.DataFrame(
        {
            "datetime": [f"{datetime(2013, 3, 4, 12) + timedelta(days=int(d)):%Y-%m-%d %H:%M:%S}" for d in day],
            "host": rng.choice(hosts, day.size), "proto": "TCP", "type": None, "spt": 6000, "dpt": ports,
            "srcstr": [f"10.{n // 65536}.{n // 256 % 256}.{n % 256}" for n in range(day.size)],
        }
    )  # fmt: skip


def real_attacks():
    """The stored stream, written as its publisher does."""
    table = pl.read_parquet(Path(os.environ["DPI_TEST_DATA"]) / "network_aws_honeypot.parquet")
    return table.rename({"timestamp": "datetime", "user": "srcstr", "value": "dpt"}).with_columns(
        pl.col("datetime").dt.strftime("%Y-%m-%d %H:%M:%S")
    )


def tutorial(folder, monkeypatch, capsys, attacks):
    """What each of the examples prints."""
    monkeypatch.chdir(folder)
    attacks.write_csv("marx-geo.csv")
    names: dict[str, object] = {}
    printed = []
    for name in ("honeypot_alerts", "recommender"):
        (block,) = re.findall(r"```python\n(.*?)```", (EXAMPLES / name / "README.md").read_text(), flags=re.DOTALL)
        exec(block, names)  # noqa: S102 - our own documentation
        printed.append(capsys.readouterr().out)
    return printed


def test_the_tutorial_runs(tmp_path, monkeypatch, capsys):
    """Both run as written; the day of the flood has an alert; every host has five recommendations."""
    alerts, recommended = tutorial(tmp_path, monkeypatch, capsys, made_attacks())
    assert "2013-07-02 5060" in alerts
    assert len(recommended.splitlines()) == 4


@pytest.mark.skipif(
    "DPI_TEST_DATA" not in os.environ, reason="set DPI_TEST_DATA to a folder with the data sets (docs/published.md)"
)
def test_the_tutorial_runs_on_real_data(tmp_path, monkeypatch, capsys):
    """On the real files, with `-s` to see what they print."""
    printed = tutorial(tmp_path, monkeypatch, capsys, real_attacks())
    assert all(printed)
    with capsys.disabled():
        print("", *printed, sep="\n")
