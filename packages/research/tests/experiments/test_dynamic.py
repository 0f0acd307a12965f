"""The nearly uniform stream cannot be distinguished from a guess; the other one can be followed."""

from pathlib import Path

import numpy as np
import pytest

from dpi_research.datasets.generators import published
from dpi_research.experiments import experiment
from dpi_research.experiments.dynamic import BINS, follow_stream, sheet
from dpi_research.reproduce._page import write
from dpi_research.reproduce._running import Outcome, Result
from dpi_research.reproduce.experiment import Value
from dpi_research.reproduce.play import SYSTEMS
from dpi_research.reproduce.rows import column, mean, select

SLOTS, WINDOW = 30, 5


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Value]]:
    """Both streams, all systems at one ε, and all churns of the ledger."""
    settings = [("truth", 0, 0), ("uniform", 0, 0), *((system, 2, 0.05) for system in SYSTEMS)]
    settings += [("ledger", 2, churn) for churn in (0, 1)]
    return [
        row
        for stream in ("published", "zipf")
        for system, epsilon, churn in settings
        for row in follow_stream(stream, system, epsilon, churn, SLOTS, WINDOW, 1_000, 0)  # type: ignore[arg-type]
    ]


def test_windows_are_means_of_their_slots(rows: list[dict[str, Value]]) -> None:
    """The uniform guess, computed in another way: ln k minus the entropy of the slot."""
    data = [pdf for _, pdf in published(np.random.default_rng([0, 0]), SLOTS, BINS, 100)]
    kl = np.array([np.log(BINS) + float(pdf[pdf > 0] @ np.log(pdf[pdf > 0])) for pdf in data])
    own = select(rows, stream="published", system="uniform")
    assert column(own, "kl") == pytest.approx(kl.reshape(-1, WINDOW).mean(axis=1))
    assert column(own, "slot").tolist() == list(range(WINDOW, SLOTS + 1, WINDOW))


def test_medians_and_quartiles_are_those_of_the_last_slot(rows: list[dict[str, Value]]) -> None:
    """The truth's rows are the data's own."""
    *_, (counts, _) = published(np.random.default_rng([0, 0]), SLOTS, BINS, 100)
    last = select(rows, stream="published", system="truth", slot=SLOTS)[0]
    assert last["median"] == pytest.approx(np.median(counts))
    assert last["uq"] == pytest.approx(BINS * np.quantile(counts, 0.75) / counts.sum())
    assert last["kl"] == pytest.approx(0, abs=1e-12)


def test_a_zipf_stream_is_followed(rows: list[dict[str, Value]]) -> None:
    """The boosted mechanism is at least ten times nearer than the guess, the published one no nearer than 10 %."""
    own = select(rows, stream="zipf", churn=0.05)
    guess = mean(rows, "kl", stream="zipf", system="uniform")
    assert guess is not None
    for system in ("converging", "ledger"):
        kl = mean(own, "kl", system=system)
        assert kl is not None
        assert kl < guess / 10
    strict = mean(own, "kl", system="strict")
    assert strict is not None
    assert strict > 0.9 * guess


def test_nobody_loses_more_than_epsilon(rows: list[dict[str, Value]]) -> None:
    """In any row."""
    played = [row for row in rows if row["system"] in SYSTEMS]
    assert column(played, "spent").max() <= 2
    assert column(played, "spent").min() > 0


def test_the_quick_form_has_all_that_the_full_one_has() -> None:
    """Both streams, all systems, all churns; and less of everything else."""
    quick, full = experiment("dynamic").cases(True), experiment("dynamic").cases(False)
    for name in ("stream", "system", "churn"):
        assert {case.options[name] for case in quick} == {case.options[name] for case in full}
    assert len(quick) < len(full)
    assert len({case.digest for case in full}) == len(full)


def test_the_sheet_is_drawn(rows: list[dict[str, Value]], tmp_path: Path) -> None:
    """Three figures, tables with numbers of the rows, a line of the summary for each stream."""
    write([Outcome(experiment("dynamic"), (Result(tuple(rows), 1.0, "0"),), ())], tmp_path, quick=True)
    assert {file.name for file in tmp_path.glob("*.svg")} == {
        f"dynamic-{end}.svg" for end in ("medians", "errors", "spread")
    }
    made = sheet(rows)
    assert len(made.summary) == 2
    assert made.summary[1].ledger == f"{mean(rows, 'kl', stream='zipf', system='ledger', churn=0.05):.3g}"
    [_, churns, *_] = made.tables
    assert [line[0] for line in churns.rows] == ["0%", "5%", "100%"]
    assert len({line[-1] for line in churns.rows}) > 1


@pytest.mark.parametrize("missing", [{"stream": "zipf"}, {"system": "ledger"}, {"system": "uniform"}])
def test_a_part_of_the_rows_is_drawn(rows: list[dict[str, Value]], missing: dict[str, str]) -> None:
    """Cases that are not there leave dashes."""
    [(name, value)] = missing.items()
    assert sheet([row for row in rows if row[name] != value]).figures
