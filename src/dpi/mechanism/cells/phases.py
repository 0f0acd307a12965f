"""From phase to phase of a season: what was learned in one is taken to another by the ratio of their profiles.

Between slots every law and every cell is kept as it is in the phase in which it was learned, so that what is found out
about the season later serves it too, and what changes in a profile does not add up. In a slot all are in its phase.
Without a season all phases are one.

Sees laws made of counts after noise; no histogram, no user.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpi.mechanism.base import Floats
from dpi.mechanism.cells import season as seasons
from dpi.mechanism.cells.cells import BEHIND, PAID
from dpi.mechanism.cells.law import Law
from dpi.mechanism.cells.state import CellsState
from dpi.mechanism.filtering.changed import replace
from dpi.mechanism.filtering.gaussians import Gaussians

_NOWHERE: Floats = np.ones((4, 1))
"""The ratios by which laws are taken where all phases are one."""


def laws(state: CellsState) -> tuple[Law, Law, Law, Law]:
    """Of newcomers, pooled, of veterans and of everybody."""
    return state.newcomers, state.pool, state.veterans, state.everybody


def with_laws(state: CellsState, four: Sequence[Law]) -> CellsState:
    """The state with other laws."""
    newcomers, pool, veterans, everybody = four
    return replace(state, newcomers=newcomers, pool=pool, veterans=veterans, everybody=everybody)


def entered(state: CellsState, slot: int) -> tuple[CellsState, Floats]:
    """Laws and cells in the phase of a slot, and the ratios by which laws were taken there.

    What is not known of the profiles widens the laws of cells. Laws of all have trackers that drift for that.
    """
    season = state.season
    if not season.period:
        return state, _NOWHERE
    learned = np.concatenate([[slot % season.period], season.laws, season.cells.ravel()])
    phases, at = np.unique(learned, return_inverse=True)
    profile, now = seasons.profiles(season, phases.astype(np.int64)), at[0]
    ratios, relative = profile.mean[now] / profile.mean, profile.variance / profile.mean**2
    doubts = relative[now] + relative
    doubts[now] = 0.0
    steps, shape = ratios[at[1:5]], state.cells.mean.shape
    ratio, doubt = ratios[at[5:]].reshape(shape), doubts[at[5:]].reshape(shape)
    mean = state.cells.mean * ratio
    whole = mean.sum(-1, keepdims=True)
    mean /= whole
    variance = state.cells.variance * (ratio / whole) ** 2 + doubt * mean**2
    cells = replace(state.cells, mean=mean, variance=variance)
    absent = Gaussians(state.absent.mean * ratio[BEHIND], state.absent.variance * ratio[BEHIND] ** 2)
    drift = replace(state.drift, offset=state.drift.offset + np.log(steps[0]))
    return replace(with_laws(state, _taken(laws(state), steps)), cells=cells, absent=absent, drift=drift), steps


def _taken(four: Sequence[Law], steps: Floats) -> list[Law]:
    return [
        replace(law, messages=Gaussians(law.messages.mean * step, law.messages.variance * step**2))
        if law.known
        else law
        for law, step in zip(four, steps, strict=True)
    ]


def left(before: CellsState, after: CellsState, due: int, told: Sequence[bool], steps: Floats) -> CellsState:
    """A state after a slot: what was learned in it stays in its phase, all else goes back to its own.

    `before` is the state before the slot, `due` the number of classes that were measured, and `told` says which laws
    were.
    """
    season = after.season
    if not season.period:
        return after
    touched = np.zeros(season.cells.shape, dtype=np.bool_)
    touched[:, 1:due] = True
    touched[PAID, np.minimum(np.arange(1, due + 1), after.classes - 1)] = True
    cells, old, row, phase = after.cells, before.cells, touched[BEHIND][:, None], after.slot % season.period
    back = np.where(np.array(told)[:, None], 1.0, 1 / steps)
    return replace(
        with_laws(after, _taken(laws(after), back)),
        cells=replace(
            cells,
            mean=np.where(touched[..., None], cells.mean, old.mean),
            variance=np.where(touched[..., None], cells.variance, old.variance),
        ),
        absent=Gaussians(
            np.where(row, after.absent.mean, before.absent.mean),
            np.where(row, after.absent.variance, before.absent.variance),
        ),
        season=replace(
            season,
            laws=np.where(told, phase, season.laws),
            cells=np.where(touched, phase, season.cells),
        ),
    )
