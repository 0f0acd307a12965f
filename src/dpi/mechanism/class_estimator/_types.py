"""Types of users: how often they are active, and how soon they leave.

A type is a small Markov chain. Its *states* say how likely a user is active in a slot; in every slot the user leaves
for good with the type's hazard, or goes on to the next state. Some come once. Some are active by chance, at a rate.
Some come in spells: who is active stays so for a while. Some have their day of the week.

Constants of nature, not of a stream: the grid is what weights are learned on.
"""

from __future__ import annotations

import numpy as np

from dpi.exact.integers import Integers
from dpi.mechanism.base import Floats

RATES = (0.07, 0.3, 0.7, 0.998)
HAZARDS = (1e-5, 0.005, 0.02, 0.08, 0.3)
"""Of those who are active by chance: from once in a fortnight to always, from for ever to three slots. Source: a grid;
neighbours are a factor of two or so apart."""
SPELLS = ((0.3, 0.7), (1e-5, 0.02))
CHANGE = 0.08
"""Rates and hazards of those who come in spells, and how likely a spell is drawn anew in a slot. Source: a grid; spells
of a dozen slots."""
WEEKDAYS = ((0.3, 0.95), (1e-5, 0.02))
OTHER_DAYS = 0.025
"""Rates and hazards of those who have their day, and the part of the rate that is left for other days. Source: a
grid."""
WEEK = 7
"""Slots of a week, where a slot is a day. Source: by definition."""


def _chains() -> tuple[list[list[float]], list[float], list[Floats], list[float]]:
    rates, hazards, moves, long_run = [[0.0]], [1.0], [np.eye(1)], [0.0]

    def add(states: list[float], hazard: float, move: Floats, rate: float) -> None:
        rates.append(states)
        hazards.append(hazard)
        moves.append(move)
        long_run.append(rate)

    for rate in RATES:
        for hazard in HAZARDS:
            add([rate], hazard, np.eye(1), rate)
    for rate in SPELLS[0]:
        ending, beginning = CHANGE * (1 - rate), CHANGE * rate
        for hazard in SPELLS[1]:
            add([1.0, 0.0], hazard, np.array([[1 - ending, ending], [beginning, 1 - beginning]]), rate)
    for rate in WEEKDAYS[0]:
        for hazard in WEEKDAYS[1]:
            days = [rate, *[rate * OTHER_DAYS] * (WEEK - 1)]
            add(days, hazard, np.roll(np.eye(WEEK), 1, axis=1), sum(days) / WEEK)
    return rates, hazards, moves, long_run


def _join(moves: list[Floats]) -> Floats:
    size, at = sum(map(len, moves)), 0
    joined = np.zeros((size, size))
    for move in moves:
        joined[at : at + len(move), at : at + len(move)] = move
        at += len(move)
    return joined


_rates, _hazards, _moves, _long_run = _chains()
_sizes = [len(states) for states in _rates]

ACTIVE: Floats = np.concatenate(_rates)
"""How likely each state is active."""
FIRST: Integers = np.cumsum([0, *_sizes[:-1]])
"""The first state of each type; a user who is met the first time is in it."""
HAZARD: Floats = np.array(_hazards)
"""Of each type."""
LONG_RUN: Floats = np.array(_long_run)
"""How likely a user of each type is active, over time."""
TYPES, STATES = HAZARD.size, ACTIVE.size
NEXT: Floats = _join(_moves) * np.repeat(1 - HAZARD, _sizes)[:, None]
"""From state to state in a slot, for who stays."""
ENTER: Floats = np.isin(np.arange(STATES), FIRST).astype(np.float64)
"""Where a user of each type is met the first time. Source: by definition."""


def _stock() -> Floats:
    """Over time, users of a type are in a state so often; over how often they are active."""
    often = np.concatenate([np.linalg.matrix_power(move, 1000).mean(0) for move in _moves])
    return np.asarray(often / np.repeat(np.maximum(LONG_RUN, 1e-9), _sizes) * np.repeat(LONG_RUN > 0, _sizes))


STOCK: Floats = _stock()
"""For every user of a type who is active in a slot: how many there are, in each state; none of those who come once."""


def by_type(states: Floats) -> Floats:
    """Sum over the states of each type."""
    return np.asarray(np.add.reduceat(states, FIRST, axis=-1))


def more_active(log_odds: float | Floats) -> Floats:
    """How likely each state is active, if the odds are e^`log_odds` times as large for all; a row for each of these."""
    factor = np.exp(log_odds)
    return np.asarray(ACTIVE * factor / (1 - ACTIVE + ACTIVE * factor))
