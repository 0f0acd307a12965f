"""Losses over time agree with the recomputed table; ours stay below ε; errors are at an equal guarantee."""

import numpy as np
import pytest

from dpi_research.compare.tables import EPSILON
from dpi_research.experiments.methods import (
    ALGORITHM,
    NAMES,
    list_algorithm_losses,
    list_losses,
    list_own_losses,
    measure_errors,
    sheet,
)
from dpi_research.reproduce.play import SYSTEMS
from dpi_research.reproduce.rows import column, select, value


@pytest.fixture(scope="module")
def course():
    """Losses over 50 slots."""
    others = [row for name in NAMES for row in list_losses(name, 0.5, 50, 2)]
    return [*others, *(row for s in SYSTEMS for row in list_own_losses(s, 50, 2, 0)), *list_algorithm_losses(50, 2)]


@pytest.fixture(scope="module")
def compared():
    """Three slots of the zipf stream, five of the published one."""
    small = measure_errors("drift.01", 0.05, None, 3, 0)
    return [*small, *measure_errors("published", 0.05, None, 5, 0), *measure_errors("published", 0.05, 1, 5, 0)]


@pytest.mark.parametrize(
    ("name", "after"), [("binary", 9.101), ("hybrid", 19.16), ("pegasus", 28.48), ("perrier", 9.101), ("tops", 21.89)]
)
def test_losses_are_those_of_the_table(course, name, after):
    """After 50 slots of 0.5 s (`dpi compare --published-tables`); at δ they are no larger, and they only grow."""
    own = select(course, system=name)
    (at,) = select(own, slot=50)
    assert value(at, "pure") == pytest.approx(after, rel=1e-3)
    for row in own:
        assert value(row, "at_delta") <= value(row, "pure")
    assert (np.diff(column(own, "pure")) >= 0).all()


def test_ten_times_the_records_lose_ten_times_as_much():
    """A user with 13.4 records in a slot."""
    few, many = (list_losses("pegasus", seconds, 10, 2) for seconds in (0.5, 5.0))
    assert column(many, "pure") == pytest.approx([10 * loss for loss in column(few, "pure")])


def test_ours_stay_below_epsilon(course):
    """For ever; the ledger gets near."""
    for system in SYSTEMS:
        own = column(select(course, system=system), "pure")
        assert (np.diff(own) >= 0).all()
        assert max(own) <= EPSILON
    assert 0.9 * EPSILON < value(select(course, system="ledger")[-1], "pure") < EPSILON
    assert value(select(course, system=ALGORITHM)[-1], "pure") > EPSILON


def test_errors_are_at_an_equal_guarantee(compared):
    """Nobody loses more than ε = 1; on a zipf stream the boosted mechanisms are far below the uniform guess."""
    assert max(column(compared, "loss")) <= 1
    zipf = {row["system"]: value(row, "kl") for row in select(compared, stream="drift.01")}
    assert zipf["ledger"] < 0.1 * zipf["uniform"]
    assert zipf["converging"] < 0.1 * zipf["uniform"]
    assert zipf["strict"] > 0.9 * zipf["uniform"]


def test_the_sheet_draws_what_there_is(course, compared, tmp_path):
    """All rows, or some of them; of several caps the best is shown."""
    worse = [{**row, "cap": 100, "kl": value(row, "kl") + 1} for row in compared if row["cap"] == 1]
    made = sheet([*course, *compared, *worse])
    for end, (figure, _) in made.figures.items():
        figure.savefig(tmp_path / f"{end}.svg")
        assert (tmp_path / f"{end}.svg").stat().st_size < 150_000
    assert set(made.figures) == {"loss", "error"}
    cells = " ".join(cell for line in made.tables[-1].rows for cell in line)
    assert "(cap 1)" in cells
    assert "(cap 100)" not in cells
    most = max(value(row, "pure") for system in SYSTEMS for row in select(course, system=system))
    assert f"{most:.6f}" in made.found[1]
    assert set(sheet(course).figures) == {"loss"}
    assert set(sheet(compared).figures) == {"error"}
    assert sheet([]).figures == {}
