"""Prefix sums with correlated Gaussian noise: the square-root factorisation, and buffered linear Toeplitz noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from dpi.errors import OptionError
from dpi.exact.integers import GRAINS, Integers
from dpi_research.baselines.accounting import Floats, Loss
from dpi_research.baselines.base import LARGEST_COUNT, Concentrated, check_count

LONGEST_SQUARE_ROOT = 1 << 16
"""Time and memory of a slot grow with the number of slots; at this length encoded counts still fit into 64 bits."""


@lru_cache(maxsize=8)
def coefficients(slots: int) -> Floats:
    """f_0 = 1, f_k = f_(k-1)·(2k - 1)/(2k): the power series of 1/√(1 - x), whose square is that of prefix sums.

    >>> coefficients(4).tolist()
    [1.0, 0.5, 0.375, 0.3125]
    """
    k = np.arange(1, slots)
    return np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])


class SquareRoot(Concentrated):
    """Prefix sums of up to `slots` slots: A = C·C with C the square root of the prefix-sum matrix.

    **Guarantee.** ρ-zCDP for one record, and (ε, δ)-DP by the stated conversion. *Why:* what is released is a function
    of y = C′·x + z, where C′ is C in whole units of 2^-24, x the whole counts and z exact discrete Gaussian noise. One
    record moves y by a column of C′, of squared length S_T = Σ f_k² at most; the noise has the variance S_T/(2ρ). All
    of it is integer arithmetic; only the decoding, A·C′^-1·y, is in floating point.

    *A user* with a record in every slot moves y by C′·1: Σ_j (Σ_{k<j} f_k)² in place of S_T.

    >>> counter = SquareRoot(epsilon=1000, slots=4)
    >>> [round(float(counter.update(2)[0])) for _ in range(4)]
    [2, 4, 6, 8]
    >>> round(SquareRoot(epsilon=1, slots=50).energy, 6)
    2.309923
    """

    held = ("_counts", "_decoded")

    slots: int

    def _start(self) -> None:
        check_count(self.slots, "slots")
        if self.slots > LONGEST_SQUARE_ROOT:
            raise OptionError(f"`slots` must be at most {LONGEST_SQUARE_ROOT}. Got {self.slots}.")
        self._encoder = np.rint(coefficients(self.slots) * GRAINS).astype(np.int64)
        squares = sum(int(c) ** 2 for c in self._encoder)
        self.noise_variance = Fraction(squares, GRAINS**2) / (2 * self.rho)
        """Of each z, in records²."""
        self.energy = squares / GRAINS**2
        """S_T: the squared length that one record can move y by."""
        self._counts = np.zeros((0, self.bins), dtype=np.int64)
        self._decoded = np.zeros((0, self.bins))

    def _step(self, grains: Integers) -> Floats:
        counts = np.minimum(grains // GRAINS, LARGEST_COUNT)
        self._counts = np.vstack([self._counts, counts])
        encoded = self._encoder[: self.slot][::-1] @ self._counts
        noisy = self._gaussian(encoded, self.noise_variance) / GRAINS
        past = (self._encoder[1 : self.slot] / GRAINS)[::-1] @ self._decoded
        self._decoded = np.vstack([self._decoded, noisy - past])
        return np.asarray(self._decoded.sum(axis=0))

    def loss(self, slots: int) -> Loss:
        """What a record in every slot moves y by, exactly."""
        moved = np.cumsum(self._encoder[:slots])
        return Loss(rho=Fraction(sum(int(m) ** 2 for m in moved), GRAINS**2) / (2 * self.noise_variance))

    def variance(self, slot: int) -> float:
        """σ²·S_T·S_t."""
        return float(self.noise_variance) * float((coefficients(self.slots)[:slot] ** 2).sum())


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


LONGEST_TOEPLITZ = 10**7


class BufferedToeplitz(Concentrated):
    """Prefix sums of up to `slots` slots; the noise of a slot is corrected by a few decaying sums of the noise so far.

    buffers: a number of buffers, set by the rational approximation; or `Buffers` of one's own.

    **Guarantee.** ρ-zCDP for one record, and (ε, δ)-DP by the stated conversion. *Why:* slot t releases x_t + ξ_t with
    ξ_t = z_t - [Σ w_i·s_i], z exact discrete Gaussian in grains, s_i decaying sums of past ξ and [ ] rounding to a
    grain. Given the releases, z = C·ξ + r with rounding errors |r| ≤ 1/2, so another x moves z by C·(x - x′) and at
    most one grain a slot: for one record by no more than √energy + √T·2^-24 in ℓ₂, to which the noise is set. That
    the s_i are held in floating point is not in this argument: there the guarantee is that of ideal arithmetic.

    >>> counter = BufferedToeplitz(epsilon=1000, slots=4)
    >>> [round(float(counter.update(2)[0])) for _ in range(4)], counter.memory
    ([2, 4, 6, 8], 6)
    """

    held = ("_state", "_sum")

    slots: int
    buffers: int | Buffers = 5

    def _start(self) -> None:
        check_count(self.slots, "slots")
        if self.slots > LONGEST_TOEPLITZ:
            raise OptionError(f"`slots` must be at most {LONGEST_TOEPLITZ}. Got {self.slots}.")
        own = self.buffers
        self.matrix = own.check() if isinstance(own, Buffers) else rational_approximation(own, self.slots)
        moved = self._with_rounding(math.sqrt(self.matrix.energy(self.slots)), self.slots)
        self.noise_variance = moved**2 / (2 * self.rho)
        """Of each z, in records²."""
        self._weights, self._decays = np.array(self.matrix.weights), np.array(self.matrix.decays)[:, None]
        self._state = np.zeros((self._weights.size, self.bins))
        self._sum = np.zeros(self.bins)

    @staticmethod
    def _with_rounding(length: float, slots: int) -> Fraction:
        """A length in records with a grain a slot on top, and what floats may be off by; rounded up."""
        return Fraction(length * (1 + 1e-9) + math.sqrt(slots) / GRAINS)

    def _step(self, grains: Integers) -> Floats:
        correction = np.rint(self._weights @ self._state).astype(np.int64)
        released = self._gaussian(grains - correction, self.noise_variance)
        self._state = self._decays * self._state + (released - grains)
        self._sum = self._sum + released / GRAINS
        return self._sum

    def loss(self, slots: int) -> Loss:
        """What a record in every slot moves z by: the coefficients are positive, so all of them add up."""
        if slots == 0:
            return Loss()
        moved = np.cumsum(self.matrix.coefficients(slots))
        length = self._with_rounding(float(np.linalg.norm(moved)), slots)
        return Loss(rho=length**2 / (2 * self.noise_variance))

    @cached_property
    def _decoder_energy(self) -> Floats:
        return self.matrix.decoder_energy(self.slots)

    def variance(self, slot: int) -> float:
        """That of z times the decoder's energy."""
        return float(self.noise_variance) * float(self._decoder_energy[slot - 1])
