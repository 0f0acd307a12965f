"""Scores beyond the peak are those of the whole law."""

import numpy as np
import pytest

from dpi.mechanism.filtering import laplace_gauss
from dpi.mechanism.filtering import laplace_gauss as tails


@pytest.mark.parametrize("share", [1e-8, 1e-6, 1e-4, 1e-2, 1.0, 1e3])
@pytest.mark.parametrize("noise", [0.01, 20.0, 1e12])
def test_scores_are_those_of_the_whole_law(share, noise):
    """Of residuals within and beyond the peak, as far as single precision tells: within 10⁻⁶ in units of the noise."""
    residual = np.concatenate([np.linspace(-12, 12, 4001), np.geomspace(1e-6, 1e4, 400)])[None] * noise
    variance = np.full(residual.shape, share * noise**2)
    found, whole = tails.score_tails(residual, variance, noise), laplace_gauss.score(residual, variance, noise)
    weight = 1 + np.abs(whole.log_density)
    assert float((np.abs(found.log_density - whole.log_density) / weight).max()) < 1e-6
    assert float(np.abs(found.slope - whole.slope).max()) * noise < 1e-6
    assert float(np.abs(found.heat - whole.heat).max()) * noise**2 * max(share, 1e-6) < 1e-6


def test_most_counts_of_a_hidden_bin_are_beyond_the_peak():
    """What is left to the error functions is the probability of the peak, which is small where the belief is narrow."""
    seen = []
    inner = laplace_gauss.score
    rng = np.random.default_rng(1)
    residual, variance = rng.laplace(size=(3, 5000)), np.full((3, 5000), 1e-3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(laplace_gauss, "score", lambda *given: seen.append(given[0].size) or inner(*given))
        tails.score_tails(residual, variance, 1.0)
    assert 0 < sum(seen) < 0.3 * residual.size
