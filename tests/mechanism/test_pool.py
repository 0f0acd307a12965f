"""The public pool: exact sums, the same again from its seed, the laws it names, and how little it can say."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.errors import OptionError, StateError
from dpi.mechanism.published.linear import Matrix, Ranges, dyadic, points, queries_from_bytes
from dpi.mechanism.published.pool import DirichletPool, MixedPool, Multinomial, Pool, expressiveness, nearest
from statistics_ import assert_law

POOLS = (Multinomial(9, 50, 3), DirichletPool(9, 0.3, 3), MixedPool(9, (0.01, 1.0, 100.0), 3))


def zipf(bins: int) -> np.ndarray:
    """Probabilities ∝ 1/rank."""
    weights = 1 / np.arange(1, bins + 1)
    return weights / weights.sum()


@pytest.mark.parametrize("pool", POOLS, ids=repr)
@pytest.mark.parametrize("bins", [1, 2, 7, 300])
def test_counts_are_whole_and_sum_to_the_precision(pool: Pool, bins: int) -> None:
    """Every synopsis is a PDF in whole units: no unit is lost or made up."""
    for block in pool.blocks(bins):
        assert block.dtype == np.int64
        assert int(block.min()) >= 0
        assert (block.sum(axis=1) == pool.precision).all()


@pytest.mark.parametrize("pool", POOLS, ids=repr)
def test_pool_is_made_again_from_its_seed(pool: Pool) -> None:
    """One synopsis, a block and a second run agree; another seed gives another pool."""
    rows = np.concatenate(list(pool.blocks(20)))
    assert rows.shape == (pool.size, 20)
    again = replace(pool, seed=pool.seed)  # type: ignore[type-var]
    for index in range(pool.size):
        np.testing.assert_array_equal(again.counts(index, 20), rows[index])
    other = replace(pool, seed=pool.seed + 1)  # type: ignore[type-var]
    assert (np.concatenate(list(other.blocks(20))) != rows).any()


def test_blocks_do_not_change_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are the same however many synopses are in memory at a time."""
    pool, queries = Multinomial(13, 40), dyadic(10)
    whole = pool.answers(queries)
    monkeypatch.setattr("dpi.mechanism.published.pool._BLOCK", 25)
    np.testing.assert_array_equal(pool.answers(queries), whole)


def test_multinomial_units_are_uniform_and_independent() -> None:
    """Bins of single units are uniform, and counts of two units have the binomial law (false alarm 10^-7 each)."""
    single = np.concatenate(list(Multinomial(10_000, 1).blocks(7)))
    assert_law(single.sum(axis=0).tolist(), [1 / 7] * 7)
    pairs = np.concatenate(list(Multinomial(10_000, 2).blocks(3)))[:, 0]
    assert_law(np.bincount(pairs, minlength=3).tolist(), [4 / 9, 4 / 9, 1 / 9])


@pytest.mark.parametrize("concentration", [0.05, 0.5, 1.0, 20.0])
def test_dirichlet_shares_have_the_beta_law(concentration: float) -> None:
    """The share of the first of 3 bins is Beta(c, 2c): ten cells of equal probability (false alarm 10^-7)."""
    from scipy import stats

    pool = DirichletPool(4_000, concentration, precision=1 << 40)
    shares = np.concatenate(list(pool.blocks(3)))[:, 0] / pool.precision
    # Cells that a rounded share cannot tell apart (a share of 0 is anything below 2^-40) are merged.
    edges = np.unique(np.maximum(stats.beta(concentration, 2 * concentration).ppf(np.linspace(0, 1, 11)), 2.0**-38))
    edges = np.concatenate(([0.0], edges[(edges < 1 - 2.0**-38)], [1.0]))
    law = np.diff(stats.beta(concentration, 2 * concentration).cdf(edges))
    assert_law(np.histogram(shares, edges)[0].tolist(), law.tolist())


def test_a_dirichlet_pool_comes_nearer_to_a_skewed_pdf_than_the_published_one() -> None:
    """On a zipf of 20 bins the best multinomial synopsis is about as far as uniform, the best Dirichlet one is not."""
    target = zipf(20)
    uniform = math.log(20) + float(target @ np.log(target))
    published = nearest(Multinomial(1000, 10_000), target)[1]
    assert 0.85 * uniform < published < uniform
    assert nearest(DirichletPool(1000, 1.0), target)[1] < 0.7 * published
    assert nearest(MixedPool(1000), target)[1] < 0.7 * published


def test_expressiveness_names_its_entropies() -> None:
    """No pool exceeds ln N; a coarse multinomial pool repeats itself, a fine one is far below its own ideal."""
    for precision in (1, 3, 30, 10_000):
        e = expressiveness(Multinomial(400, precision), bins=10)
        assert e.empirical <= e.bound + 1e-12
        assert e.bound == math.log(400)
        assert e.draw is not None
        assert e.ratio is not None
    coarse = expressiveness(Multinomial(400, 1), bins=10)
    assert coarse.distinct == 10
    assert coarse.draw == pytest.approx(math.log(10))
    fine = expressiveness(Multinomial(400, 10_000), bins=100)
    assert fine.distinct == 400
    assert fine.draw == pytest.approx(366.05, abs=0.01)
    assert fine.approximation == pytest.approx(366.1, abs=0.1)
    assert fine.ratio == pytest.approx(math.log(400) / 366.05, rel=1e-4)
    assert expressiveness(DirichletPool(30), bins=5).draw is None
    assert expressiveness(Multinomial(5, 10), bins=1).ratio == 1.0


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=6), st.integers(1, 1 << 20), st.randoms())
def test_answers_are_exact(grains: list[int], scale: int, random: object) -> None:
    """Matrix and ranges agree with Python's integers, beyond 64 bits too."""
    rows = [[random.randint(0, scale) for _ in grains] for _ in range(3)]  # type: ignore[attr-defined]
    histogram = np.array(grains)
    expected = [sum(a * b for a, b in zip(row, grains, strict=True)) for row in rows]
    assert Matrix(rows, scale=scale).exact(histogram) == expected
    assert points(len(grains)).exact(histogram) == grains
    ranges = dyadic(len(grains))
    for low, high, answer in zip(ranges.starts, ranges.stops, ranges.exact(histogram), strict=True):
        assert answer == sum(grains[low:high])


def test_pool_answers_are_those_of_its_counts() -> None:
    """Ranges, their matrix and plain sums give the same integers."""
    pool, ranges = Multinomial(7, 60), dyadic(12, leaves=4)
    matrix = Matrix(
        [[low <= b < high for b in range(12)] for low, high in zip(ranges.starts, ranges.stops, strict=True)]
    )
    np.testing.assert_array_equal(pool.answers(ranges), pool.answers(matrix))
    assert pool.answers(ranges)[2, 0] == pool.counts(2, 12)[:6].sum()


@pytest.mark.parametrize("queries", [points(5), dyadic(9), Matrix([[0, 3], [2, 1]], scale=3)], ids=repr)
def test_queries_survive_storage(queries: Ranges | Matrix) -> None:
    """Saved queries come back equal; cut ones are refused."""
    assert queries_from_bytes(queries.to_bytes()) == queries
    assert hash(queries_from_bytes(queries.to_bytes())) == hash(queries)
    for cut in (0, 8, len(queries.to_bytes()) - 8):
        with pytest.raises(StateError):
            queries_from_bytes(queries.to_bytes()[:cut])


@pytest.mark.parametrize("bins", [1, 2, 3, 64, 100, 1000])
def test_default_queries_cover_the_domain(bins: int) -> None:
    """At most 126 of them, all different, each level a partition of the domain."""
    queries = dyadic(bins)
    pairs = set(zip(queries.starts.tolist(), queries.stops.tolist(), strict=True))
    assert len(pairs) == len(queries) <= 126
    assert queries.exact(np.ones(bins, dtype=np.int64)) == (queries.stops - queries.starts).tolist()
    if bins <= 64:
        assert all((b, b + 1) in pairs for b in range(bins))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Multinomial(size=0),
        lambda: Multinomial(precision=1 << 29),
        lambda: Multinomial(seed="a"),  # type: ignore[arg-type]
        lambda: DirichletPool(concentration=0),
        lambda: MixedPool(concentrations=()),
        lambda: MixedPool(concentrations=(1.0, -1.0)),
        lambda: Multinomial(5).counts(5, 3),
        lambda: Multinomial(5).counts(0, 0),
        lambda: nearest(Multinomial(5), np.array([0.5, 0.6])),
        lambda: Ranges([1], [1], bins=3),
        lambda: Ranges([0], [4], bins=3),
        lambda: Matrix([[0, 2]], scale=1),
        lambda: Matrix([[0.5]]),
        lambda: dyadic(0),
        lambda: dyadic(4, leaves=1),
    ],
)
def test_bad_options_are_refused(make: object) -> None:
    """Each bad option is an OptionError."""
    with pytest.raises(OptionError):
        make()  # type: ignore[operator]


BIG = """
import sys
from pathlib import Path
from dpi.mechanism.published.linear import dyadic
from dpi.mechanism.published.pool import Multinomial
answers = Multinomial(size=int(sys.argv[1]), precision=1_000).answers(dyadic(112_000))
assert (answers[:, :2].sum(axis=1) == 1_000).all()
print(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])  # unlike ru_maxrss, of this program alone
"""


@pytest.mark.slow
def test_a_big_pool_stays_below_two_gibibytes() -> None:
    """6,500 synopses of 112,000 bins (500 in the short form) take a fraction of 2 GiB; dense counts would take 5.4."""
    size = "6500" if os.environ.get("DPI_SLOW") else "500"
    run = subprocess.run([sys.executable, "-c", BIG, size], capture_output=True, text=True, check=True)
    assert int(run.stdout) * 1024 < 400 << 20
