"""Averages of data sets of one variance each."""

from pathlib import Path

import numpy as np
import pytest

from dpi_research.experiments import experiment
from dpi_research.experiments.synthetic import (
    BINS,
    EPSILONS,
    ERRORS,
    SLOTS,
    deviations,
    measure_errors,
    normal,
    sheet,
)
from dpi_research.reproduce._page import write
from dpi_research.reproduce._running import Outcome, Result
from dpi_research.reproduce.experiment import Value
from dpi_research.reproduce.play import SYSTEMS
from dpi_research.reproduce.rows import column, mean, select

SIZE = BINS[0]


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Value]]:
    """Two data sets of 1,000 items, six slots, twelve for one of them."""
    played = [("uniform", 0, 0), *((system, epsilon, 0.05) for system in SYSTEMS for epsilon in (2, 100))]
    played.append(("ledger", 100, 1))
    short = [measure_errors(*case, 0, 2, 6, 6) for case in _with_size(played)]  # type: ignore[arg-type]
    long = [measure_errors(*case, 0, 1, 9, 12) for case in _with_size(played) if case[2] != 100]  # type: ignore[arg-type]
    return [row for part in (*short, *long) for row in part]


def _with_size(played: list[tuple[str, float, float]]) -> list[tuple[str, int, float, float]]:
    return [(system, SIZE, epsilon, churn) for system, epsilon, churn in played]


def test_the_published_data_sets() -> None:
    """Variances 1, 4, 9 … 100, and counts that have them."""
    assert [deviation**2 for deviation in deviations(10)] == [1, 4, 9, 16, 25, 36, 49, 64, 81, 100]
    [(counts, pdf)] = normal(np.random.default_rng(0), 1, 10_000, 7)
    assert counts.mean() == pytest.approx(1_000, abs=7 * 5 / 100)  # five standard errors
    assert counts.var() == pytest.approx(49 + 1 / 12, rel=5 * np.sqrt(2 / 10_000))
    assert pdf.sum() == pytest.approx(1)


def test_the_uniform_guess_errs_by_the_variance(rows: list[dict[str, Value]]) -> None:
    """MSE = σ²/(k·mean)² and KL = σ²/(2·mean²) to first order; rounding adds 1/12 to the variance."""
    for variance in (1, 100):
        whole = variance + 1 / 12
        where = {"system": "uniform", "variance": variance, "slots": 6}
        assert mean(rows, "mse", **where) == pytest.approx(whole / (SIZE * 1_000) ** 2, rel=0.1)
        assert mean(rows, "kl", **where) == pytest.approx(whole / 2e6, rel=0.1)


def test_accumulative_errors_shrink_with_the_slots(rows: list[dict[str, Value]]) -> None:
    """The sum of t slots has 1/t of the relative variance: over six slots the mean is H₆/6."""
    own = select(rows, system="uniform", slots=6)
    share = sum(1 / slot for slot in range(1, 7)) / 6
    assert column(own, "accumulated_kl") == pytest.approx(column(own, "kl") * share, rel=0.15)


def test_the_same_data_for_every_length(rows: list[dict[str, Value]]) -> None:
    """However long a data set is played, and with how many others, its first slots are the same."""
    first, *_ = measure_errors("uniform", SIZE, 0, 0, 0, 2, 6, 12)
    assert first["kl"] == mean(rows, "kl", system="uniform", variance=1, slots=6)
    *_, last = measure_errors("uniform", SIZE, 0, 0, 0, 1, 6, 12)
    assert last["kl"] == mean(rows, "kl", system="uniform", variance=25, slots=12)


def test_a_large_budget_tells_a_slot_from_the_guess(rows: list[dict[str, Value]]) -> None:
    """At ε = 100 the boosted mechanism sees deviations of 10 if everybody pays; at none the published one.

    Deviations of a slot that are foretold by none are seen in those who pay in it alone: with the ledger everybody does
    where all are newcomers, and at a churn of 5 % a sample does.
    """
    own = select(rows, variance=100, slots=6)
    guess = mean(own, "kl", system="uniform")
    assert guess is not None
    for system, churn in (("converging", 0.05), ("ledger", 1)):
        kl = mean(own, "kl", system=system, epsilon=100, churn=churn)
        assert kl is not None
        assert kl < guess / 2
    strict = mean(own, "kl", system="strict", epsilon=100)
    assert strict is not None
    assert strict > guess


def test_the_plan_has_every_data_set_and_epsilon() -> None:
    """Every ε, two sizes, all systems; more slots for some; no case twice."""
    full = experiment("synthetic").cases(False)
    first = [case.options for case in full if case.options["repeat"] == 0 and case.options["datasets"] == 10]
    pairs = {(o["system"], o["bins"], o["epsilon"]) for o in first if o["churn"] == 0.05}
    assert len(pairs) == len(SYSTEMS) * 2 * len(EPSILONS)
    assert max(int(case.options["slots"] or 0) for case in full) == SLOTS
    assert len({case.digest for case in full}) == len(full)
    assert {case.options["system"] for case in experiment("synthetic").cases(True)} == {"uniform", *SYSTEMS}


def test_the_sheet_is_drawn(rows: list[dict[str, Value]], tmp_path: Path) -> None:
    """Two figures; the table of lengths has the means of the rows."""
    write([Outcome(experiment("synthetic"), (Result(tuple(rows), 1.0, "0"),), ())], tmp_path, quick=True)
    assert {file.name for file in tmp_path.glob("*.svg")} == {
        "synthetic-accumulative.svg",
        "synthetic-instantaneous.svg",
    }
    *_, lengths = sheet(rows).tables
    assert lengths.columns[3:] == ("6 slots", "9 slots", "12 slots")
    line = next(line for line in lengths.rows if line[1:3] == (ERRORS["kl"], "uniform guess"))
    assert line[-1] == f"{mean(rows, 'kl', system='uniform', slots=12):.3g}"


@pytest.mark.parametrize("missing", ["uniform", "strict", "ledger"])
def test_a_part_of_the_rows_is_drawn(rows: list[dict[str, Value]], missing: str) -> None:
    """Cases that are not there leave dashes."""
    assert sheet([row for row in rows if row["system"] != missing]).figures
