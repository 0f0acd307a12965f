"""Intervals that are right on this stream: widened as far as its own measurements ask for.

The filter forecasts its next measurement, and both are public. Where measurements lie outside of their forecast more
often than they should, what the filter says of itself is too narrow on this stream, whatever worlds it was trained on.
Then the part of the forecast that is not noise is widened by a factor, and so are the intervals of what was released
(adaptive conformal inference: Gibbs and Candès 2021). The factor rises with each miss and falls slowly, so that in the
long run the share of misses is what it should be; it is never below one.

A factor for bins, and one for totals. Where noise hides everything, nothing asks for more, and nothing is widened. What
a forecast shares with a release is not seen either: an estimate that is off by as much in every slot forecasts its own
next measurement well.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpi.estimator._state import Measurement, Posterior

MISSED = 0.05
"""The part of measurements that should be outside."""
RATE = 0.2
"""The step of the factor's logarithm if all is missed, in a slot. Any rate has the right share of misses in the long
run (Gibbs and Candès); this one doubles a factor in four slots of misses, and halves it in seventy without one."""
HIGHEST = np.log(100.0)
_NOISE = 2.0
_QUANTILE = 2.306
"""The 97.5 % quantile of a Student law of eight degrees, that of the forecast's score."""


class Calibration(NamedTuple):
    """Logarithms of both factors, and how many totals were measured and inside."""

    bins: float = 0.0
    total: float = 0.0
    measured: int = 0
    inside: int = 0

    @property
    def factors(self) -> tuple[float, float]:
        """By what intervals of shares and of numbers are widened."""
        return float(np.exp(self.bins)), float(np.exp(self.total))


def calibrate(state: Calibration, measured: Measurement, said: Posterior) -> Calibration:
    """Return the state after a slot's measurement."""
    due = float(measured.due.sum())
    if not due or not said.forecast_total > 0:  # nothing was measured, or nothing was forecast
        return state
    sums = np.asarray(measured.sums).sum(0)
    missed = _misses(sums - said.forecast, said.forecast_scale, _NOISE * due, state.bins)
    total = _misses(sums.sum() - said.forecast_total, said.forecast_total_scale, _NOISE * due * sums.size, state.total)
    return Calibration(
        _step(state.bins, missed), _step(state.total, total), state.measured + 1, state.inside + int(total == 0)
    )


def _misses(wrong: np.ndarray, scale: np.ndarray, noise: float, factor: float) -> float:
    """Return the part that lies outside of the widened forecast; what is certain to be noise alone is inside."""
    own = np.maximum(np.square(scale) - noise, 0) * np.exp(2 * factor)
    return float((np.abs(wrong) > _QUANTILE * np.sqrt(noise + own)).mean())


def _step(factor: float, missed: float) -> float:
    return float(np.clip(factor + RATE * (missed - MISSED), 0.0, HIGHEST))
