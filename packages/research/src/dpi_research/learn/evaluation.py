"""What the filter says of a stream, slot after slot, beside the truth: numpy alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from dpi_research.learn.budgets import Budget, Listed
from dpi_research.learn.calibration import Calibration, calibrate
from dpi_research.learn.filter import QUANTILE, Measurement, initial_state, step
from dpi_research.learn.individuals import individuals
from dpi_research.learn.prices import Floats, Wholes
from dpi_research.learn.records import Record, collect
from dpi_research.learn.shapes import Weights

FEWEST = 10
"""Slots with fewer users are left out."""


class Said(NamedTuple):
    """Estimates of all slots with 95 % intervals: T × K shares, T × 3 numbers (active, newcomers, returning)."""

    shares: Floats
    share_width: Floats
    numbers: Floats
    low: Floats
    high: Floats
    inside: Floats
    """T: whether the measurement's total was inside of its forecast; NaN where nothing was due."""


def follow(weights: Weights, measured: Record, seed: int, *, calibrated: bool = True) -> Said:
    """Return what the filter says of a stream, with noise of a seed; intervals as calibrated on the stream itself."""
    rng = np.random.default_rng([seed, 59])
    sums = measured.noisy(rng)
    state = initial_state(sums.shape[2], max(measured.period, 1))
    season, partial = np.float32(measured.period > 0), np.float32(measured.partial)
    rows, widening = [], Calibration()
    for slot in range(len(sums)):
        phase = slot % measured.period if measured.period else 0
        due = measured.due[slot]
        seen = Measurement(sums[slot], due, measured.price[slot], phase, season, partial)
        state, said = step(weights, state, seen)
        if calibrated and slot:
            widening = calibrate(widening, seen, said)
        wider, wider_total = widening.factors
        scale = np.exp(said.number_scale) * wider_total
        numbers, low, high = (
            np.maximum(np.expm1(np.clip(said.numbers + sign * QUANTILE * scale, -1, 40)), 0) for sign in (0, -1, 1)
        )
        wrong = abs(sums[slot].sum() - said.forecast_total) <= 2.3 * said.forecast_total_scale
        inside = float(wrong) if due.any() and slot else np.nan
        rows.append((said.shares, wider * QUANTILE * np.exp(said.share_scale), numbers, low, high, inside))
    return Said(*[np.array(column, dtype=np.float64) for column in zip(*rows, strict=True)])


class Scores(NamedTuple):
    """Scores of each slot: T numbers."""

    divergence: Floats
    uniform: Floats
    """The divergence of the uniform guess."""
    bins_inside: Floats
    inside: Floats
    """Whether the number of active users is inside of its interval."""
    error: Floats
    half_width: Floats
    """Both relative to the number of active users."""
    newcomers_inside: Floats
    returning_inside: Floats
    share_width: Floats


def compare(measured: Record, said: Said) -> Scores:
    """Return the scores of slots with enough users."""
    total = measured.users.sum(1)
    ok = total >= FEWEST
    users, total = measured.users[ok], total[ok]
    shares, width = said.shares[ok], said.share_width[ok]
    truth = users / total[:, None]
    known = np.stack([total, measured.newcomers[ok], total - measured.newcomers[ok]], 1)
    low, high, numbers = said.low[ok], said.high[ok], said.numbers[ok]
    held = (known >= np.floor(low)) & (known <= np.ceil(high))
    return Scores(
        divergence(truth, shares),
        divergence(truth, np.full_like(truth, 1 / truth.shape[1])),
        (np.abs(truth - shares) <= width).mean(1),
        held[:, 0].astype(float),
        np.abs(numbers[:, 0] - total) / total,
        (high[:, 0] - low[:, 0]) / 2 / total,
        held[:, 1].astype(float),
        held[:, 2].astype(float),
        width.mean(1),
    )


def divergence(truth: Floats, shares: Floats) -> Floats:
    """Return the KL divergence of each row."""
    ratio = np.log(np.maximum(truth, 1e-12) / np.maximum(shares, 1e-12))
    return np.asarray(np.where(truth > 0, truth * ratio, 0.0).sum(1))


def measure_stream(
    stream: Iterable[tuple[Wholes, Wholes]],
    bins: int,
    epsilon: float,
    period: int | None = None,
    budget: Budget | None = None,
    seed: int = 0,
) -> Record:
    """Return the record of a stream of users and values, by the default price list unless a budget is given."""
    budget = budget or Listed(bins, epsilon)
    return collect(individuals(stream, bins, epsilon, budget, seed), epsilon, period, budget.partial)


def summary(scores: Scores) -> str:
    """Return the means over slots, and medians of the error and half-width of numbers, as one line."""
    return (
        f"KL {scores.divergence.mean():.5f} uniform {scores.uniform.mean():.3f} "
        f"bins inside {scores.bins_inside.mean():.3f} width {scores.share_width.mean():.4f} | "
        f"active inside {scores.inside.mean():.3f} error {np.median(scores.error):.3f} "
        f"half-width {np.median(scores.half_width):.3f} | newcomers inside {scores.newcomers_inside.mean():.3f} "
        f"returning inside {scores.returning_inside.mean():.3f}"
    )
