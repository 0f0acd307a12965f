"""What the filter says of a stream, slot after slot, beside the truth: numpy alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from dpi.estimator import (
    AFTER,
    QUANTILE,
    WINDOWS,
    Calibration,
    Measurement,
    Posterior,
    Released,
    Told,
    Weights,
    calibrate,
    initial_state,
    next_people,
    no_people,
    step,
)
from dpi.estimator.prices import Floats, Wholes
from dpi_research.learn.budgets import Asked, Budget, Listed
from dpi_research.learn.crowds import Slot
from dpi_research.learn.individuals import individuals
from dpi_research.learn.ledger import Visits
from dpi_research.learn.records import Record, collect, widths

FEWEST = 10
"""Slots with fewer users are left out."""
LEAST = 0.02
"""No retention is said to be better known than this."""


class Said(NamedTuple):
    """Estimates of all slots with 95 % intervals: T × K shares, T × 3 numbers (active, newcomers, returning)."""

    shares: Floats
    share_width: Floats
    numbers: Floats
    low: Floats
    high: Floats
    inside: Floats
    """T: whether the measurement's total was inside of its forecast; NaN where nothing was due."""
    told: list[Told]
    """What the heads said of people in each slot; nothing of weights without heads."""
    wider: Floats
    """T: by what intervals of numbers were widened."""


class Follower:
    """The filter on one stream, with intervals as calibrated on it."""

    def __init__(
        self, weights: Weights, bins: int, period: int, partial: bool, width: Floats, *, calibrated: bool = True
    ) -> None:
        self._weights, self._period, self._calibrated = weights, period, calibrated
        self._season, self._partial, self._width = np.float32(period > 0), np.float32(partial), width
        self._state, self._widening, self._slot = initial_state(bins, max(period, 1)), Calibration(), 0
        self.rows: list[tuple[Any, ...]] = []
        self.posteriors: list[Posterior] = []
        self.released: list[Released] = []
        self._people, self.told = no_people(), list[Told]()

    def hear(self, sums: Floats, due: Floats, price: Floats) -> Floats:
        """Take a slot's measurement; return active users, newcomers and returning users as they are released."""
        slot, self._slot = self._slot, self._slot + 1
        phase = slot % self._period if self._period else 0
        seen = Measurement(sums, due, price, phase, self._season, self._partial, self._width)
        self._state, said = step(self._weights, self._state, seen)
        self.posteriors.append(said)
        signal = due * price * said.members / np.sqrt(np.float32(2 * sums.shape[1]))
        released = Released(said.numbers, said.number_scale, said.members, signal, self._season, self._partial)
        self.released.append(released)
        if "people_in" in self._weights:
            self._people, told = next_people(self._weights, self._people, released)
            self.told.append(told)
        if self._calibrated and slot:
            self._widening = calibrate(self._widening, seen, said)
        wider, wider_total = self._widening.factors
        scale = np.exp(said.number_scale) * wider_total
        numbers, low, high = (
            np.maximum(np.expm1(np.clip(said.numbers + sign * QUANTILE * scale, -1, 40)), 0) for sign in (0, -1, 1)
        )
        held = abs(sums.sum() - said.forecast_total) <= 2.3 * said.forecast_total_scale
        inside = float(held) if due.any() and slot else np.nan
        self.rows.append(
            (said.shares, wider * QUANTILE * np.exp(said.share_scale), numbers, low, high, inside, wider_total)
        )
        return np.asarray(numbers)

    def said(self) -> Said:
        """Return what was said so far."""
        shares, width, numbers, low, high, inside, wider = [
            np.array(column, dtype=np.float64) for column in zip(*self.rows, strict=True)
        ]
        return Said(shares, width, numbers, low, high, inside, self.told, wider)


def follow(weights: Weights, measured: Record, seed: int, *, calibrated: bool = True) -> Said:
    """Return what the filter says of a recorded stream, with noise of a seed."""
    sums = measured.noisy(np.random.default_rng([seed, 59]))
    follower = Follower(
        weights, sums.shape[2], measured.period, measured.partial, measured.width, calibrated=calibrated
    )
    for slot, due, price in zip(sums, measured.due, measured.price, strict=True):
        follower.hear(slot, due, price)
    return follower.said()


def follow_stream(
    weights: Weights,
    stream: Iterable[tuple[Wholes, Visits]],
    bins: int,
    epsilon: float,
    period: int | None = None,
    budget: Budget | None = None,
    seed: int = 0,
) -> tuple[Record, Said]:
    """Return the record of a stream of users and values, whose budget hears what the filter says, and what it says.

    The budget is the default price list unless one is given.
    """
    budget = budget or Listed(bins, epsilon)
    rng = np.random.default_rng([seed, 59])
    follower = Follower(weights, bins, period or 0, budget.partial, widths(budget))

    def heard() -> Iterator[tuple[Asked, Slot]]:
        for asked, slot in individuals(stream, bins, budget):
            yield asked, slot
            due = asked.due.astype(np.float32)
            sums = (slot.paid * epsilon + rng.laplace(size=slot.paid.shape)) * due[:, None]
            numbers = follower.hear(sums.astype(np.float32), due, (asked.prices * epsilon).astype(np.float32))
            budget.hear(float(numbers[1]), float(numbers[2]))

    return collect(heard(), epsilon, period, budget), follower.said()


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


class Engagement(NamedTuple):
    """Of one head: the median error over slots, and how often the truth is inside. Relative, but of shares of users."""

    error: float
    inside: float


def engagement(measured: Record, said: Said) -> dict[str, Engagement]:
    """Return the scores of the heads of people, over slots with enough users (and cohorts with enough newcomers)."""
    told = Told(*(np.array(part) for part in zip(*said.told, strict=True)))
    active = measured.users.sum(1)
    again, ok = measured.again, active >= FEWEST
    scores = dict[str, Engagement]()

    def add(name: str, truth: Floats, guess: Floats, log_scale: Floats, here: Floats, relative: bool) -> None:
        width = QUANTILE * np.exp(log_scale)
        if relative:
            width = width * said.wider
            wrong = np.log(np.maximum(truth, 1e-9)) - guess
            error = np.abs(np.expm1(-wrong))
        else:
            wrong = truth - guess
            error = np.abs(wrong)
        if here.any():
            scores[name] = Engagement(float(np.median(error[here])), float((np.abs(wrong) <= width)[here].mean()))

    add("reach", again[:, 0], told.reach, told.reach_scale, ok, relative=True)
    for place, window in enumerate(WINDOWS):
        full = ok & (np.arange(len(ok)) >= window - 1)
        distinct = again[:, 1 + place]
        add(f"actives {window}", distinct, told.distinct[:, place], told.distinct_scale[:, place], full, relative=True)
        of = active / np.maximum(distinct, 1)
        add(
            f"stickiness {window}", of, np.exp(told.stickiness[:, place]),
            told.stickiness_scale[:, place] + told.stickiness[:, place], full, relative=False,
        )  # fmt: skip
    for place, after in enumerate(AFTER):
        size, back = again[:, 3 + place], again[:, 6 + place]
        share = back / np.maximum(size, 1)
        scale = np.maximum(told.retention_scale[:, place], np.log(LEAST))
        add(f"retention {after}", share, told.retention[:, place], scale, ok & (size >= FEWEST), relative=False)
    return scores


def divergence(truth: Floats, shares: Floats) -> Floats:
    """Return the KL divergence of each row."""
    ratio = np.log(np.maximum(truth, 1e-12) / np.maximum(shares, 1e-12))
    return np.asarray(np.where(truth > 0, truth * ratio, 0.0).sum(1))


def summary(scores: Scores) -> str:
    """Return the means over slots, and medians of the error and half-width of numbers, as one line."""
    return (
        f"KL {scores.divergence.mean():.5f} uniform {scores.uniform.mean():.3f} "
        f"bins inside {scores.bins_inside.mean():.3f} width {scores.share_width.mean():.4f} | "
        f"active inside {scores.inside.mean():.3f} error {np.median(scores.error):.3f} "
        f"half-width {np.median(scores.half_width):.3f} | newcomers inside {scores.newcomers_inside.mean():.3f} "
        f"returning inside {scores.returning_inside.mean():.3f}"
    )
