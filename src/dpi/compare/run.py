"""Runs any set of systems on one stream, under one kind of guarantee."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from dpi.baselines import CATALOGUE, Setting, baseline
from dpi.budget.epsilon import Amount, rational
from dpi.compare.comparison import Comparison, Course
from dpi.compare.contenders import AsPublished, Capped, Contender, Ours
from dpi.datasets.generators import Floats, Slot, stream_named
from dpi.errors import OptionError
from dpi.integers import Integers
from dpi.noise import Source

Mode = Literal["user", "published"]
OURS = "dpi"
PUBLISHED_FOUR = ("hybrid", "pegasus", "perrier", "tops")
"""The methods of the published comparison, in their forms for histograms."""


@dataclass(frozen=True)
class Terms:
    """On what terms systems are compared.

    mode: "user" gives every system ε for all records of a user: baselines are capped at `cap` records a user, over all
    time, and run with ε/cap, unless they protect users by themselves. "published" gives each baseline ε for its own
    unit, and shows beside it what a user with `records` records in every slot loses, at δ if one is given.
    """

    epsilon: Amount
    mode: Mode = "user"
    cap: int = 10
    records: Amount = 1
    delta: float | None = None

    def __post_init__(self) -> None:
        if self.mode not in ("user", "published"):
            raise OptionError(f'`mode` must be "user" or "published". Got {self.mode!r}.')

    def contender(self, name: str, facts: Setting) -> Contender:
        """A system by name: "dpi", or one of the baselines."""
        if name == OURS:
            return Ours.default(self.epsilon, facts.bins, facts.unsafe_source)
        mechanism = baseline(name, facts)
        if self.mode == "published" or mechanism.protects_users:
            return AsPublished(mechanism, self.records, self.delta)
        share = rational(self.epsilon) / self.cap
        own = Setting(share, facts.bins, facts.slots, facts.largest, facts.rows, facts.unsafe_source)
        return Capped(baseline(name, own), self.epsilon, self.cap, self.records)

    def settings(self) -> dict[str, object]:
        """For the result."""
        if self.mode == "user":
            return {"cap": self.cap}
        return {"records": float(rational(self.records)), "delta": self.delta}


@dataclass
class _Tally:
    l1: list[float] = field(default_factory=list)
    kl: list[float] = field(default_factory=list)
    accumulated_l1: list[float] = field(default_factory=list)
    accumulated_kl: list[float] = field(default_factory=list)
    seconds: float = 0.0


def compare(
    contenders: Mapping[str, Contender], slots: Iterable[Slot], bins: int, terms: Terms, *, stream: str = "stream"
) -> Comparison:
    """Play the stream once to all contenders, and measure each release against the slot and against all so far."""
    tallies = {name: _Tally() for name in contenders}
    total = np.zeros(bins, dtype=np.int64)
    count = 0
    for count, slot in enumerate(slots, 1):  # noqa: B007 - the last number is how many there were
        histogram = np.bincount(slot.values, minlength=bins)
        total += histogram
        for name, contender in contenders.items():
            tally = tallies[name]
            start = time.perf_counter()
            released, accumulated = contender.release(slot)
            tally.seconds += time.perf_counter() - start
            tally.l1.append(distance(histogram, released))
            tally.kl.append(divergence(histogram, released))
            tally.accumulated_l1.append(distance(total, accumulated))
            tally.accumulated_kl.append(divergence(total, accumulated))
    if not count:
        raise OptionError("the stream has no slots.")
    courses = {
        name: Course(
            guarantee=contenders[name].guarantee,
            delta=contenders[name].delta,
            l1=tuple(tally.l1),
            kl=tuple(tally.kl),
            accumulated_l1=tuple(tally.accumulated_l1),
            accumulated_kl=tuple(tally.accumulated_kl),
            loss=_losses(contenders[name], count, every=terms.delta is None),
            seconds=tally.seconds,
        )
        for name, tally in tallies.items()
    }
    return Comparison(stream, terms.mode, float(rational(terms.epsilon)), count, terms.settings(), courses)


def _losses(contender: Contender, slots: int, *, every: bool) -> tuple[float, ...]:
    """The loss after each slot; with δ, which takes a while, at some slots, and in between that of the next one."""
    times = range(1, slots + 1) if every else sorted({slots, *np.geomspace(1, slots, 24).astype(int).tolist()})
    known = [contender.loss(t) for t in times]
    return tuple(known[int(np.searchsorted(times, t))] for t in range(1, slots + 1))


def compare_named(
    names: Sequence[str],
    stream: str,
    terms: Terms,
    *,
    slots: int,
    seed: int = 0,
    churn: float | None = None,
    unsafe_source: Source | None = None,
) -> Comparison:
    """Systems by name on a generated stream by name.

    >>> result = compare_named(["dpi", "hybrid"], "n50k20", Terms(epsilon=1), slots=5)
    >>> result.mode, sorted(result.courses), result.courses["hybrid"].loss[-1] <= 1
    ('user', ['dpi', 'hybrid'], True)
    """
    known = [OURS, *CATALOGUE]
    for name in names:
        if name not in known:
            raise OptionError(f"there is no mechanism {name!r}; known are {', '.join(known)}.")
    source = stream_named(stream)
    facts = Setting(
        terms.epsilon, source.bins, slots, largest=source.rows, rows=source.rows, unsafe_source=unsafe_source
    )
    contenders = {name: terms.contender(name, facts) for name in names}
    result = compare(contenders, source.slots(seed, slots, churn), source.bins, terms, stream=stream)
    settings = {**result.settings, "churn": source.churn if churn is None else churn, "seed": seed}
    return Comparison(result.stream, result.mode, result.epsilon, result.slots, settings, result.courses)


def _own(histogram: Integers) -> Floats | None:
    total = histogram.sum()
    return None if total == 0 else np.asarray(histogram / total)


def distance(histogram: Integers, released: Floats) -> float:
    """Σ|p - q|; NaN for an empty histogram."""
    own = _own(histogram)
    return math.nan if own is None else float(np.abs(own - released).sum())


def divergence(histogram: Integers, released: Floats) -> float:
    """KL(p ‖ q); NaN for an empty histogram."""
    own = _own(histogram)
    if own is None:
        return math.nan
    seen = own > 0
    return float(own[seen] @ np.log(own[seen] / released[seen]))
