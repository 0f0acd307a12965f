"""The exact audit: the largest log-likelihood ratio of a transcript, over neighbours that are searched for.

Two sessions run side by side on neighbouring streams. In every step the output with the largest ratio is found and
forced on both; the ratios add up along the transcript. What else an analyst sees must be equal, byte for byte: a
difference there tells the neighbours apart for sure and counts as an infinite loss.

**What it shows.** The loss found is a *lower* bound of the true one, with a witness that anybody can replay. For noise
whose worst ratio does not depend on the past (all mechanisms here with Laplace noise and a fixed budget) it is the
largest loss on these two streams; whether worse neighbours exist is for the search and, finally, for the proof.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpi.errors import OptionError
from dpi.testing.laws import Loss
from dpi_audit.neighbours import FAMILIES, Family, Neighbours, mutate
from dpi_audit.session import Session

FEWEST_SLOTS = 20
OUTWARD = (0, 1 << 27, 0, 1 << 34)
"""Measurements lie this many grains off the data in transcripts that are tried: 0, 8 and 1,024 users."""
ROUNDING = 1e-9
"""Allowance, relative, for losses that are sums of float logarithms; rational losses get none."""


@dataclass(frozen=True)
class Finding:
    """A loss, what was claimed for it, and where it was found."""

    loss: Loss
    claimed: Fraction
    witness: str

    @property
    def ratio(self) -> float:
        """Loss over claim; a loss where none is admitted is infinite."""
        if self.claimed == 0:
            return 0.0 if self.loss <= 0 else math.inf
        return float(self.loss) / float(self.claimed)

    @property
    def violates(self) -> bool:
        """Whether more is lost than claimed: exactly, if the loss is rational."""
        allowance = 1 if isinstance(self.loss, Fraction) else 1 + ROUNDING
        return self.loss > self.claimed * allowance


Open = Callable[[], Session]
"""Starts a mechanism anew: the same each time, but for the rows it will be given."""


def loss_on(open_session: Open, neighbours: Neighbours, *, reverse: bool = False, outward: int = 0) -> Finding:
    """Return the loss of one pair of streams, in favour of the stream with the user, or (`reverse`) without.

    `outward` leads through transcripts whose measurements are so many grains off the data, at the same loss.

    >>> import dpi
    >>> from dpi_audit import StreamSession, neighbours
    >>> def make(wrap):
    ...     domain, budget = dpi.Categories(["a", "b"]), dpi.Ledger(per_slot=0.1)
    ...     return dpi.Stream(domain=domain, epsilon=1, budget=budget, mechanism=wrap(dpi.Boosted()))
    >>> finding = loss_on(lambda: StreamSession(make), neighbours.alone(20, ["a"]))
    >>> round(finding.ratio, 6), finding.violates
    (1.0, False)
    """
    one, other = open_session(), open_session()
    sides = (other, one) if reverse else (one, other)
    streams = (neighbours.other, neighbours.one) if reverse else (neighbours.one, neighbours.other)
    total: Loss = Fraction(0)
    for step, rows in enumerate(zip(*streams, strict=True)):
        first, second = (side.look(r) for side, r in zip(sides, rows, strict=True))
        worst = first.worst(second, outward)
        total = total + worst.loss
        if math.isinf(total):
            return Finding(math.inf, one.claimed, f"{neighbours.describe()}; told apart for sure in step {step}")
        if sides[0].force(worst.output) != sides[1].force(worst.output):
            return Finding(math.inf, one.claimed, f"{neighbours.describe()}; other bytes differ in step {step}")
    return Finding(total, max(one.claimed, other.claimed), neighbours.describe())


def worst_of(open_session: Open, candidates: Iterable[Neighbours], *, both: bool = True) -> Finding:
    """Return the worst finding over neighbours, in both directions or in turns."""
    findings = [_try(open_session, neighbours, i, both) for i, neighbours in enumerate(candidates)]
    if not findings:
        raise OptionError("give at least one pair of neighbours.")
    return max(findings, key=lambda finding: finding.ratio)


def _try(open_session: Open, neighbours: Neighbours, turn: int, both: bool) -> Finding:
    """Try one pair, in both directions or the one whose turn it is, along a transcript whose turn it is."""
    directions, outward = ((False, True) if both else (bool(turn % 2),)), OUTWARD[turn % len(OUTWARD)]
    findings = [loss_on(open_session, neighbours, reverse=reverse, outward=outward) for reverse in directions]
    return max(findings, key=lambda finding: finding.ratio)


def search(
    open_session: Open,
    values: Sequence[object],
    *,
    slots: int = 24,
    families: Sequence[Family] = FAMILIES,
    tries: int = 20,
    both: bool = True,
    seed: int = 0,
) -> Finding:
    """Try to find the worst neighbours: all families, then small changes of the worst one, kept if they are no better.

    The seed decides what is tried, not what is lost: a finding is exact for its witness.
    """
    if slots < FEWEST_SLOTS:
        raise OptionError(f"`slots` must be at least {FEWEST_SLOTS}. Got {slots!r}.")
    candidates = [family(slots, values) for family in families]
    findings = [_try(open_session, neighbours, i, both) for i, neighbours in enumerate(candidates)]
    best = max(range(len(findings)), key=lambda i: findings[i].ratio)
    finding, at = findings[best], candidates[best]
    chance = random.Random(seed)  # noqa: S311 - decides what is tried
    for attempt in range(tries):
        if finding.violates:
            break
        candidate = mutate(at, values, chance)
        outward = chance.choice(OUTWARD)
        tried = loss_on(open_session, candidate, reverse=bool(attempt % 2), outward=outward)
        if tried.ratio >= finding.ratio:
            finding, at = tried, candidate
    return finding
