"""Data sets are counted as they are; what is not there is left out."""

import os

import numpy as np
import polars as pl
import pytest

from dpi_research.datasets import DATASETS
from dpi_research.experiments import datasets
from dpi_research.experiments.datasets import MADE_UP, PRINTED, USES, cases, measure_made_up, measure_set, sheet
from dpi_research.reproduce.rows import select, value


def test_every_data_set_has_a_use():
    """None is forgotten, and the quick form is the full one."""
    assert set(USES) == set(DATASETS)
    assert [case.options for case in cases(True)] == [case.options for case in cases(False)]
    assert {case.data for case in cases(True)} == {*DATASETS, None}


def test_users_are_counted_by_slots():
    """Slots of a user, not records; in a table of counts everybody is another person."""
    table = pl.DataFrame({"user": ["a", "a", "a", "b"], "slot": [1, 1, 2, 2], "records": [1, 1, 1, 1]})
    assert datasets._slots_of_a_user(table) == {2: 1, 1: 1}
    assert datasets._slots_of_a_user(table.with_columns(records=pl.lit(3))) == {1: 12}


def test_published_streams_are_flat():
    """KL from uniform of counts N(m, σ²) is about E[σ²]/(2m²), σ² of 1, 4 … 100: 38.5/2/100² at k = 100."""
    (row,) = measure_made_up("published, k = 10,000, long", 0)
    variances = []  # of the slots that were measured
    rng = np.random.default_rng(0)
    for _ in range(datasets.MEASURED):
        deviation = rng.integers(1, 11)
        variances.append(deviation**2)
        rng.normal(100, deviation, 10_000)
    assert value(row, "uniform_kl") == pytest.approx(np.mean(variances) / 2 / 100**2, rel=0.05)
    (zipf,) = measure_made_up("zipf with drift", 0)
    assert value(zipf, "uniform_kl") > 1


def test_the_sheet_works_without_data(tmp_path):
    """Printed numbers and made-up streams are there; with one data set, so is its figure."""
    rows = [row for name in MADE_UP for row in measure_made_up(name, 0)][:2]
    made = sheet(rows)
    assert len(made.tables) == 2
    assert f"{PRINTED[0][1]:,}" in made.tables[0].rows[0]
    assert sheet([]).figures == {}
    seen = [{"kind": "seen", "name": "x", "slots": s, "share": 1 / s} for s in (1, 2, 4)]
    made = sheet([*rows, *seen])
    made.figures["users"][0].savefig(tmp_path / "users.svg")
    assert (tmp_path / "users.svg").stat().st_size < 150_000
    assert "50%" in made.found[0]


@pytest.mark.skipif(
    "DPI_TEST_DATA" not in os.environ, reason="set DPI_TEST_DATA to a folder with the data sets (docs/published.md)"
)
def test_real_data_sets(monkeypatch):
    """Numbers that can be counted in another way; shares fall."""
    monkeypatch.setenv("DPI_DATA", os.environ["DPI_TEST_DATA"])
    rows = measure_set("flights")
    (flights,) = select(rows, kind="real")
    assert (flights["users"], flights["slots"]) == (4_043, 53)
    shares = [value(row, "share") for row in select(rows, kind="seen")]
    assert shares[0] == 1
    assert shares == sorted(shares, reverse=True)
    (people,) = select(measure_set("covid19"), kind="real")
    assert people["users"] == people["records"]
    assert people["slots"] == 540
