"""λ, μ and ζ reach the mechanism and the series; errors are those of the releases."""

import numpy as np
import pytest

import figures
from dpi_research.evaluation import divergence
from dpi_research.experiments import experiment
from dpi_research.experiments.hyperparameters import DEFAULT, cases, measure_errors, open_system, settings
from dpi_research.experiments.hyperparameters import sheet as drawn_sheet
from dpi_research.reproduce.experiment import Value
from dpi_research.reproduce.play import Hyper
from dpi_research.reproduce.streams import RealStream, draw_people
from pandemic import pandemic


@pytest.fixture(scope="module")
def people() -> RealStream:
    """6,000 people in 12 days."""
    return draw_people(pandemic(), 6_000, first=0, days=12)


def test_everybody_drawn_is_a_case_once(people: RealStream) -> None:
    """The sample has the stated size, no id twice, and never more than the table has of a region and day."""
    ids = np.concatenate([users.to_numpy() for users, _ in people.slots])
    assert ids.size == np.unique(ids).size == 6_000
    table = pandemic()["value"].to_numpy().reshape(12, 16)
    counts = np.stack(people.counts)
    assert (counts <= np.maximum(table, 0)).all()


def test_half_days_deal_the_same_people() -> None:
    """Both halves of a day together are the day."""
    whole, halves = (draw_people(pandemic(), 600, first=0, days=12, per_day=parts) for parts in (1, 2))
    assert len(halves.slots) == 24
    for day, counts in enumerate(whole.counts):
        assert np.array_equal(counts, halves.counts[2 * day] + halves.counts[2 * day + 1])


def test_parameters_arrive(people: RealStream) -> None:
    """A setting that does not reach mechanism and series would be a flat line by mistake."""
    for system, name in (("strict", "mu"), ("strict", "lam"), ("spence", "zeta")):
        one, other = (
            open_system(system, people.domain, "10", Hyper(**{**DEFAULT, name: value}), 1).setting
            for value in (0.1, 0.2)
        )
        assert (repr(one.mechanism), repr(one.budget)) != (repr(other.mechanism), repr(other.budget))


@pytest.mark.parametrize("system", ["strict", "spence", "converging", "ledger"])
def test_no_run_spends_more_than_epsilon(people: RealStream, system: str) -> None:
    """And the uniform guess beside it is that of the slots' own PDFs."""
    found = measure_errors(open_system(system, people.domain, "2", Hyper(), 1), people)
    assert 0 < float(found["spent"] or 0) <= 2
    even = np.full(people.domain.size, 1 / people.domain.size)
    expected = np.mean([divergence(pdf, even) for pdf in people.pdfs])
    assert found["uniform_kl"] == pytest.approx(expected)


def test_the_ledger_learns_and_the_strict_mechanism_does_not(people: RealStream) -> None:
    """On a zipf stream of 500 people a slot, ε = 10."""
    ledger = measure_errors(open_system("ledger", people.domain, "10", Hyper(), 1), people)
    strict = measure_errors(open_system("strict", people.domain, "10", Hyper(), 1), people)
    uniform = float(ledger["uniform_kl"] or 0)
    assert float(ledger["kl"] or 0) < uniform / 5
    assert float(strict["kl"] or 0) > uniform * 0.8
    assert float(strict["largest"] or 0) / 80 < 0.05  # no synopsis is favoured by more


def test_one_parameter_is_varied_at_a_time() -> None:
    """Every setting differs from the default in at most one place; all work needs the data."""
    assert all(sum(setting[name] != DEFAULT[name] for name in DEFAULT) <= 1 for setting in settings())
    for quick in (True, False):
        work = cases(quick)
        assert {case.data for case in work} == {"covid19"}
        assert len({case.digest for case in work}) == len(work)


def test_the_sheet_draws_any_part(people: RealStream) -> None:
    """All systems, or the published mechanism alone."""
    rows: list[dict[str, Value]] = []
    for system in ("strict", "spence", "converging", "ledger"):
        for epsilon in ("1", "10") if system == "strict" else ("10",):
            options: dict[str, Value] = {"system": system, **DEFAULT, "epsilon": float(epsilon), "slots": 12,
                                         "people": 6_000, "per_day": 1, "seed": 0}  # fmt: skip
            rows.append({**options, **measure_errors(open_system(system, people.domain, epsilon, Hyper(), 1), people)})
    whole = drawn_sheet(rows)
    figures.drawn(whole)
    figures.drawn(drawn_sheet(rows[:2]))
    assert f"{float(rows[1]['kl'] or 0):.4f}" in " ".join(whole.found)
    assert experiment("hyperparameters").sheet is drawn_sheet
