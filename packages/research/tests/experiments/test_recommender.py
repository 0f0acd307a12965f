"""What is found of planted tastes, and how it is counted."""

from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from dpi.domain import Categories, Product
from dpi.release.queries import Distribution
from dpi_research.experiments import recommender
from dpi_research.experiments.recommender import BEST, cluster_groups, compare_system, measure_lists, sheet, stream_of
from dpi_research.reproduce.experiment import Value
from dpi_research.reproduce.rows import mean, select

COUNTRIES, PRODUCTS, MONTHS, CUSTOMERS = 4, 40, 4, 8_000


@cache
def shop(name: str) -> pl.DataFrame:
    """Customers who come once; each country likes ten products of its own most, in an order of its own."""
    assert name == "retail"
    rng = np.random.default_rng(11)
    likes = np.full((COUNTRIES, PRODUCTS), 0.2)
    for country in range(COUNTRIES):
        likes[country, country * BEST : (country + 1) * BEST] = np.linspace(12, 6, BEST)
    likes /= likes.sum(axis=1, keepdims=True)
    countries = rng.integers(COUNTRIES, size=MONTHS * CUSTOMERS)
    products = [int(rng.choice(PRODUCTS, p=likes[country])) for country in countries]
    starts = [datetime(2010, 1, 1) + timedelta(days=28 * (i // CUSTOMERS)) for i in range(len(products))]
    return pl.DataFrame(
        {
            "user": np.arange(len(products)),
            "timestamp": starts,
            "value": [f"product {p}" for p in products],
            "country": [f"country {c}" for c in countries],
        }
    )


def harvest(name: str) -> pl.DataFrame:
    """Two series of three years; one amount is zero."""
    assert name == "psd"
    return pl.DataFrame(
        {
            "user": ["x|Rice|Imports"] * 3 + ["y|Rice|Exports"] * 3,
            "timestamp": [1960, 1961, 1962] * 2,
            "value": [1.0, 2.0, 3.0, 0.0, 5.0, 6.0],
            "country": ["x"] * 3 + ["y"] * 3,
            "commodity": ["Rice"] * 6,
            "attribute": ["Imports"] * 3 + ["Exports"] * 3,
        }
    )


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Value]]:
    """Of two systems."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recommender, "load", shop)
        return [
            row
            for system in ("ledger", "strict")
            for row in compare_system("retail", COUNTRIES, PRODUCTS - 1, system, "0.1 2", 0)  # type: ignore[arg-type]
        ]


def test_tastes_are_found_with_the_ledger_and_not_by_chance(rows: list[dict[str, Value]]) -> None:
    """Each taste is a quarter of the items: what is popular, or drawn at random, has no more than a part of it."""
    at = select(rows, algorithm="svd", epsilon=2.0, last=1)
    shares = {system: mean(at, "share", system=system) or 0 for system in ("ledger", "popular", "strict")}
    assert shares["ledger"] > 0.9
    assert shares["popular"] < 0.6
    assert shares["strict"] < 0.6


def test_longer_lists_find_more_and_shorter_ones_are_surer(rows: list[dict[str, Value]]) -> None:
    """Recall of twenty is never below that of ten."""
    for row in rows:
        assert float(row["recall"] or 0) >= float(row["share"] or 0)


def test_popularity_depends_on_the_truth_alone(rows: list[dict[str, Value]]) -> None:
    """Not on ε."""
    at = select(rows, algorithm="svd", last=1, system="popular")
    assert len({row["share"] for row in at}) == 1
    assert len(at) == 2


def test_time_ends_where_the_last_slot_is(rows: list[dict[str, Value]]) -> None:
    """Every slot is there once at the ε that is shown, the last alone at the other."""
    own = select(rows, algorithm="kmeans", system="ledger")
    assert [row["slot"] for row in select(own, epsilon=2.0)] == list(range(1, MONTHS + 1))
    assert [row["slot"] for row in select(own, epsilon=0.1)] == [MONTHS]


def test_groups_of_like_taste_share_their_list() -> None:
    """Two planted clusters: a group gets what its cluster likes, though it has hardly any of it itself."""
    domain = Product(group=Categories(list("abcd"), other=None), item=Categories(["p", "q", "r"], other=None))
    shares = np.array([[8, 1, 0], [7, 2, 0], [0, 1, 8], [0, 2, 7]]) / 36
    lists = cluster_groups(Distribution(domain, shares.ravel(), np.zeros(12)))
    assert lists == [["p", "q", "r"]] * 2 + [["r", "q", "p"]] * 2


def test_precision_and_recall_are_means_over_groups() -> None:
    """Counted by hand: 10 wanted; of the five, ten and twenty first found, 3, 4 and 8."""
    wanted = [[f"w{i}" for i in range(20)]]
    found = [[*(f"w{i}" for i in range(3)), "x", "x2", "w3", *"abcd", *(f"w{i}" for i in range(4, 8)), *"efghij"]]
    assert measure_lists(wanted, found) == {"share": 0.4, "precision": 0.6, "recall": 0.8}


def test_the_unit_of_the_farm_data_is_stated_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """As records all users differ; as series they return; the truth is the same, without zeros."""
    monkeypatch.setattr(recommender, "load", harvest)
    records, series = stream_of("psd", 1, 2), stream_of("psd-series", 1, 2)
    assert [slot.tolist() for slot in records.counts] == [slot.tolist() for slot in series.counts]
    assert [slot.sum() for slot in records.counts] == [1, 2, 2]
    people = [{str(user) for users, _ in real.slots for user in users} for real in (records, series)]
    assert [len(all_of) for all_of in people] == [5, 2]


def test_any_part_of_the_rows_is_drawn(rows: list[dict[str, Value]], tmp_path: Path) -> None:
    """One system and one algorithm are enough; the summary has the rows' own numbers."""
    for part in (rows, select(rows, system="ledger", epsilon=2.0), select(rows, last=1, algorithm="svd")):
        drawn = sheet(part)
        for name, (figure, _) in drawn.figures.items():
            figure.savefig(tmp_path / f"{name}.svg")
    assert len(list(tmp_path.glob("*.svg"))) == 3
    [line] = sheet(rows).summary
    at = select(rows, algorithm="svd", epsilon=2.0, last=1, system="ledger")
    assert line.ledger == f"{mean(at, 'share'):.2f}"
