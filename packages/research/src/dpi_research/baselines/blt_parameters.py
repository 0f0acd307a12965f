"""Parameters of buffered linear Toeplitz matrices: a few decaying buffers that stand for the square-root matrix.

C has the coefficients c_0 = 1, c_k = Σ_i w_i·θ_i^(k-1); its power series is 1 + Σ_i w_i·x/(1 - θ_i·x), a rational
function. So is its inverse's, with decays that are the roots of the numerator.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpi.errors import OptionError
from dpi_research.baselines.accounting import Floats


@dataclass(frozen=True)
class Buffers:
    """Weights w and decays θ of a matrix; the largest decay first."""

    weights: tuple[float, ...]
    decays: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.weights) != len(self.decays) or not self.weights:
            raise OptionError("`weights` and `decays` must be as long as each other, and not empty.")

    def check(self) -> Buffers:
        """The buffers, if they make a noise that can be used: w > 0, 0 < θ < 1, Σ w/θ < 1."""
        w, decays = np.array(self.weights), np.array(self.decays)
        if not ((w > 0).all() and (decays > 0).all() and (decays < 1).all() and (w / decays).sum() < 1):
            raise OptionError("`buffers` must have w > 0, 0 < θ < 1 and Σ w/θ < 1.")
        return self

    def coefficients(self, slots: int) -> Floats:
        """c_0 … c_(T-1).

        >>> Buffers((0.25,), (0.5,)).coefficients(4).tolist()
        [1.0, 0.25, 0.125, 0.0625]
        """
        powers = np.array(self.decays)[:, None] ** np.arange(slots - 1)
        return np.concatenate([[1.0], np.array(self.weights) @ powers])

    def inverse(self) -> Buffers:
        """The buffers of the inverse matrix: its decays θ̂ are the eigenvalues of diag(θ) - w·1ᵀ.

        The weights follow from the residues, ŵ_i = Π_j(θ̂_i - θ_j)/Π_{j≠i}(θ̂_i - θ̂_j), and have the other sign.

        >>> half = Buffers((0.25,), (0.5,)).inverse()
        >>> half.weights, half.decays
        ((-0.25,), (0.25,))
        """
        own = np.array(self.decays)
        roots = np.linalg.eigvals(np.diag(own) - np.outer(self.weights, np.ones(own.size)))
        decays = np.sort(roots.real)[::-1]
        weights = [float(np.prod(root - own) / np.prod(root - np.delete(decays, i))) for i, root in enumerate(decays)]
        return Buffers(tuple(weights), tuple(decays.tolist()))

    def energy(self, slots: int) -> float:
        """Σ c_k²: the squared length that one record can move the encoded stream by."""
        w, decays = np.array(self.weights), np.array(self.decays)
        products = np.outer(decays, decays)
        return 1 + float((np.outer(w, w) * (1 - products ** (slots - 1)) / (1 - products)).sum())

    def decoder_energy(self, slots: int) -> Floats:
        """Σ_{k<t} (ĉ_0 + … + ĉ_k)² for t = 1 … T: the variance of a prefix, as a share of one noise's."""
        return np.cumsum(np.cumsum(self.inverse().coefficients(slots)) ** 2)

    def root_loss(self, slots: int) -> float:
        """√(energy · decoder energy): the largest deviation at σ = 1. No Toeplitz matrix has less than S_T.

        >>> golden = Buffers((0.0122853238, 0.1878393665), (0.9999528892, 0.9857068667))
        >>> round(golden.root_loss(100_000), 4)
        5.2967
        """
        return math.sqrt(self.energy(slots) * float(self.decoder_energy(slots)[-1]))


def rational_approximation(buffers: int, slots: int) -> Buffers:
    """Buffers from a rational approximation of 1/√(1 - x) (Dvijotham, McMahan, Pillutla, Steinke, Thakurta 2024).

    The trapezoidal rule with step h on √z = (2/π)·∫ z·e^u/(e^(2u) + z) du, at z = 1 - x, gives √(1 - x) as a sum of
    simple fractions with decays 1/(1 + e^(2hk)); it is normalised to 1 at x = 0 and inverted. Step and window
    are d₁ = ⌊(d + 1)/2⌋, h = 1.6·π/√(2(d₁ + 1)), k from -d₁ to d - d₁ - 1 (factor 1.6 and the shift of k by one as in
    the public library jax-privacy). The approximation has a pole at x = 1, a buffer that never decays; so x is scaled
    by 1 - 1/(16·T).

    >>> [round(x, 4) for x in rational_approximation(3, 1000).decays]
    [0.9999, 0.998, 0.8775]
    """
    if type(buffers) is not int or not 1 <= buffers <= 10:
        raise OptionError(f"`buffers` must be a whole number from 1 to 10. Got {buffers!r}.")
    half = (buffers + 1) // 2
    step = 1.6 * math.pi / math.sqrt(2 * (half + 1))
    nodes = step * (np.arange(buffers) - half)
    decays = 1 / (1 + np.exp(2 * nodes))
    # (1 - x)·e^u·θ/(1 - θx) = e^u·θ - e^u·θ·(1 - θ)·x/(1 - θx), and 1 - θ = e^(2u)·θ.
    scale = float((np.exp(nodes) * decays).sum())
    weights = -np.exp(3 * nodes) * decays**2 / scale
    order = np.argsort(-decays)
    found = Buffers(tuple(weights[order].tolist()), tuple(decays[order].tolist())).inverse()
    largest = 1 - 1 / (16 * slots)
    shrink = min(1.0, largest / found.decays[0])
    weights, decays = shrink * np.array(found.weights), shrink * np.array(found.decays)
    return Buffers(tuple(weights.tolist()), tuple(decays.tolist())).check()
