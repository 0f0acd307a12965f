"""What is found of planted anomalies, and how it is counted."""

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from dpi_research.experiments import anomaly
from dpi_research.experiments.anomaly import SHARE, compare_system, sheet
from dpi_research.reproduce.experiment import Value
from dpi_research.reproduce.rows import mean, select
from strategies import few

DAYS, PORTS, USERS = 32, 12, 400
BURSTS = {18: 3, 22: 5, 26: 7, 30: 9}
"""A port to which half of a day's sources turn."""


def attacks(name: str) -> pl.DataFrame:
    """A honeypot whose sources come once each: ports as ever, but for the bursts."""
    assert name == "honeypot"
    rng = np.random.default_rng(7)
    ports = rng.choice(PORTS, (DAYS, USERS), p=np.arange(PORTS, 0, -1) / np.arange(PORTS + 1).sum())
    for day, port in BURSTS.items():
        ports[day, : USERS // 2] = port
    days = [datetime(2013, 3, 3) + timedelta(days=day) for day in range(DAYS)]
    return pl.DataFrame(
        {
            "user": np.arange(DAYS * USERS),
            "timestamp": pl.Series(days).repeat_by(USERS).explode(),
            "value": ports.ravel(),
        }
    )


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Value]]:
    """Of two systems; with DPI_SLOW of both detectors."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(anomaly, "load", attacks)
        return [
            row
            for system, detector, epsilons in (  # the forest, which costs most, with DPI_SLOW
                ("ledger", "hbos", "2 100"),
                ("strict", "hbos", "2 100"),
                ("ledger", "forest", "2"),
            )[: few(2, 3)]
            for row in compare_system("honeypot", DAYS, PORTS, system, detector, epsilons, 0)  # type: ignore[arg-type]
        ]


def test_much_budget_finds_what_the_truth_finds(rows: list[dict[str, Value]]) -> None:
    """Measurements of ε = 100 hardly have noise; choices from a pool of nearly uniform synopses tell nothing."""
    own = select(rows, detector="hbos", form="instantaneous", epsilon=100.0)
    found = {system: mean(own, "recall", system=system) for system in ("ledger", "noisy", "strict")}
    assert found["noisy"] is not None
    assert found["noisy"] > 0.8
    assert found["strict"] is not None
    assert found["strict"] < 0.4
    assert found["ledger"] is not None
    assert found["ledger"] > found["strict"]


def test_sets_of_one_size_have_one_share(rows: list[dict[str, Value]]) -> None:
    """Precision and recall agree but for alerts."""
    for row in rows:
        if row["form"] in ("instantaneous", "accumulative"):
            assert row["precision"] == row["recall"]


@pytest.mark.parametrize("detector", ["hbos", "forest"][: few(1, 2)])
def test_slots_add_up_to_the_whole(rows: list[dict[str, Value]], detector: str) -> None:
    """The cells of all slots are the wanted share, and those found give the share of the whole."""
    own = select(rows, detector=detector, system="ledger", epsilon=2.0)
    sums = {name: sum(int(row[name] or 0) for row in select(own, form="slot")) for name in ("wanted", "found", "both")}
    cells = round(SHARE * (DAYS - 14) * PORTS)  # the first 14 slots are learnt from
    assert sums["wanted"] == sums["found"] == cells
    assert sums["both"] / cells == mean(own, "recall", form="instantaneous")


def test_wanted_are_the_bursts(rows: list[dict[str, Value]]) -> None:
    """The truth's own highest scores lie where something was planted, more than elsewhere."""
    series = select(rows, detector="hbos", system="ledger", form="slot")
    by_slot = {int(row["slot"] or 0): int(row["wanted"] or 0) for row in series}
    assert all(by_slot[day] >= 1 for day in BURSTS)


def test_captures_follow_on_each_other() -> None:
    """Each capture, short or long, has its slots; order and borders are kept."""
    start = datetime(2021, 4, 1)
    first = [start + timedelta(milliseconds=m) for m in range(100)]
    second = [start + timedelta(days=9, seconds=s) for s in range(50)]
    numbers = anomaly.by_capture(pl.DataFrame({"timestamp": first + second}), 5)
    assert np.bincount(numbers).tolist() == [20] * 5 + [10] * 5
    assert (np.diff(numbers) >= 0).all()


@pytest.mark.parametrize("form", [None, "instantaneous"])
def test_any_part_of_the_rows_is_drawn(rows: list[dict[str, Value]], form: str | None, tmp_path: Path) -> None:
    """All rows, or those without slots and alerts."""
    drawn = sheet(rows if form is None else select(rows, form=form))
    for name, (figure, caption) in drawn.figures.items():
        figure.savefig(tmp_path / f"{name}.svg")
        assert caption
    assert len(list(tmp_path.glob("*.svg"))) == len(drawn.figures) == (3 if form is None else 1)
    [line] = drawn.summary
    own = select(rows, detector="hbos", form="instantaneous", epsilon=2.0)
    assert line.ledger == f"{mean(own, 'recall', system='ledger'):.2f}"
    assert line.converging == "–"
