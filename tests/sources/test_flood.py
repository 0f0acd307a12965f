"""What one user's flood of events can take: memory that the public domain bounds, and nothing of the others."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpi
from dpi.exact.integers import MOST
from dpi.histogram.grouping import Groups
from played_rows import KEY, grains, play, row_of

SLOTS = dpi.Slots("1m", origin="1970-01-01")
DOMAIN = dpi.Categories(["DE", "FR"])
METHODS = (dpi.histogram.normalise, dpi.histogram.truncate(3, KEY), dpi.histogram.whole_pdf)
_FLOOD = 2_000_000
_PLAY = """
import pathlib, sys
import dpi
stream = dpi.Stream(domain=dpi.Categories(["DE", "FR"]), epsilon=1, slot="1m", budget=dpi.Ledger(per_slot=0.1))
events = dpi.read(sys.argv[1], unit="s")
for number, rows in stream.play(events, 0, 3, memory=1 << 22):
    stream.release_rows(rows, slot=number)
status = pathlib.Path("/proc/self/status").read_text()
print(next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) >> 10)
"""


def write(path: Path, flood: int) -> Path:
    """Events of 1,000 users in three slots, and of one more who sends `flood` different values in the second."""
    others = pl.DataFrame({"user": np.arange(3000) % 1000, "time": np.arange(3000) // 1000 * 60, "value": "DE"})
    values = pl.format("a value of its own that is in no domain, number {}", pl.int_range(flood, eager=True))
    more = pl.select(user=pl.lit(5000), time=pl.lit(60), value=values) if flood else others.clear()
    pl.concat([others, more.cast(others.schema)]).write_csv(path)
    return path


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not report the peak of memory")
def test_a_flood_of_different_values_takes_no_more_memory_than_the_domain_allows(tmp_path: Path) -> None:
    """Millions of different values of one user in one slot fall to `other`, and are one row: the peak stays."""
    few, many = (
        int(
            subprocess.run(
                [sys.executable, "-c", _PLAY, str(write(tmp_path / f"{flood}.csv", flood))],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        )
        for flood in (0, _FLOOD)
    )
    assert many - few < 160  # MiB, for the block that is being read: 80 were seen; all rows would take more than 300


def test_a_flood_leaves_the_others_as_they_were(tmp_path: Path) -> None:
    """One user's flood adds that user's one unit, and no grain of anybody else moves."""
    alone, flooded = (
        [grains(rows, DOMAIN.size) for _, rows in play(file, SLOTS, DOMAIN, 0, 3, memory=1 << 16)]
        for file in (dpi.read(write(tmp_path / f"{flood}.csv", flood), unit="s") for flood in (0, 100_000))
    )
    assert flooded == [alone[0], [*alone[1][:2], alone[1][2] + (1 << 24)], alone[2]]


def test_equal_rows_stay_few_however_often_they_are_written(tmp_path: Path) -> None:
    """A slot that was written in many pieces comes back with a few rows for each user and bin, and all events."""
    frame = pl.DataFrame({"user": ["ada", "bob"] * 50_000, "time": [60] * 100_000, "value": ["DE", "FR"] * 50_000})
    for number in range(8):
        frame.write_parquet(tmp_path / f"{number}.parquet")
    found = dict(play(dpi.read(tmp_path / "*.parquet", unit="s"), SLOTS, DOMAIN, 0, 3, memory=1))
    rows = found[1]
    assert rows.bins.size <= 8
    assert np.bincount(rows.bins, rows.counts).tolist() == [400_000, 400_000]


events = st.lists(
    st.tuples(
        st.sampled_from(["ada", "bob", "7", "8", None]),
        st.integers(0, 599),
        st.sampled_from(["DE", "FR", "IT", "ES", None]),
    ),
    max_size=60,
)


@given(table=events, times=st.integers(1, 5), memory=st.sampled_from([1, 400, 1 << 30]))
def test_merged_rows_give_the_histogram_of_all_rows(table: list[tuple[object, ...]], times: int, memory: int) -> None:
    """Whatever was merged or written, every compression gives the grains that it gives all rows at once."""
    schema = {"user": pl.String, "time": pl.Int64, "value": pl.String}
    frame = pl.DataFrame(table * times, schema=schema, orient="row")
    with tempfile.TemporaryDirectory() as folder:
        for number in range(3):
            frame.write_parquet(f"{folder}/{number}.parquet")
        slots = list(play(dpi.read(f"{folder}/*.parquet", unit="s"), SLOTS, DOMAIN, 0, 10, memory=memory))
    for number, rows in slots:
        here = pl.concat([frame.filter(pl.col("time") // 60 == number)] * 3)
        for method in METHODS:
            expected = dpi.histogram.compress(here["user"], here["value"], DOMAIN, method=method).grains.tolist()
            assert grains(rows, DOMAIN.size, method) == expected


def test_counts_are_cut_and_do_not_overflow() -> None:
    """A number of equal events beyond what is kept is the user's own matter: it adds at most one unit."""
    rows = row_of(["ada", "ada", "ada", "bob"], np.array([0, 0, 1, 1]), np.array([MOST, MOST, MOST, 1]))
    assert grains(rows, 3) == [1 << 23, (1 << 23) + (1 << 24), 0]
    ((_, pairs),) = Groups(row_of(["ada", "ada"], np.array([0, 0]), np.array([MOST, 5])), 1).pairs()
    assert pairs.counts.tolist() == [MOST]
