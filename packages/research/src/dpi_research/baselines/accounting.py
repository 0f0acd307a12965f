"""Privacy losses of many releases about one user: Laplace noise, and Gaussian noise by zCDP. Public numbers only.

*Laplace.* A release with shift s and scale b has the ratio r = s/b; its privacy loss L has P(L = r) = 1/2,
P(L = -r) = e^-r/2 and P(L ≤ l) = e^(-(r - l)/2)/2 between. Losses of independent noises add up, so the pure loss is
Σ r, and it is attained.

*Gaussian.* ρ-zCDP says: the Rényi divergence of every order α > 1 is at most ρ·α. Losses add up, and c records of one
user cost c²·ρ. The conversion is that of Canonne, Kamath and Steinke (2020, Corollary 13): for every α > 1,

    δ = e^((α-1)(αρ-ε)) / (α - 1) · (1 - 1/α)^α .

It is a bound from above at any α, so a grid of orders errs to the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dpi.errors import OptionError

_AROUND = np.geomspace(1 / 64, 64, 1025)
"""Orders, as multiples of the best one of the simple conversion."""


def epsilon_of(rho: float, delta: float) -> float:
    """The smallest ε found for ρ at δ; never above ρ + 2·√(ρ·ln(1/δ)), the simple conversion.

    >>> round(epsilon_of(0.02, 1e-6), 4), round(0.02 + 2 * math.sqrt(0.02 * math.log(1e6)), 4)
    (0.8999, 1.0713)
    """
    if rho <= 0:
        return 0.0
    log = math.log(1 / delta)
    order = 1 + math.sqrt(log / rho) * _AROUND
    best = rho * order + np.log1p(-1 / order) + (log - np.log(order)) / (order - 1)
    return max(0.0, float(best.min()))


def delta_of(rho: float, epsilon: float) -> float:
    """The smallest δ found for ρ at ε.

    >>> round(delta_of(0.02, epsilon_of(0.02, 1e-6)) * 1e6, 3)
    1.0
    """
    if rho <= 0:
        return 0.0
    middle = max(epsilon - rho, 0.0) / (2 * rho) + 1 / math.sqrt(2 * rho)
    order = 1 + middle * _AROUND
    log = (order - 1) * (order * rho - epsilon) - np.log(order - 1) + order * np.log1p(-1 / order)
    return min(1.0, math.exp(min(0.0, float(log.min()))))


@lru_cache(maxsize=256)
def rho_of(epsilon: Fraction, delta: float) -> Fraction:
    """The largest ρ found that keeps (ε, δ), rounded down.

    >>> rho = rho_of(Fraction(1), 1e-6)
    >>> epsilon_of(float(rho), 1e-6) <= 1 < epsilon_of(1.001 * float(rho), 1e-6)
    True
    """
    check_between(delta, "delta")
    low, high = 0.0, float(epsilon) + 1
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if epsilon_of(middle, delta) <= float(epsilon) else (low, middle)
    return Fraction(low)


Floats = npt.NDArray[np.float64]

_ORDERS = 1 + np.geomspace(1e-3, 1e6, 800)
_GRID = 1 << 20
_NUMERIC = 1e-9
"""Allowed to the transforms: 2^20 entries, each off by less than 10^-15."""
_LARGEST_REACH = 600.0
"""Above it e^L would leave the range of a float; the Rényi bound serves there."""
_FIXED_POINT = 1e-6
"""Share of δ kept back because noise is drawn in steps of 2^-24: P(L = r) is 1/2 + 2^-26/b there, not 1/2."""


@dataclass(frozen=True)
class Loss:
    """What a user with one record in every slot loses.

    shifts: how many Laplace releases have each ratio of shift to scale.
    pure: a bound of the pure loss of all other parts.
    rho: the zCDP loss of Gaussian parts; with one, the loss is infinite unless a δ is given.
    """

    shifts: Mapping[Fraction, int] = field(default_factory=dict)
    pure: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)

    def scaled(self, records: Fraction) -> Loss:
        """The same for a user with this many records in every slot."""
        shifts = {ratio * records: count for ratio, count in self.shifts.items()}
        return Loss(shifts, self.pure * records, self.rho * records**2)

    def times(self, count: int) -> Loss:
        """The same so many times."""
        shifts = {ratio: count * n for ratio, n in self.shifts.items() if count}
        return Loss(shifts, self.pure * count, self.rho * count)

    def __add__(self, other: Loss) -> Loss:
        shifts = dict(self.shifts)
        for ratio, count in other.shifts.items():
            shifts[ratio] = shifts.get(ratio, 0) + count
        return Loss(shifts, self.pure + other.pure, self.rho + other.rho)

    def epsilon(self, delta: float | None = None) -> float:
        """The total loss, pure or at δ; at δ it is a bound from above, never more than the pure loss.

        >>> Loss({Fraction(1, 2): 6}).epsilon()
        3.0
        >>> round(Loss({Fraction(1, 10): 100}).epsilon(delta=1e-5), 1)
        4.2
        """
        laplace = float(sum((ratio * count for ratio, count in self.shifts.items()), Fraction(0)))
        if self.rho:
            if delta is None:
                return math.inf
            check_between(delta, "delta")
            return laplace + float(self.pure) + epsilon_of(float(self.rho), delta)
        if delta is not None and laplace:
            check_between(delta, "delta")
            shifts = {float(ratio): count for ratio, count in self.shifts.items()}
            laplace = min(laplace, from_renyi(shifts, delta), from_law(shifts, delta))
        return laplace + float(self.pure)


def check_between(value: float | Fraction, name: str) -> None:
    """Refuse an option outside (0, 1)."""
    if not 0 < value < 1:
        raise OptionError(f"`{name}` must be between 0 and 1. Got {value}.")


def renyi(ratio: float, order: Floats) -> Floats:
    """Rényi divergence of one Laplace release, for orders a > 1.

    ln[a/(2a - 1)·e^((a-1)r) + (a - 1)/(2a - 1)·e^(-ar)]/(a - 1); it tends to r as a grows.
    """
    large = np.log(order / (2 * order - 1)) + (order - 1) * ratio
    small = np.log((order - 1) / (2 * order - 1)) - order * ratio
    return np.asarray(np.logaddexp(large, small) / (order - 1))


def from_renyi(shifts: Mapping[float, int], delta: float, *, improved: bool = True) -> float:
    """The best ε at δ from the summed Rényi divergence.

    `improved=False` is the published conversion, R + ln(1/δ)/(a - 1) (Mironov 2017); the default is
    R + ln(1 - 1/a) - ln(δ·a)/(a - 1) (Canonne, Kamath, Steinke 2020). Below 0 it is cut.
    """
    total = sum((count * renyi(ratio, _ORDERS) for ratio, count in shifts.items()), np.zeros(_ORDERS.size))
    if improved:
        extra = np.log1p(-1 / _ORDERS) - (math.log(delta) + np.log(_ORDERS)) / (_ORDERS - 1)
    else:
        extra = math.log(1 / delta) / (_ORDERS - 1)
    return max(0.0, float(np.min(total + extra)))


def from_law(shifts: Mapping[float, int], delta: float) -> float:
    """The smallest ε at δ from the law of the total loss: a bound from above."""
    allowed = delta * (1 - _FIXED_POINT) - _NUMERIC
    reach = sum(ratio * count for ratio, count in shifts.items())
    if allowed <= 0 or reach == 0 or not _fits(shifts):
        return reach
    losses, deltas = _curve(tuple(sorted(shifts.items())))
    enough = np.flatnonzero(deltas <= allowed)
    return float(losses[enough[0]]) if enough.size else reach


def delta_at(shifts: Mapping[float, int], epsilon: float) -> float:
    """The δ at which the releases keep this ε, from the law of the total loss: a bound from above.

    >>> round(delta_at({1.0: 1}, 0.5), 4)  # 1 - e^((ε - r)/2)
    0.2212
    """
    reach = sum(ratio * count for ratio, count in shifts.items())
    if epsilon >= reach or not _fits(shifts):
        return 0.0 if epsilon >= reach else 1.0
    losses, deltas = _curve(tuple(sorted(shifts.items())))
    return min(1.0, float(deltas[np.searchsorted(losses, epsilon, side="right") - 1]) + _NUMERIC)


def _fits(shifts: Mapping[float, int]) -> bool:
    """Whether the grid is long and fine enough for these releases."""
    reach = sum(ratio * count for ratio, count in shifts.items())
    return reach <= _LARGEST_REACH and sum(shifts.values()) <= _GRID // 8


@lru_cache(maxsize=4)
def _curve(shifts: tuple[tuple[float, int], ...]) -> tuple[Floats, Floats]:
    """δ(ε) = E[max(0, 1 - e^(ε - L))] of the sum L of all losses, on a grid of ε.

    Each loss is rounded up to a multiple of the grid's step, so δ(ε) can only grow; the sum's law comes from Fourier
    transforms, whose error the callers allow for.
    """
    reach = sum(ratio * count for ratio, count in shifts)
    step = 2.1 * reach / (_GRID - 2 * sum(count for _, count in shifts))
    transform = np.ones(_GRID // 2 + 1, dtype=np.complex128)
    for ratio, count in shifts:
        transform *= np.fft.rfft(_rounded_law(ratio, step)) ** count
    law = np.maximum(np.fft.irfft(transform, _GRID), 0)
    # Entry i stands for a total of i steps, or of i - 2^20 where i is beyond the middle.
    positive = law[: _GRID // 2]
    losses = np.asarray(step * np.arange(positive.size), dtype=np.float64)
    tail = np.cumsum(positive[::-1])[::-1]
    discounted = np.cumsum((positive * np.exp(-losses))[::-1])[::-1]
    return losses, np.asarray(tail - np.exp(losses) * discounted)


def _rounded_law(ratio: float, step: float) -> Floats:
    """The law of one loss on the grid, each value rounded up; negative values are at the end of the array."""
    top = math.ceil(ratio / step)
    border = np.minimum(step * np.arange(-top, top + 1), ratio)
    below = np.where(border >= -ratio, np.exp(-(ratio - border) / 2) / 2, 0.0)
    below[-1] = 1.0
    law = np.zeros(_GRID)
    law[np.arange(-top, top + 1) % _GRID] = np.diff(below, prepend=0.0)
    return law
