import numpy as np
import pytest

from dpi.mechanism.cells import _law as law
from dpi.mechanism.cells._law import Law
from dpi.mechanism.filtering import _population as population
from dpi.mechanism.filtering import laplace_gauss
from dpi.mechanism.filtering.laplace_gauss import NoisyCounts


def test_an_unknown_law_is_uniform():
    """Before anything was measured every bin is alike."""
    unknown = Law.unknown(8)
    assert (law.make_table(population.initial_population(8), (unknown,)).read(unknown).pdf == 1 / 8).all()


def test_a_law_learns_what_it_is_shown():
    """After some clear measurements a law is what they were."""
    truth = np.array([0.6, 0.3, 0.08, 0.02])
    one = law.begin_law(Law.unknown(4), NoisyCounts(1000 * truth, 2.0), 1000.0)
    shares = population.initial_population(4)
    for _ in range(5):
        table = law.make_table(shares, (one,))
        learned = law.assimilate_law(one, table.read(one), NoisyCounts(1000 * truth, 2.0), 1000.0)
        (one,) = law.age_laws([learned.law], table.readout, 1)
    assert law.make_table(shares, (one,)).read(one).pdf == pytest.approx(truth, abs=0.01)


def test_a_law_of_noise_stays_where_it_is():
    """Messages that know nothing are not rescaled: slots without news do not move them."""
    rng = np.random.default_rng(2)
    one = law.begin_law(Law.unknown(50), NoisyCounts(rng.laplace(0, 1, 50), 1.0), 10.0)
    shares = population.initial_population(50)
    before = one.messages.mean
    for _ in range(50):
        (one,) = law.age_laws([one], law.make_table(shares, (one,)).readout, 1)
    assert (one.messages.mean == before).all()


def test_the_sum_of_a_clear_law_comes_back_to_one():
    """Messages of a wrong scale, well known, are put right."""
    one = law.begin_law(Law.unknown(4), NoisyCounts(np.full(4, 1000.0), 1.0), 1000.0)
    (one,) = law.age_laws([one], law.make_table(population.initial_population(4), (one,)).readout, 1)
    assert one.messages.mean.sum(1) == pytest.approx(1, abs=0.1)


def test_rare_users_are_not_taken_for_none():
    """A bin with one user now and then has no bias, where the exact slope alone would have a large one."""
    rng = np.random.default_rng(3)
    counts = rng.poisson(0.2, 20_000)
    noisy = counts + rng.laplace(0, 0.25, counts.size)
    variance = np.full(counts.size, 0.2)

    def bias(slope, seen):
        return float((slope / seen).mean()) / 0.2

    residual = noisy - 0.2
    scored = laplace_gauss.score_evidence(residual, variance, 0.25)
    exact = bias(scored.slope.astype(float), laplace_gauss.fisher_information(variance, 0.25))
    blended = bias(*law.lumpy_slope(scored, residual, variance, 0.25))
    assert abs(blended) < 0.5 * abs(exact)


def test_doubtful_counts_teach_less():
    """NoisyCounts that are estimates themselves move a law less than measured ones."""
    start = law.begin_law(Law.unknown(4), NoisyCounts(np.full(4, 250.0), 5.0), 1000.0)
    other = np.array([400.0, 200.0, 200.0, 200.0])
    reading = law.make_table(population.initial_population(4), (start,)).read(start)

    def moved(doubt):
        after = law.assimilate_law(start, reading, NoisyCounts(other, 5.0, doubt), 1000.0).law
        return float(law.leading_messages(after).mean[0])

    assert moved(0.0) > moved(1e4) > moved(1e6) >= 0.25
