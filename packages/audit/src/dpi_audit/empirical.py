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

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpi.errors import OptionError
from dpi.noise import RandomSource, SystemSource, add_laplace
from dpi.testing.laws import Finite, Joint, Laplace, Law, Point
from dpi_audit._distinguishers import Floats, Score, enriched, learnt
from dpi_audit.exact import Open
from dpi_audit.neighbours import Neighbours

BlackBox = Callable[[bool, int], Floats]
"""`run(with_user, runs)`: so many independent runs on one of the two streams, a row of numbers for each."""

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

    @property
    def witness(self) -> str:
        """The event and the runs, in words."""
        return f"{self.event}, {self.runs} runs"


@dataclass(frozen=True, eq=False)
class _Event:
    """{score ≥ cut}, or {score ≤ cut} with the streams' roles exchanged."""

    name: str
    score: Score
    cut: float
    reverse: bool

    def counts(self, one: Floats, other: Floats) -> tuple[int, int]:
        """Return how often it happens in the sample it speaks for, and in the other one."""
        ours, theirs = self.score(one), self.score(other)
        if self.reverse:
            return int((theirs <= self.cut).sum()), int((ours <= self.cut).sum())
        return int((ours >= self.cut).sum()), int((theirs >= self.cut).sum())


def lower_bound(run: BlackBox, *, claimed: float = math.inf, most_runs: int = 4_000, error: float = ERROR) -> Bound:
    """Run, learn and test until the bound is above `claimed` or `most_runs` (both streams together) are used up.

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
        one, other = (enriched(_wide(rows, width)) for rows in seen)
        event = _choose(one, other, size, error / 2**look)
        fresh = [_batch(run, side, size) for side in (True, False)]
        used += 2 * size
        bound = 0.0
        if event is not None:
            counts = event.counts(*(enriched(_wide(rows, width)) for rows in fresh))
            bound = _bound(counts, size, error / 2**look)
        name = event.name if event is not None and bound > best.epsilon else best.event
        best = Bound(max(bound, best.epsilon), error, used, look, name)
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
    """Return the rows with so many columns; a missing number is an output too."""
    return np.pad(rows[:, :width], ((0, 0), (0, max(0, width - rows.shape[1]))), constant_values=np.nan)


def _bound(counts: tuple[int, int], runs: int, error: float) -> float:
    """Ln of the ratio's lower bound, at least 0."""
    low = lowest(counts[0], runs, error / 2)
    high = 1 - lowest(runs - counts[1], runs, error / 2)
    return max(0.0, math.log(low / high)) if low > 0 else 0.0


def _choose(one: Floats, other: Floats, runs: int, error: float) -> _Event | None:
    """Return the event with the best bound to be hoped for.

    Distinguishers learn on one half, cuts are judged on the other.
    """
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


def draw(law: Law, source: RandomSource) -> object:
    """Draw one output of a law.

    >>> draw(Joint((Point("x"), Finite({3: 0.0}))), SystemSource())
    ('x', 3)
    """
    if isinstance(law, Point):
        return law.value
    if isinstance(law, Laplace):
        return add_laplace(law.values, law.scale, source)
    if isinstance(law, Joint):
        return tuple(draw(part, source) for part in law.parts)
    if isinstance(law, Finite):
        outputs, chances = zip(*((y, math.exp(log)) for y, log in law.logarithms.items()), strict=True)
        # 53 bits and a sum that is off by rounding: good enough to audit with, and for nothing else
        target = int(source.words(1)[0] >> np.uint64(11)) / 2.0**53 * sum(chances)
        return outputs[int(np.searchsorted(np.cumsum(chances)[:-1], target, side="right"))]
    raise OptionError(f"outputs of {type(law).__name__} cannot be drawn here: run the mechanism itself.")


def transcripts(open_session: Open, neighbours: Neighbours) -> BlackBox:
    """Return runs of a session, drawn from its own laws: all outputs and all that is seen besides, as numbers."""

    def one_run(with_user: bool, source: RandomSource) -> list[float]:
        session, seen = open_session(), list[float]()
        for rows in neighbours.one if with_user else neighbours.other:
            output = draw(session.look(rows), source)
            seen += [*_numbers(output), *_numbers(session.force(output))]
        return seen

    def run(with_user: bool, runs: int) -> Floats:
        source = SystemSource()
        outputs = [one_run(with_user, source) for _ in range(runs)]
        longest = max(map(len, outputs))
        return np.array([row + [0.0] * (longest - len(row)) for row in outputs])

    return run


def _numbers(output: object) -> list[float]:
    """Return numbers as they are, anything else as a number that differs where it does."""
    if isinstance(output, tuple):
        return [number for part in output for number in _numbers(part)]
    if isinstance(output, np.ndarray):
        return [float(number) for number in output]
    if isinstance(output, int | float):
        return [float(output)]
    return [float(int.from_bytes(hashlib.blake2b(repr(output).encode(), digest_size=4).digest(), "big"))]


_STEPS, _TINY = 100, 1e-300
_NEAR = 1e-13
"""Relative: a bound that is so near to the best one is it."""


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), by its continued fraction (Lentz's method).

    >>> round(incomplete_beta(2, 3, 0.4), 12)
    0.5248
    """
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast on the other side
        return 1 - incomplete_beta(b, a, 1 - x)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x) - math.log(a)
    )
    c, d = 1.0, 1 / _away(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        before = value
        for term in (even, odd):
            d, c = 1 / _away(1 + term * d), _away(1 + term / c)
            value *= c * d
        if abs(value - before) <= 1e-16 * abs(value):
            break
    return front * value


def _away(value: float) -> float:
    """Not zero."""
    return value if abs(value) > _TINY else _TINY


def clopper_pearson(successes: int, trials: int, error: float) -> tuple[float, float]:
    """Return the lower and upper bound of a probability; *each* is wrong with probability at most `error`.

    The lower bound p solves P(Binomial(n, p) ≥ k) = error, the upper one P(Binomial(n, p) ≤ k) = error. Both are
    rounded outwards.

    >>> low, high = clopper_pearson(0, 100, 0.025)
    >>> low, round(high, 4)
    (0.0, 0.0362)
    """
    if not 0 <= successes <= trials or trials < 1:
        raise OptionError("`successes` must lie between 0 and `trials`, and `trials` must be at least 1.")
    if not 0 < error < 1:
        raise OptionError(f"`error` must be above 0 and below 1. Got {error!r}.")
    return lowest(successes, trials, error), 1 - lowest(trials - successes, trials, error)


def lowest(successes: int, trials: int, error: float) -> float:
    """Return the lower bound alone: the largest p, up to rounding, with P(Binomial(n, p) ≥ k) ≤ error."""
    if successes == 0:
        return 0.0
    a, b = successes, trials - successes + 1
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    low, high = 0.0, successes / trials
    at = high
    for _ in range(_STEPS):
        # 1e-10 relative covers the error of the continued fraction and of lgamma
        chance = incomplete_beta(a, b, at) * (1 + 1e-10)
        low, high = (at, high) if chance <= error else (low, at)
        # ln P is concave in ln p: Newton's steps come from below, where the bound holds.
        slope = math.exp(front + a * math.log(at) + (b - 1) * math.log1p(-at)) if at < 1 else a
        following = at * (error / chance) ** (chance / slope) if chance and slope else 0.0
        if high - low <= _NEAR * high or low < following <= low * (1 + _NEAR):
            break
        at = following if low < following < high else (low + high) / 2
    return low
