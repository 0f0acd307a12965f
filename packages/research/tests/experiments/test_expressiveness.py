"""Entropies of pools, against sums over all synopses where there are few."""

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from dpi.mechanism.published.pool import smoothed
from dpi_research.datasets.generators import zipf
from dpi_research.evaluation import divergence
from dpi_research.experiments.expressiveness import LAWS, cases, entropies, pool_of
from dpi_research.experiments.expressiveness import sheet as drawn_sheet
from dpi_research.reproduce.experiment import Value


def test_the_entropy_of_one_draw_is_that_of_all_outcomes() -> None:
    """Ten units in three bins: 66 outcomes, added one by one."""
    probabilities = [
        math.factorial(10) / math.prod(map(math.factorial, counts)) / 3**10
        for counts in product(range(11), repeat=3)
        if sum(counts) == 10
    ]
    [row] = entropies("multinomial", 50, 10, 3)
    assert len(probabilities) == 66
    assert row["draw"] == pytest.approx(-sum(p * math.log(p) for p in probabilities))


@pytest.mark.parametrize("law", LAWS)
def test_no_pool_has_more_than_ln_n(law: str) -> None:
    """The nearest synopsis is the best of all, found another way."""
    [row] = entropies(law, 60, 200, 5)
    assert float(row["empirical"] or 0) <= math.log(60) + 1e-12
    pool, target = pool_of(law, 60, 200), zipf(5)
    every = [divergence(target, smoothed(pool.counts(i, 5), 200, 5)) for i in range(60)]
    assert row["nearest_zipf"] == pytest.approx(min(every))
    assert row["uniform_zipf"] == pytest.approx(divergence(target, np.full(5, 0.2)))
    assert (row["ratio"] is None) == (law != "multinomial")


def test_a_finer_pool_of_the_same_size_says_a_smaller_part() -> None:
    """The ratio falls with n_p, and rises with N."""
    ratios = [float(entropies("multinomial", size, n, 10)[0]["ratio"] or 0) for size, n in ((50, 10), (50, 1_000))]
    assert ratios[0] > 1.5 * ratios[1]
    assert float(entropies("multinomial", 500, 10, 10)[0]["ratio"] or 0) > ratios[0]


def test_the_sheet_draws_any_part(tmp_path: Path) -> None:
    """A small grid, or without its multinomial pools."""
    rows: list[dict[str, Value]] = [
        row for bins in (3, 10, 100) for law in LAWS for n in (10, 100) for row in entropies(law, 20, n, bins)
    ]
    for part in (rows, [row for row in rows if row["law"] != "multinomial"]):
        for name, (figure, _) in drawn_sheet(part).figures.items():
            figure.savefig(tmp_path / f"{name}.svg")
            assert (tmp_path / f"{name}.svg").stat().st_size > 1_000
    nearest = next(r["nearest_zipf"] for r in rows if (r["law"], r["bins"], r["precision"]) == ("mixed", 100, 100))
    assert f"mixed {float(nearest or 0):.2f}" in drawn_sheet(rows).summary[0].strict
    assert len({case.digest for case in cases(True)}) == len(cases(True))
