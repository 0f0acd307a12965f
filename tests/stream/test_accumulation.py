import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.errors import StateError
from dpi.mechanism.base import Estimate
from dpi.stream.accumulation import Accumulation


def estimate(pdf, total, counts=None, noise=20.0):
    """An estimate with these moments, and noisy counts of that noise scale if any."""
    pdf = np.asarray(pdf, dtype=np.float64)
    zero = np.zeros(pdf.size)
    return Estimate(pdf, zero, zero, total, 1.0, counts, float("nan") if counts is None else 2 * noise**2)


def test_without_counts_it_is_the_mean_of_releases_by_users():
    """Slots count by their number of users; a slot of unknown size counts as one."""
    sums = Accumulation.of(2).added(estimate([0.75, 0.25], 30.0)).added(estimate([0.25, 0.75], 10.0))
    assert sums.pdf() == pytest.approx([0.625, 0.375])
    assert sums.added(estimate([0.0, 1.0], float("nan"))).pdf() == pytest.approx([25 / 41, 16 / 41])


def test_without_users_it_is_uniform():
    """Empty slots say nothing of the PDF."""
    assert Accumulation.of(4).pdf().tolist() == [0.25] * 4
    assert Accumulation.of(4).added(estimate([0.4, 0.2, 0.2, 0.2], 0.0)).pdf().tolist() == [0.25] * 4


def test_right_releases_are_left_alone():
    """Where releases are the truth, the noise of the counts moves the accumulative PDF by less than a tenth of itself.

    The noise is seeded; that its mean square exceeds two standard errors has probability 0.02 a seed.
    """
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(500))
    sums, noise = Accumulation.of(500), np.zeros(500)
    for _ in range(50):
        draws = rng.laplace(0, 20, 500)
        noise += draws
        sums = sums.added(estimate(p, 10_000.0, 10_000 * p + draws))
    assert np.abs(sums.pdf() - p).sum() < 0.1 * np.abs(noise / 500_000).sum()


def test_noise_that_drowns_everything_is_not_taken_for_bias():
    """With the growing noise of a converging series, right releases stay nearly as they are in every slot.

    The last draws decide the sum, so its tails are those of a few draws, and it is looked at again and again. 20 seeds.
    """
    p = np.full(100, 0.01)
    worst = 0.0
    for seed in range(20):
        rng, sums = np.random.default_rng(seed), Accumulation.of(100)
        for slot in range(1, 300):
            noise = 20.0 * slot**1.3
            sums = sums.added(estimate(p, 10_000.0, 10_000 * p + rng.laplace(0, noise, 100), noise))
            if slot > 30:
                worst = max(worst, float(np.abs(sums.pdf() - p).sum()))
    assert worst < 0.05


def test_a_lasting_bias_is_corrected():
    """Releases that halve every other bin are corrected by the sum of counts to a tenth of their error.

    False alarm below 10^-6: the bias is thirty deviations of the summed noise in every bin.
    """
    rng = np.random.default_rng(1)
    p = np.full(100, 0.01)
    wrong = np.where(np.arange(100) % 2, 0.5, 1.5) * p
    sums = Accumulation.of(100)
    for _ in range(400):
        sums = sums.added(estimate(wrong, 10_000.0, 10_000 * p + rng.laplace(0, 20, 100)))
    assert np.abs(sums.pdf() - p).sum() < 0.1 * np.abs(wrong - p).sum()


@given(
    st.lists(
        st.tuples(st.floats(0, 1e9) | st.just(float("nan")), st.lists(st.floats(-1e12, 1e12), min_size=3, max_size=3)),
        max_size=5,
    ),
    st.floats(1e-3, 1e12),
)
def test_it_is_a_pdf_and_comes_back_from_bytes(slots, noise):
    """Whatever was measured, the PDF is positive with sum one, and the stored sums go on bit for bit."""
    sums = Accumulation.of(3)
    for total, counts in slots:
        slot = estimate([0.5, 0.3, 0.2], total, np.array(counts), noise)
        again = Accumulation.from_bytes(3, sums.to_bytes()).added(slot)
        sums = sums.added(slot)
        assert again.to_bytes() == sums.to_bytes()
        assert sums.pdf().sum() == pytest.approx(1)
        assert (sums.pdf() > 0).all()


def test_sums_of_another_domain_are_refused():
    """Bytes of another number of bins, or cut ones, raise."""
    stored = Accumulation.of(3).to_bytes()
    for bins, data in ((4, stored), (3, stored[:-1]), (3, b"")):
        with pytest.raises(StateError, match="damaged, or belong to another domain"):
            Accumulation.from_bytes(bins, data)
