"""The boosted brain: measure once, then boost for free.

The slot's histogram gets exact discrete Laplace noise, and that is all that is ever seen of it. A pool of experts, each
a forecast made of past measurements, is reweighted by how well it predicted the noisy counts (log score); a small
constant share of weight flows back, so that a beaten expert can return. The release is the weighted posterior PDF.

Sees a histogram (in `measure`, once), an amount of budget and the slot's number. It never sees a user.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpi.brain import _boosting, _state
from dpi.brain._assimilation import Dispersion
from dpi.brain._size import Counts, Size
from dpi.brain._state import BoostedState
from dpi.brain.base import Brain, Estimate, Measurement
from dpi.budget.epsilon import Epsilon
from dpi.compression import Histogram
from dpi.domain import Domain
from dpi.errors import OptionError, StateError
from dpi.integers import GRAINS
from dpi.noise import Source, add_laplace
from dpi.synopsis import experts, population
from dpi.synopsis.experts import Pool


@dataclass(frozen=True)
class Boosted(Brain[BoostedState]):
    """A brain with one measurement a slot and a pool of trackers.

    `drifts` are the trackers' steps of log-levels per slot. `season` is a public period in slots: with it, one more
    expert forecasts each slot from the slots one, two, … periods ago. Time and memory are O(bins · experts), and
    memory O(bins · season) more.

    >>> from dpi.domain import Categories
    >>> from dpi.noise import SystemSource
    >>> brain, histogram = Boosted(), Histogram(np.array([90, 10]) * GRAINS, GRAINS)
    >>> state = brain.initial(Categories(["a", "b"], other=None))
    >>> measurement = brain.measure(state, histogram, Epsilon.at_most(100), 0, SystemSource())
    >>> state, estimate = brain.update(state, measurement)
    >>> estimate.pdf.round(1).tolist()
    [0.9, 0.1]
    """

    drifts: tuple[float, ...] = (0, 0.003, 0.01, 0.03, 0.1, 0.3)
    season: int | None = None

    def __post_init__(self) -> None:
        Pool(self.drifts, self.season)

    def initial(self, domain: Domain) -> BoostedState:
        """The state before the first slot: every expert knows nothing, and the slower ones are trusted more."""
        return BoostedState(
            trackers=experts.unknown(len(self.drifts), domain.size),
            season=(None,) * (self.season or 0),
            log_weights=np.log(self._pool.prior),
            uniform=0.0,
            population=population.initial(domain.size),
            size=Size(scale=float(domain.size), variance=0.25, change=0.02),
            dispersion=Dispersion(),
            mass=1.0,
            reference=0.0,
            known=False,
        )

    def measure(
        self, state: BoostedState, histogram: Histogram, epsilon: Epsilon, slot: int, source: Source
    ) -> Measurement:
        """The histogram plus exact discrete Laplace noise of scale G/ε grains on every bin, drawn once.

        **Formal guarantee.** ε-DP for a user of weight one, (ε·w)-DP for a user of weight w; with ε = 0 the result does
        not depend on the histogram.

        *Why.* A user of weight w moves the grains by at most w·G in ℓ₁ (`dpi.compression`), so `add_laplace` at scale
        G/ε gives w·G/(G/ε) = w·ε. A histogram of another sensitivity is refused: one that moves by 2·G would lose 2ε.
        What is refused depends on the compression, a public option, and not on the data.
        """
        if histogram.sensitivity != GRAINS:
            raise OptionError("`Boosted` takes histograms that one user moves by at most one unit: use `normalise`.")
        if epsilon.units == 0:
            return Measurement(slot, epsilon, np.empty(0, dtype=np.int64))
        return Measurement(slot, epsilon, add_laplace(histogram.grains, epsilon.scale, source))

    def update(self, state: BoostedState, measurement: Measurement) -> tuple[BoostedState, Estimate]:
        """Forecast, score, reweigh, release; an unmeasured slot's estimate is the forecast."""
        if measurement.values.size == 0:
            return _boosting.unmeasured(state, measurement.slot, self._pool)
        if measurement.values.shape != (state.bins,) or measurement.epsilon.units == 0:
            raise StateError("the measurement has another number of bins than the state, or values without budget.")
        counts = Counts(measurement.values / GRAINS, 1 / float(measurement.epsilon))
        return _boosting.measured(state, measurement.slot, self._pool, counts, partial=measurement.partial)

    def to_bytes(self, state: BoostedState) -> bytes:
        """The state, for storage, with version and checksum."""
        return _state.to_bytes(state)

    def from_bytes(self, domain: Domain, data: bytes) -> BoostedState:
        """The state of `to_bytes`, bit for bit; raises `StateError` if damaged or of another domain or options."""
        state = _state.from_bytes(data)
        expected = ((len(self.drifts), domain.size), self.season or 0)
        if (state.trackers.mean.shape, len(state.season)) != expected:
            raise StateError("the state belongs to a brain with other options or to another domain.")
        return state

    @property
    def _pool(self) -> Pool:
        return Pool(self.drifts, self.season)
