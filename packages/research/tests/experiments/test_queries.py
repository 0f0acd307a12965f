"""Sums and means: errors that can be computed by hand, totals that are paid for."""

from pathlib import Path

import numpy as np
import pytest

import figures
from dpi_research.experiments.queries import GIVEN, Answers, ask, cases, open_system
from dpi_research.experiments.queries import sheet as drawn_sheet
from dpi_research.reproduce.experiment import Value
from dpi_research.reproduce.play import SYSTEMS, System
from dpi_research.reproduce.streams import RealStream, draw_people
from pandemic import pandemic


@pytest.fixture(scope="module")
def people() -> RealStream:
    """6,000 people in 12 days."""
    return draw_people(pandemic(), 6_000, first=0, days=12)


def test_errors_by_hand() -> None:
    """Two bins, two slots: the sum by the slot's release, the mean by all so far."""
    answers = Answers(2)
    half = np.array([0.5, 0.5])
    answers.add(np.array([3, 1]), half, half, 4.0)  # answers 2, 2 to 3, 1
    answers.add(np.array([0, 4]), half, half, 8.0)  # answers 4, 4 to 0, 4; mean 3, 3 to 1.5, 2.5
    found = answers.errors("ledger")["ledger"].whole()
    assert found["sum"] == pytest.approx((1 + 1 + 16 + 0) / (9 + 1 + 0 + 16))
    assert found["sum_scaled"] == pytest.approx((2 / 2 / 9 + 16 / 2 / 16) / 2)
    assert found["mean"] == pytest.approx((1 + 1 + 2.25 + 0.25) / (9 + 1 + 2.25 + 6.25))


def test_a_perfect_answer_has_no_error_and_an_empty_slot_none_at_all() -> None:
    """Slots without people are left out of the errors, not of the mean."""
    answers = Answers(2)
    answers.add(np.array([3, 1]), np.array([0.75, 0.25]), np.array([0.75, 0.25]), 4.0)
    answers.add(np.array([0, 0]), np.array([0.5, 0.5]), np.array([0.75, 0.25]), 0.0)
    whole = answers.errors("ledger")["ledger"]
    assert whole.slots == [1]
    assert set(whole.whole().values()) == {0.0}


@pytest.mark.parametrize("system", SYSTEMS)
def test_totals_are_bought(people: RealStream, system: System) -> None:
    """Every system, the strict one too, releases a total of its own."""
    stream = open_system(system, people.domain, "10", 1)
    assert np.isfinite(stream.release(*people.slots[0]).total)


def test_the_ledger_answers_and_the_sheet_draws(people: RealStream, tmp_path: Path) -> None:
    """ε = 2: the ledger is better than a uniform guess that knows the total; its points are drawn."""
    rows: list[dict[str, Value]] = []
    for system in SYSTEMS:
        shared: dict[str, Value] = {"people": 6_000, "epsilon": 2.0, "seed": 0}
        for name, errors in ask(open_system(system, people.domain, "2", 1), people).errors(system).items():
            rows.append({"system": name, **shared, "slot": None, **errors.whole()})
            rows += [{"system": name, **shared, **point} for point in errors.thinned()]
    whole = {str(row["system"]): float(row["sum"] or 0) for row in rows if row["slot"] is None}
    assert whole["ledger"] < whole["uniform"] / 3
    assert whole[GIVEN] > whole["uniform"] / 2
    sheets = drawn_sheet(rows), drawn_sheet([row for row in rows if row["system"] == "ledger"])
    figures.saved(sheets[0], tmp_path)
    figures.drawn(sheets[1])
    for sheet in sheets:
        assert sheet.summary[0].ledger.endswith(f"{whole['ledger']:.2g}")
    assert len({case.digest for case in cases(False)}) == 9
