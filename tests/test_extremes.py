"""Whether a slot is released never depends on what is in it: no histogram, however extreme, makes a mechanism raise."""

import os
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

import dpi
from dpi.budget import Epsilon
from dpi.domain.partition import Blocks
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import Histogram, whole_pdf
from dpi.mechanism.published import Published
from dpi.mechanism.published.linear import Matrix, points
from dpi.mechanism.published.pool import Multinomial, Pool
from dpi.noise import SystemSource, add_laplace, exponential_mechanism, permute_and_flip
from dpi.stream.prefix_tree import PrefixTree
from dpi_research.baselines._gaussian import add_gaussian

LARGEST = np.iinfo(np.int64).max
SIZES = [0, 1, GRAINS, 1 << 50, 1 << 60, (1 << 60) + 1, 1 << 62, LARGEST]
DOMAIN = dpi.Bins([1, 2, 3, 4, 5])
SHAPES = {
    "all in one bin": lambda n: np.array([n, 0, 0, 0, 0, 0]),
    "all in the last bin": lambda n: np.array([0, 0, 0, 0, 0, n]),
    "all in every bin": lambda n: np.full(6, n),
    "one bin is large": lambda n: np.array([1, n, 0, 1, 0, 3]),
}
HISTOGRAMS = [pytest.param(shape(n), id=f"{n} grains, {name}") for n in SIZES for name, shape in SHAPES.items()]
BRAINS = [
    dpi.Boosted(),
    dpi.Boosted(partitions=(Blocks(2),)),
    Published(Multinomial(8, 16), draws=2),
    Published(Multinomial(8, 16), mu=1, draws=128, n_min=1_025),
    Published(Multinomial(8, 16), mu=1, draws=128, n_min=1 << 20, accumulative=True, total_share="0.5"),
    Published(Multinomial(8, 16), queries=Matrix([[0, 1 << 20, 5, 1, 1, 0]], scale=1 << 20), draws=128, rounds=2),
]


@pytest.mark.parametrize("mechanism", BRAINS, ids=repr)
@pytest.mark.parametrize("units", [1, 1 << 30, 1 << 40, 1 << 50] if os.environ.get("DPI_SLOW") else [1, 1 << 50])
def test_a_mechanism_releases_every_histogram(mechanism, units):
    """Three slots of every extreme histogram are measured and become releases, at the least and the largest budget."""
    for parameter in HISTOGRAMS:
        state = mechanism.initial(DOMAIN)
        for slot in range(3):
            histogram = Histogram(parameter.values[0], GRAINS)
            measurement = mechanism.measure(state, histogram, Epsilon(units), slot, SystemSource())
            state, estimate = mechanism.update(state, measurement)
            assert np.isfinite(estimate.pdf).all(), parameter.id
            assert float(estimate.pdf.sum()) == pytest.approx(1), parameter.id


@pytest.mark.parametrize("grains", HISTOGRAMS)
def test_noise_and_choices_take_every_vector(grains):
    """Sums of noise, and choices by score, are made of any 64-bit numbers, of both signs."""
    for values in (grains, -grains, grains - LARGEST, -1 - grains, np.concatenate([grains, -1 - grains])):
        for scale in (Fraction(1, 2), Fraction(GRAINS), Fraction(1 << 80)):
            assert add_laplace(values, scale, SystemSource()).size == values.size
        assert add_gaussian(values, Fraction(1 << 40), SystemSource()).size == values.size
        for choose in (exponential_mechanism, permute_and_flip):
            for rate in (Fraction(1, 1 << 80), Fraction(1), Fraction(64)):
                assert 0 <= choose(values, rate, SystemSource()) < values.size


@pytest.mark.parametrize("grains", HISTOGRAMS)
def test_trees_and_whole_pdfs_take_every_histogram(grains):
    """Sums over time and the whole PDF are made of any histogram, and stay in their range."""
    tree = PrefixTree(per_slot=1, arity=2, levels=3)
    sums = tree.planted(6, SystemSource())
    for _ in range(9):
        sums = sums.added(Histogram(grains, GRAINS), SystemSource())
    assert np.isfinite(sums.sums()).all()
    pdf = whole_pdf.finish(grains)
    assert (pdf >= 0).all()
    assert int(pdf.sum()) <= GRAINS
    exact = [g * GRAINS // (sum(grains.tolist()) or 1) for g in grains.tolist()]
    assert pdf.tolist() == exact


@pytest.mark.parametrize("count", [0, 1, 1 << 36, 1 << 62, LARGEST, -1, -LARGEST])
@pytest.mark.parametrize("mechanism", BRAINS[:4], ids=repr)
def test_a_stream_of_declared_counts_closes_every_slot(mechanism, count):
    """Counts that somebody else made are cut, never refused: from the declaration to the release."""
    stream = dpi.Stream(domain=DOMAIN, epsilon=4, budget=dpi.Converging(dpi.budget.Zeta(2)), mechanism=mechanism)
    for seen in ([count] * 6, [0] * 6, [0, 0, count, 0, 0, 1]):
        release = stream.release_counts(dpi.histogram.counts(np.array(seen), per_user=1))
        assert np.isfinite(release.pdf).all()


def test_a_stream_goes_on_when_refills_add_up_to_more_than_any_budget():
    """Accounts that are refilled, and streams with an ε each, sum to more than 1,024: stated, and never refused."""
    store = dpi.MemoryStore()
    options = {"domain": DOMAIN, "epsilon": 1000, "budget": dpi.Ledger(per_slot=1000, period=1), "store": store}
    first, other = dpi.Stream(**options, name="a", separate=True), dpi.Stream(**options, name="b", separate=True)
    assert [first.release(["u"], [1]).epsilon_spent for _ in range(3)] == [1000, 2000, 3000]
    assert "and 1000 more per epoch" in other.release(["u"], [1]).guarantee
    lasting = {**options, "budget": dpi.Ledger(per_slot=1000), "store": dpi.MemoryStore()}
    streams = [dpi.Stream(**lasting, name=name, separate=True) for name in ("a", "b")]
    assert "sum to 2000 per user for ever" in streams[1].release(["u"], [1]).guarantee


@dataclass(frozen=True)
class Two(Pool):
    """Two synopses of two bins: all in the second, and about half in each."""

    size: int = 2
    precision: int = 1_000_000
    seed: int = 0

    def _make(self, index, bins):
        return np.array([(0, 1_000_000), (551_220, 448_780)][index])


@pytest.mark.parametrize("users", [52, 53])
def test_published_releases_slots_of_any_number_of_users(users):
    """Scores that span 2^50 and more are chosen among as others are: with 53 users such a slot was refused."""
    mechanism = Published(Two(), queries=points(2), lam=0, mu=1, draws=128, n_min=1_025)
    state = mechanism.initial(dpi.Categories(["a", "b"], other=None))
    histogram = Histogram(np.array([users, 0]) * GRAINS, GRAINS)
    for _ in range(20):
        assert mechanism.measure(state, histogram, Epsilon.at_most(1), 0, SystemSource()).values.size == 256
