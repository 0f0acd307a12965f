"""What the estimator remembers of a stream, what it takes of a slot, and what it says: all of it public."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpi.estimator._layers import Array
from dpi.estimator._weights import HISTOGRAMS as G
from dpi.estimator._weights import MEMORY, OF_BIN

RECENT = (0.5, 0.8, 0.95)
"""How much of what was seen of a change is kept from slot to slot: about 2, 5 and 20 slots are looked at together."""
FREEDOM = 4.0
QUANTILE = 2.7764451
"""The 97.5 % quantile of a Student law of four degrees."""


class State(NamedTuple):
    """What is remembered: all of it public."""

    level: Array
    """G × B: expected active users, without the season."""
    spread: Array
    """G × B: the variance of the level."""
    common: Array
    """B: the relative variance of what all histograms share."""
    total_spread: Array
    """G: the relative variance of totals."""
    memory: Array
    """G × MEMORY."""
    of_bin: Array
    """OF_BIN × G × B."""
    lifts: Array
    """P × B: logarithms of the season's factors of shares."""
    seen: Array
    """2 × P × B: what measurements told of these logarithms: information times what they were, and information."""
    change: Array
    """2 · windows × B: what recent measurements tell of a lasting change since: information times it, and that."""
    rhythm: Array
    """P: logarithms of the season's factors of totals."""
    met: Array
    """P: how often a phase was met."""
    doubt: Array
    """B: the logarithm of the relative scale with which the next measurement is forecast."""
    doubt_total: Array
    age: Array
    """G: slots since the histogram was measured."""
    slots: Array


class Measurement(NamedTuple):
    """What was measured in a slot."""

    sums: Array
    """G × B: payments plus noise of scale one; zero where a histogram was not due."""
    due: Array
    """G: one or zero."""
    price: Array
    """G: what a user is expected to pay, in units of the noise."""
    phase: Array
    """The phase of the declared season, or 0."""
    season: Array
    """One if a season is declared, else zero."""
    partial: Array
    """One if accounts may be empty, else zero."""
    width: Array = 0.0
    """G: how many payments users of a histogram make before they move on, or zero."""
    mask: Array = 1.0
    """B: one for bins, zero for padding; a plain one without padding."""


class Posterior(NamedTuple):
    """What is known after a slot. Scales are those of a Student law of `FREEDOM` degrees."""

    shares: Array
    share_scale: Array
    """B: logarithms."""
    numbers: Array
    """Logarithms of one plus active users, newcomers, returning users."""
    number_scale: Array
    """Logarithms of the scales of these logarithms."""
    members: Array
    """G: active users by histogram."""
    forecast: Array
    """B: what was forecast of this measurement, summed over due histograms, before it was seen."""
    forecast_scale: Array
    forecast_total: Array
    forecast_total_scale: Array


def initial_state(bins: int, period: int = 1, xp: Any = np) -> State:
    """Return the state before the first slot."""

    def zeros(*shape: int) -> Array:
        return xp.zeros(shape, dtype=xp.float32)

    return State(
        zeros(G, bins), zeros(G, bins), zeros(bins), zeros(G), zeros(G, MEMORY), zeros(OF_BIN, G, bins),
        zeros(period, bins), zeros(2, period, bins), zeros(2 * len(RECENT), bins), zeros(period), zeros(period),
        zeros(bins), zeros(), zeros(G), zeros(),
    )  # fmt: skip
