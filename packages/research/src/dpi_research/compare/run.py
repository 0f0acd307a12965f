"""Runs any set of systems on one stream, made up or of events, under one kind of guarantee."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

import numpy as np

from dpi.budget.epsilon import Amount, rational
from dpi.domain import Bins, Domain
from dpi.errors import OptionError, meant
from dpi.events.columns import Table
from dpi.events.rows import Rows
from dpi.events.slots import Slots
from dpi.exact.integers import Integers
from dpi.noise import RandomSource
from dpi.sources import Admission, TableEvents
from dpi_research.baselines import CATALOGUE, PublicFacts, baseline, user_level
from dpi_research.compare.comparison import Comparison, Result
from dpi_research.compare.contenders import Contender, Others, Ours
from dpi_research.datasets.generators import Floats, Slot, stream_named
from dpi_research.evaluation import divergence

Mode = Literal["user", "published"]
Progress = Callable[[int], None]
"""Is told how many slots are over."""

OURS = "dpi"
USUAL = (OURS, "binary", "hybrid", "pegasus", "perrier", "tops", "boosting", "noisy", "demo")
"""The systems that are compared unless others are named: those for histograms that take no part in another one."""
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
        if self.cap < 1:
            raise OptionError(f"`cap` must be a whole number above 0. Got {self.cap!r}.")

    def contender(self, name: str, facts: PublicFacts) -> Contender:
        """A system by name: "dpi", or one of the baselines."""
        if name == OURS:
            return Ours.default(self.epsilon, facts.bins, facts.unsafe_source, ordered=facts.ordered)
        mechanism = baseline(name, facts)
        if self.mode == "published" or mechanism.protects_users:
            return Others(mechanism, self.records, self.delta)
        mechanism = baseline(name, replace(facts, epsilon=rational(self.epsilon) / self.cap))
        return Others(mechanism, self.records, None, user_level(mechanism, self.epsilon, self.cap))

    def settings(self) -> dict[str, object]:
        """For the result."""
        if self.mode == "user":
            return {"cap": self.cap}
        return {"records": float(rational(self.records)), "delta": self.delta}


def compare(
    contenders: Mapping[str, Contender],
    slots: Iterable[Slot],
    bins: int,
    terms: Terms,
    *,
    stream: str = "stream",
    progress: Progress | None = None,
) -> Comparison:
    """Play the stream once to all contenders, and measure each release against the slot and against all so far."""
    errors: dict[str, list[tuple[float, ...]]] = {name: [] for name in contenders}
    seconds = dict.fromkeys(contenders, 0.0)
    total = np.zeros(bins, dtype=np.int64)
    count = 0
    for count, slot in enumerate(slots, 1):
        histogram = np.bincount(slot.values, minlength=bins)
        total += histogram
        for name, contender in contenders.items():
            start = time.perf_counter()
            released, accumulated = contender.release(slot)
            seconds[name] += time.perf_counter() - start
            errors[name].append((*_errors(histogram, released), *_errors(total, accumulated)))
        if progress is not None:
            progress(count)
    if not count:
        raise OptionError("the stream has no slots.")
    courses = {}
    for name, contender in contenders.items():
        loss = _losses(contender, count, every=terms.delta is None)
        l1, kl, all_l1, all_kl = zip(*errors[name], strict=True)
        said = (contender.guarantee, contender.delta)
        courses[name] = Result(*said, l1, kl, all_l1, all_kl, loss=loss, seconds=seconds[name])
    return Comparison(stream, terms.mode, float(rational(terms.epsilon)), count, terms.settings(), courses)


def _errors(histogram: Integers, released: Floats) -> tuple[float, float]:
    """Σ|p - q| and KL(p ‖ q); NaN for an empty histogram."""
    total = histogram.sum()
    if total == 0:
        return math.nan, math.nan
    own = histogram / total
    return float(np.abs(own - released).sum()), divergence(own, released)


def _losses(contender: Contender, slots: int, *, every: bool) -> tuple[float, ...]:
    """The loss after each slot; with δ, which takes a while, at some slots, and in between that of the next one."""
    times = range(1, slots + 1) if every else sorted({slots, *np.geomspace(1, slots, 24).astype(int).tolist()})
    known = [contender.loss(t) for t in times]
    return tuple(known[int(np.searchsorted(times, t))] for t in range(1, slots + 1))


def mechanisms() -> list[str]:
    """The names of all systems."""
    return [OURS, *CATALOGUE]


def compare_slots(
    names: Sequence[str],
    slots: Iterable[Slot],
    facts: PublicFacts,
    terms: Terms,
    *,
    stream: str = "stream",
    progress: Progress | None = None,
) -> Comparison:
    """Systems by name on any slots, of which `facts` are declared; its ε is that of the terms."""
    known = mechanisms()
    for name in names:
        if name not in known:
            raise OptionError(f"there is no mechanism {name!r}{meant(name, known)}")
    facts = replace(facts, epsilon=terms.epsilon)
    contenders = {name: terms.contender(name, facts) for name in names}
    return compare(contenders, slots, facts.bins, terms, stream=stream, progress=progress)


def compare_named(
    names: Sequence[str],
    stream: str,
    terms: Terms,
    *,
    slots: int,
    seed: int = 0,
    churn: float | None = None,
    unsafe_source: RandomSource | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Systems by name on a generated stream by name.

    >>> result = compare_named(["dpi", "hybrid"], "n50k20", Terms(epsilon=1), slots=5)
    >>> result.mode, sorted(result.courses), result.courses["hybrid"].loss[-1] <= 1
    ('user', ['dpi', 'hybrid'], True)
    """
    source = stream_named(stream)
    facts = PublicFacts(
        terms.epsilon,
        source.bins,
        slots,
        largest=source.rows,
        rows=source.rows,
        ordered=isinstance(source.domain(source.bins), Bins),
        unsafe_source=unsafe_source,
    )
    played = source.slots(seed, slots, churn)
    result = compare_slots(names, played, facts, terms, stream=stream, progress=progress)
    settings = {**result.settings, "churn": source.churn if churn is None else churn, "seed": seed}
    return replace(result, settings=settings)


KEY = bytes(32)
"""Names users: a comparison is nobody's ledger."""


def number_slots(slots: Iterable[tuple[int, Rows]], bins: int) -> Iterator[Slot]:
    """The slots of events, in numbers: a user has the same one in all slots. What is unreadable is dropped.

    A slot's `pdf` is its own, for nothing else is known of real data.
    """
    numbers: dict[tuple[int, int], int] = {}
    for _, rows in slots:
        known = np.array([numbers.setdefault((a, b), len(numbers)) for a, b in rows.names.tolist()], dtype=np.int64)
        users, values = (np.repeat(column, rows.counts) for column in (known, rows.bins))
        counts = np.bincount(values, minlength=bins)
        yield Slot(users, values, counts / max(1, int(counts.sum())))


def slots_of(
    events: object, domain: Domain, clock: Slots, *, start: str | datetime, end: str | datetime
) -> Iterator[Slot]:
    """Every slot of the public period [start, end) of a table with `user`, `time` and `value`, empty ones too.

    >>> from dpi.domain import Categories
    >>> table = {"user": ["a", "b", "a"], "time": ["2026-01-01T00:10", "2026-01-01T00:20", "2026-01-01T02:00"],
    ...          "value": ["x", "y", "x"]}
    >>> slots = slots_of(table, Categories(["x", "y"], other=None), Slots("1h"), start="2026-01-01",
    ...                  end="2026-01-01T03:00")
    >>> [(slot.users.tolist(), slot.values.tolist()) for slot in slots]
    [([0, 1], [0, 1]), ([], []), ([0], [0])]
    """
    played = TableEvents("user", "time", "value", None, table=Table(events))
    period = Admission(clock, domain, KEY, clock.number(start), clock.number(end))
    return number_slots(played.slots(period), domain.size)
