"""Engagement: retention, stickiness and further activity, as the types of active users imply them.

Weights of types say how often users come and how soon they leave (`_types`), so they say what share of newcomers is
active n slots later, how many distinct users a week has for every active one, and how often today's users will come.
Every member of the ensemble has its own answer; their spread, widened, is the uncertainty.

*What is offered.* Types are learned from totals, never from a user's visits, and some streams say little of them. DPI
gives no answer until the data has narrowed the prior over the types. The rule sees released numbers alone, so what is
left out is public.

*Widening.* The members' variance grows as that of numbers of users does (`_activity`). Three terms are added: chance,
which is binomial; a slot's activity, which all users share; and the grid of types, which is coarse.

Sees weights that were fitted to totals after noise; no histogram, no user.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpi.mechanism.base import AFTER, ENGAGEMENT, HORIZON, WINDOWS, Floats
from dpi.mechanism.class_estimator._ensemble import HYPOTHESES, NOBODY, PRIOR, USUAL
from dpi.mechanism.class_estimator._types import ACTIVE, ENTER, FIRST, NEXT, STOCK, by_type, more_active

RETAINED = 3.0
"""By what the members' variance of retention grows further: a total does not say who of its users returned. Source: by
trial on 40 random worlds: with one, 83 % of the intervals of newcomers after 7 slots hold, with three 93 %. With two,
on 40 others, 87 % of those of the first slot's users after 30 slots hold."""
COARSE = 0.2
"""Deviation that the grid of types has, as a part of p·(1 - p). Source: by trial on the same worlds."""
STICKINESS: tuple[float, ...] = (0.101, 0.064)
"""Deviations of stickiness by the prior over the types, for each of `WINDOWS`. Source: by simulation; a test repeats
it."""

PAST = max(WINDOWS) - 1
"""Earlier slots that a window has. Source: by definition."""

_met = np.where(STOCK > 0, STOCK * ACTIVE, 1.0)  # in which state a user of each type is who is active at first
_later = np.stack([np.linalg.matrix_power(NEXT, n) for n in AFTER])


def _expect_slots() -> tuple[Floats, Floats]:
    """Return the active part of the horizon by state; how likely a type is not for 0, 1, 2, … slots after one."""
    often, quiet, quiets = np.zeros(ACTIVE.size), np.ones(ACTIVE.size), []
    for _ in range(HORIZON):
        quiets.append(quiet[FIRST])
        often, quiet = NEXT @ (ACTIVE + often), NEXT @ ((1 - ACTIVE) * quiet) + 1 - NEXT.sum(1)
    return often / HORIZON, np.array(quiets)


_often, _quiets = _expect_slots()
_quiet = np.stack([(np.arange(PAST, 0, -1) < n)[:, None] * _quiets[PAST:0:-1] for n in WINDOWS])  # as `past` stands


class Active(NamedTuple):
    """Active users of a slot by cohort and state, if all of a cohort were of one type; and the weights of types."""

    users: Floats
    newcomers: Floats
    """Those of the active users who are new in the slot."""
    everyone: Floats
    """Weights of each member of the ensemble, by cohort and type."""
    shares: Floats
    """How likely each member of the ensemble is."""
    widening: float
    common: float
    """Relative variance of a slot's activity that all share."""


def _prior(values: Floats, returning: float = 1.0) -> float:
    """Deviation of Σ weights·values by the Dirichlet prior; only so likely does anybody return."""
    mean = float(USUAL @ values)
    variance = (float(USUAL @ values**2) - mean**2) / (1 + float(PRIOR.sum()))
    return float((returning * (variance + mean**2) - (returning * mean) ** 2) ** 0.5)


def _deviations() -> dict[str, float]:
    deviations = {"further_activity": _prior(by_type(_met * _often))}
    for n, later in zip(AFTER, _later, strict=True):
        deviations[f"first_retention_{n}"] = _prior(by_type(_met @ later * ACTIVE))
        deviations[f"retention_{n}"] = _prior(by_type(ENTER @ later * ACTIVE), 1 - float(np.exp(HYPOTHESES[NOBODY])))
    return deviations | {f"stickiness_{n}": one for n, one in zip(WINDOWS, STICKINESS, strict=True)}


PRIOR_DEVIATIONS: dict[str, float] = _deviations()
"""What each number's deviation is before anything was measured; of further activity, as a part of the horizon."""
_NEW, _FIRST, _STICKY, _FURTHER = slice(0, 3), slice(3, 6), slice(6, 8), 8
"""Where these stand in `ENGAGEMENT`. Source: by definition."""
_PRIOR: Floats = np.array([PRIOR_DEVIATIONS[name] for name in ENGAGEMENT]) ** 2
_WIDER: Floats = np.repeat([RETAINED, RETAINED, 1.0], 3)
_SCALE: Floats = np.array([*[1.0] * 8, HORIZON])


def estimate_engagement(
    active: Active, past: Floats, slots: tuple[int, int], people: tuple[float, float, float], phases: Floats
) -> Floats:
    """Return the numbers of `ENGAGEMENT` and their variances, a row each; NaN where not narrower than the prior.

    `past` has the active users of earlier slots by cohort and type, the latest last. `slots` say how many of these
    there were, and how many slots ago the first was. `people` are numbers of newcomers, of the first slot's users, and
    of active users; `phases` how active users are `AFTER` so many slots, of this one and of the first.
    """
    users, weights = active.users, active.everyone.T
    now, then = more_active(np.log(phases)[..., None])
    here, new, often = by_type(np.stack([users, active.newcomers, users * _often]))
    both = np.zeros((2, len(ENGAGEMENT), *here.shape))
    parts, wholes = both
    parts[_NEW], wholes[_NEW] = by_type(active.newcomers @ _later * now[:, None]), new
    parts[_FIRST, 0], wholes[_FIRST, 0] = by_type(_met @ _later * then), 1.0
    parts[_STICKY], wholes[_STICKY] = here, here + np.einsum("wkt,kct->wct", _quiet, past)  # each in their last slot
    parts[_FURTHER], wholes[_FURTHER] = often, here
    part, whole = both.reshape(2, len(ENGAGEMENT), -1) @ weights
    shares = part / np.maximum(whole, 1e-9)
    mean = shares @ active.shares
    spread, chance = (shares - mean[:, None]) ** 2 @ active.shares, mean * (1 - mean)
    variance = _WIDER * active.widening * spread + active.common * mean**2 + (COARSE * chance) ** 2
    variance += chance / np.maximum(np.repeat(people, 3), 1.0)
    known, ago = slots
    whole_window = np.array([*[0] * 3, *AFTER, *WINDOWS, 0]) <= np.repeat([0, ago, known + 1, 0], [3, 3, 2, 1])
    return np.where(whole_window & (variance < _PRIOR), [_SCALE * mean, _SCALE**2 * variance], np.nan).T
