"""Two measuring sticks for an estimator of drifting rates: the best that there is, and the least that must be reached.

The *exact filter* knows all that an estimator has to find out: the drift, the number of users, the set of levels and
the slots in which they are dealt anew. Its divergence is the limit for streams of that kind. The *plain tracker* knows
nothing and has no model: fading means, shrunk and weighed by how well they predicted. An estimator that is much worse
after a change is stuck. Both see counts after noise.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dpi.mechanism.filtering.laplace_gauss import score_evidence

Floats = npt.NDArray[np.float64]


class ExactFilter:
    """Bayes' rule on a grid of log-rates, for every bin by itself.

    `levels` are the expected counts that the bins have in some order; `drift` is the step of their log-walks.
    """

    def __init__(self, levels: Floats, drift: float, slots: int, step: float = 0.02) -> None:
        self.drift = drift
        span = max(1.0, 5 * drift * math.sqrt(slots))
        self.grid = np.arange(np.log(levels).min() - span, np.log(levels).max() + span, step)
        self.rates = np.exp(self.grid)
        self.bins = levels.size
        half = max(math.ceil(5 * drift / step), 1)
        kernel = np.exp(-0.5 * (np.arange(-half, half + 1) * step / max(drift, 1e-9)) ** 2)
        self.kernel = kernel / kernel.sum()
        self.dealt(levels)

    def dealt(self, levels: Floats) -> None:
        """Forget which bin has which level: all is new, and the set of levels is known."""
        places = np.rint((np.log(levels) - self.grid[0]) / (self.grid[1] - self.grid[0])).astype(np.int64)
        shares = np.bincount(np.clip(places, 0, self.grid.size - 1), minlength=self.grid.size) / self.bins
        self.weights: Floats = np.tile(shares, (self.bins, 1))

    def aged(self) -> None:
        """One slot later."""
        if self.drift:
            self.weights = np.stack([np.convolve(row, self.kernel, "same") for row in self.weights])

    def update(self, values: Floats, noise: float) -> tuple[Floats, Floats]:
        """PDFs of the rate and of the slot itself, after its noisy counts."""
        residual = values[:, None] - self.rates
        log, slope = score_evidence(residual, np.broadcast_to(self.rates, self.weights.shape), noise)
        self.weights = self.weights * np.exp(log - log.max(1, keepdims=True))
        self.weights /= self.weights.sum(1, keepdims=True)
        rate = self.weights @ self.rates
        own = np.maximum((self.weights * (self.rates * (1 + slope))).sum(1), 1e-9)
        return np.asarray(rate / rate.sum()), np.asarray(own / own.sum())


class PlainTracker:
    """Fading means of the noisy counts, each shrunk to the uniform PDF, weighed by their squared errors so far."""

    FADING = (0.5, 0.8, 0.95, 0.99)

    def __init__(self, bins: int) -> None:
        self.bins = bins
        self.sums = np.zeros((len(self.FADING), bins))
        self.seen, self.squares, self.errors = np.zeros((3, len(self.FADING)))

    def update(self, values: Floats, noise: float) -> Floats:
        """The PDF after a slot's noisy counts."""
        fading = np.array(self.FADING)
        if self.seen[0]:
            self.errors = 0.9 * self.errors + ((values - self._means()) ** 2).sum(1) / (2 * noise**2)
        self.sums = fading[:, None] * self.sums + values
        self.seen, self.squares = fading * self.seen + 1, fading**2 * self.squares + 1
        means = self._means()
        even = np.maximum(means.mean(1, keepdims=True), 1e-9)
        spread = ((means - even) ** 2).mean(1, keepdims=True)
        doubt = (2 * noise**2 * self.squares / self.seen**2)[:, None]
        shrunk = even + np.maximum(1 - doubt / np.maximum(spread, 1e-12), 0) * (means - even)
        pdfs = np.maximum(shrunk, 0.05 * even + 0.2 * np.sqrt(doubt))
        pdfs /= pdfs.sum(1, keepdims=True)
        weights = np.exp(-0.5 * (self.errors - self.errors.min()))
        return np.asarray(weights @ pdfs / weights.sum())

    def _means(self) -> Floats:
        return np.asarray(self.sums / self.seen[:, None])
