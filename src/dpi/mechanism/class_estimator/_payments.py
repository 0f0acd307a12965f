"""What a slot asks: which classes are due, which share of what is left each pays, and in which histogram.

**Who is due.** Class m in the slots of a level of at least min(m, `longest_wait`) of the public clock: newcomers in
every slot, others in one of two, four and at last eight. Eight small payments saved up for one slot tell what hardly
moves better, where noise hides it; where a bin has users enough, a payment in every slot tells it as well, and shows a
jump at once. So the longest wait falls with the root of λε, and is one slot from some thousands on.

**How much.** A user who is there for ever should spread ε over time so that what is known does not decay faster than it
must: the part (t + x)^-a of it in slot t, where x is the longer the more users a bin has, and the larger ε (λ·ε, users
times ε over bins; docs/estimator.md, Payments). Not all are there for ever. So a class keeps what its own people are
expected to use: f = now / (now + later), where `later` is the same power law, over the time that users of each type
still stay and are active. Who never returns pays all but what a regular among them needs (`MOST`).

Newcomers pay at least what makes their law as well known as that of the others, by how many of both there are.

**Alike.** In one histogram a user counts by what they pay. Where classes pay unlike amounts, a total says little of
how many users paid it, and those who have little left are hardly seen. So a class pays half of its own share, and half
of what the due classes of its histogram pay on average.

A function of what was released before, so it tells nothing about the slot's users. Sees no account.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dpi.budget.billing import SHARE_STEPS
from dpi.budget.classes import PaymentRequest, level
from dpi.mechanism.base import Floats
from dpi.mechanism.class_estimator._hypotheses import GROUP_OF
from dpi.mechanism.class_estimator._state import UsersState
from dpi.mechanism.class_estimator._types import HAZARD, LONG_RUN

LONGEST, CLEAR = 3, 100.0
"""The highest level that a class ever waits for: eight slots on average; and up to which λ·ε it does. Source:
docs/estimator.md, What was tried; 10, 30, 50, 300, 1,000 and 3,000 were compared on streams of 5,000 to 1,000,000 users
times ε."""
FIRST = Fraction(1, 2)
"""What users of the first slot pay, of whom nothing is known. Source: by calculation; the geometric mean of what one
pays who comes once and one who stays."""
MOST, RETURNING = 0.85, 0.5
"""No newcomer is asked for more, so that who returns is always heard; nor who has returned, who may go on. Source: the
rule of the clocked ledger; a half is what one pays of whom nothing is known, and was compared with .35, .6 and .85 on
random worlds, which hardly differ."""
ALIKE = 0.5
"""How much of what a class pays is what its histogram pays on average. Source: docs/estimator.md, What was tried; none,
half and all were compared."""
SINCE = 0.5
"""The part of a stream's slots since which users of the last class have paid. Source: a guess, which scores do not tell
from .35 or .65 (docs/estimator.md, Constants)."""
DECAY = 1.7
STRETCH, GROWTH, LEAST = 4 * 0.22, 0.6, 4 * 0.5
"""The power a, and x = max(0, STRETCH·(λε)^GROWTH - LEAST) slots. Source: docs/estimator.md, Payments;
docs/estimator.md, What was tried."""
_AHEAD: Floats = np.exp(np.linspace(np.log(0.25), np.log(20_000), 60))
_STEPS: Floats = np.gradient(_AHEAD)
_LATER: Floats = (1 - HAZARD[:, None]) ** (_AHEAD + 1) * LONG_RUN[:, None] * _STEPS
"""How likely a user of each type is active so many slots later."""


def request_payments(state: UsersState, slot: int) -> PaymentRequest:
    """Return what a slot asks of each class that is due."""
    if not state.known:
        return (((0, FIRST),),)
    top, longest = state.classes - 1, longest_wait(state)
    due = level(slot, longest)
    shares = np.minimum(class_shares(state), np.r_[MOST, np.full(top, RETURNING)])
    users, left = state.activity.by_class()
    paid, groups = users * left * shares, GROUP_OF[: top + 1]
    here = np.minimum(np.arange(top + 1), longest) <= due
    on_average = np.bincount(groups, here * paid) / np.maximum(np.bincount(groups, here * users), 1e-9)
    alike = np.minimum(on_average[groups] / np.maximum(left, 1e-6), RETURNING)
    shares[1:] += ALIKE * (alike - shares)[1:]
    asked: dict[int, list[tuple[int, Fraction]]] = {}
    for m in np.flatnonzero(here).tolist():
        steps = max(int(shares[m] * SHARE_STEPS), 1)
        asked.setdefault(int(groups[m]), []).append((m, Fraction(steps, SHARE_STEPS)))
    return tuple([tuple(group) for group in asked.values()])


def longest_wait(state: UsersState) -> int:
    """Return the highest level that a class waits for, by the users of a bin that were released before.

    >>> from dataclasses import replace
    >>> state = replace(UsersState.begun(bins=10, classes=15, season=0), epsilon=1.0)
    >>> [longest_wait(replace(state, users_per_bin=each)) for each in (10, 300, 1000, 10_000)]
    [3, 2, 1, 0]
    """
    signal = max(state.users_per_bin * state.epsilon, 1e-9)
    return int(np.clip(round(LONGEST + 0.5 * np.log2(CLEAR / signal)), 0, LONGEST))


def class_shares(state: UsersState) -> Floats:
    """Return the share of what is left that each class would pay, before any bound.

    The last class takes all who have paid more often than the class before it. How long ago they came is not known: at
    least half of the stream's slots, which is a guess (docs/estimator.md, Constants).
    """
    waits = 2.0 ** np.minimum(np.arange(state.classes), longest_wait(state))
    past = np.cumsum(waits) - waits
    past[-1] = max(past[-1], SINCE * state.slots)
    stretch = max(STRETCH * (state.users_per_bin * state.epsilon) ** GROWTH - LEAST, 1e-6)
    now = ((past + stretch) ** (1 - DECAY) - (past + waits + stretch) ** (1 - DECAY)) / (DECAY - 1)
    needed = (past[:, None] + waits[:, None] + _AHEAD + stretch) ** -DECAY
    types = state.activity.types
    shares = now / (now + ((needed @ _LATER.T) * types).sum(1))
    return np.asarray(np.r_[max(shares[0], _as_well_known(state, types[0])), shares[1:]])


def _as_well_known(state: UsersState, types: Floats) -> float:
    """Return what newcomers pay if errors of their law and of the others' are to weigh the same in the whole."""
    often = LONG_RUN * (1 - HAZARD)
    back = float(types @ (often / (often + 2 * HAZARD)))
    odds = np.sqrt(state.newcomers * back / max(1 - state.newcomers, 1e-3))
    return float(odds / (1 + odds))
