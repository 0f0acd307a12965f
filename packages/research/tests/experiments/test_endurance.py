"""Windows of a long stream: their means, and what is drawn of them."""

from pathlib import Path

import numpy as np
import pytest

from dpi_research.datasets.generators import published
from dpi_research.experiments import experiment
from dpi_research.experiments.endurance import MEAN, follow_stream, sheet
from dpi_research.reproduce._page import write
from dpi_research.reproduce._running import Outcome, Result
from dpi_research.reproduce.experiment import Value
from dpi_research.reproduce.play import SYSTEMS, System
from dpi_research.reproduce.rows import column, mean, select

BINS, SLOTS, WINDOW = 50, 60, 20
STEPS: dict[System, int] = {"strict": 10, "converging": 5, "ledger": 1}


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Value]]:
    """All systems."""
    return [
        row for system in SYSTEMS for row in follow_stream("published", system, BINS, SLOTS, STEPS[system], WINDOW, 0)
    ]


def test_every_system_has_the_same_windows(rows: list[dict[str, Value]]) -> None:
    """However many of their slots it plays."""
    for system in SYSTEMS:
        assert column(select(rows, system=system), "slot").tolist() == [20, 40, 60]


def test_the_guess_is_computed_in_another_way(rows: list[dict[str, Value]]) -> None:
    """KL of the uniform PDF is ln k minus the entropy; the mean of the slots that were played."""
    for system, step in STEPS.items():
        pdfs = [pdf for _, pdf in published(np.random.default_rng([0, 0]), SLOTS // step, BINS, MEAN)]
        kl = np.array([np.log(BINS) + float(pdf @ np.log(pdf)) for pdf in pdfs])
        own = select(rows, system=system)
        assert column(own, "uniform_kl") == pytest.approx(kl.reshape(3, -1).mean(axis=1))


def test_small_divergence_is_half_of_the_relative_square(rows: list[dict[str, Value]]) -> None:
    """KL ≈ k²·MSE/2 near the uniform PDF: both columns are of the same releases."""
    own = select(rows, system="converging")
    assert column(own, "kl") == pytest.approx(BINS**2 / 2 * column(own, "mse"), rel=0.1)
    assert (column(rows, "milliseconds") > 0).all()


def test_a_series_comes_to_the_guess(rows: list[dict[str, Value]]) -> None:
    """With next to no budget left nothing is distinguished from the uniform PDF, and no noise is taken for data."""
    last = select(rows, system="converging", slot=SLOTS)
    assert mean(last, "kl") == pytest.approx(mean(last, "uniform_kl"), rel=0.2)


def test_the_sheet_is_drawn(rows: list[dict[str, Value]], tmp_path: Path) -> None:
    """One figure; the summary has the first and the last window."""
    write([Outcome(experiment("endurance"), (Result(tuple(rows), 1.0, "0"),), ())], tmp_path, quick=True)
    assert (tmp_path / "endurance-course.svg").is_file()
    [line] = sheet(rows).summary  # of one stream
    kl = column(select(rows, system="ledger"), "kl")
    assert line.ledger == f"{kl[0]:.3g} → {kl[-1]:.3g}"
    assert line.uniform == f"{mean(rows, 'uniform_kl', system='ledger'):.3g}"  # of the most slots


@pytest.mark.parametrize("system", SYSTEMS)
def test_one_system_alone_is_drawn(rows: list[dict[str, Value]], system: System) -> None:
    """The guess stands beside it, whichever it is."""
    made = sheet(select(rows, system=system))
    assert made.summary[0].uniform != "–"
    assert len(made.found) == 1


def test_the_full_form_is_as_long_as_published() -> None:
    """200,000 slots at k = 10,000, of which the ledger plays some in each of the windows."""
    cases = experiment("endurance").cases(False)
    [ledger] = [c for c in cases if c.options["system"] == "ledger" and c.options["stream"] == "published"]
    assert (ledger.options["slots"], ledger.options["bins"]) == (200_000, 10_000)
    for case in cases:
        slots, step, window = (int(case.options[name] or 0) for name in ("slots", "step", "window"))
        assert slots % window == window % step == 0
        assert window >= 10 * step
