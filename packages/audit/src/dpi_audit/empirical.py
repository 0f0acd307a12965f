"""The empirical audit: a lower confidence bound on ε of a mechanism that is run, not understood.

The mechanism runs many times on two neighbouring streams. A distinguisher is learnt on some of the runs: an event E
that happens more often with the user than without, or the other way round. Fresh runs count how often it happens, and

    ε ≥ ln( lower bound of P(E | one) / upper bound of P(E | other) ).

**Error.** Runs come in batches of doubling size; look j tests, on batch j alone, an event that was chosen on batches
before j. Look j may be wrong with probability error/2^j: half of it for each of its two Clopper–Pearson bounds. So all
looks together are wrong with probability at most `error`, *whenever one stops and for whatever reason*; the best bound
of all looks holds.

**What it cannot find.** A loss that shows in outputs rarer than about 1/runs. A bound below the claim proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpi.errors import OptionError
from dpi_audit.confidence import lowest
from dpi_audit.distinguishers import Floats, Score, enriched, learnt

BlackBox = Callable[[bool, int], Floats]
"""`run(with_user, runs)`: so many independent runs on one of the two streams, a row of numbers for each."""

Progress = Callable[[str], None]

ERROR = 1e-6
_FIRST = 32


@dataclass(frozen=True)
class Bound:
    """A lower bound on ε that is wrong with probability at most `error`."""

    epsilon: float
    error: float
    runs: int
    """Runs made, both streams together."""
    looks: int
    event: str
    """What told the streams apart best."""


@dataclass(frozen=True, eq=False)
class _Event:
    """{score ≥ cut}, or {score ≤ cut} with the streams' roles exchanged."""

    name: str
    score: Score
    cut: float
    reverse: bool

    def counts(self, one: Floats, other: Floats) -> tuple[int, int]:
        """How often it happens in the sample it speaks for, and in the other one."""
        ours, theirs = self.score(one), self.score(other)
        if self.reverse:
            return int((theirs <= self.cut).sum()), int((ours <= self.cut).sum())
        return int((ours >= self.cut).sum()), int((theirs >= self.cut).sum())


def lower_bound(
    run: BlackBox,
    *,
    claimed: float = math.inf,
    most_runs: int = 4_000,
    error: float = ERROR,
    progress: Progress | None = None,
) -> Bound:
    """Run, learn, test, until the bound is above `claimed` or `most_runs` (both streams together) are used up.

    >>> chance = np.random.default_rng(1)
    >>> def leaky(with_user: bool, runs: int) -> Floats:
    ...     return chance.laplace(float(with_user), 1 / 3, size=(runs, 1))
    >>> lower_bound(leaky, claimed=1).epsilon > 1
    True
    """
    if not 0 < error < 1:
        raise OptionError(f"`error` must be above 0 and below 1. Got {error!r}.")
    seen = [_batch(run, side, _FIRST) for side in (True, False)]
    used, look, best = 2 * _FIRST, 0, Bound(0.0, error, 2 * _FIRST, 0, "none")
    size = _FIRST
    while used + 2 * size <= most_runs:
        look += 1
        width = max(rows.shape[1] for rows in seen)
        event = _choose(_prepared(seen[0], width), _prepared(seen[1], width), size, error / 2**look)
        fresh = [_batch(run, side, size) for side in (True, False)]
        used += 2 * size
        bound = 0.0
        if event is not None:
            counts = event.counts(_prepared(fresh[0], width), _prepared(fresh[1], width))
            bound = _bound(counts, size, error / 2**look)
        name = event.name if event is not None and bound > best.epsilon else best.event
        best = Bound(max(bound, best.epsilon), error, used, look, name)
        if progress is not None:
            progress(f"look {look}: {used} runs, ε ≥ {best.epsilon:.3g}")
        if best.epsilon > claimed:
            break
        width = max(rows.shape[1] for rows in (*seen, *fresh))
        seen = [np.concatenate([_wide(rows, width) for rows in side]) for side in zip(seen, fresh, strict=True)]
        size *= 2
    return best


def _batch(run: BlackBox, with_user: bool, runs: int) -> Floats:
    rows = np.asarray(run(with_user, runs), dtype=np.float64)
    if rows.ndim != 2 or len(rows) != runs:
        raise OptionError("a black box must return one row of numbers for each run.")
    return rows


def _wide(rows: Floats, width: int) -> Floats:
    """The rows with so many columns; a missing number is an output too."""
    return np.pad(rows[:, :width], ((0, 0), (0, max(0, width - rows.shape[1]))), constant_values=np.nan)


def _prepared(rows: Floats, width: int) -> Floats:
    return enriched(_wide(rows, width))


def _bound(counts: tuple[int, int], runs: int, error: float) -> float:
    """Ln of the ratio's lower bound, at least 0."""
    low = lowest(counts[0], runs, error / 2)
    high = 1 - lowest(runs - counts[1], runs, error / 2)
    return max(0.0, math.log(low / high)) if low > 0 else 0.0


def _choose(one: Floats, other: Floats, runs: int, error: float) -> _Event | None:
    """The event with the best bound to be hoped for: distinguishers learn on one half, cuts are judged on the other."""
    half = len(one) // 2
    best: tuple[float, _Event] | None = None
    for name, score in learnt(one[:half], other[:half]):
        ours, theirs = np.sort(score(one[half:])), np.sort(score(other[half:]))
        for cut in np.unique(np.quantile(np.concatenate([ours, theirs]), np.linspace(0, 1, 41), method="nearest")):
            above = [x.size - int(np.searchsorted(x, cut, "left")) for x in (ours, theirs)]
            below = [int(np.searchsorted(x, cut, "right")) for x in (theirs, ours)]
            for reverse, (happens, does_not) in ((False, above), (True, below)):
                hope = _hoped(happens, does_not, len(one) - half, runs, error)
                if best is None or hope > best[0]:
                    best = hope, _Event(name, score, float(cut), reverse)
    return None if best is None else best[1]


def _hoped(ours: int, theirs: int, seen: int, runs: int, error: float) -> float:
    """About what `_bound` will give on fresh runs: Wilson's bounds at the rates seen, shrunk by half a count."""
    z = math.sqrt(2 * math.log(2 / error))
    p, q = (ours + 0.25) / (seen + 0.5), (theirs + 0.25) / (seen + 0.5)
    low, high = _wilson(p, runs, -z), _wilson(q, runs, z)
    return math.log(max(low, 1e-12) / max(high, 1e-12))


def _wilson(p: float, n: int, z: float) -> float:
    return (p + z * z / (2 * n) + z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))) / (1 + z * z / n)
