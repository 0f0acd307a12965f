"""What takes part in a comparison: it sees a slot's records and gives two PDFs, of the slot and of all so far.

A contender also says what a user has lost by then. Baselines release noisy counts; what is negative in them is cut, and
a thousandth of a record is added to every bin, so that a divergence is finite.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from dpi.budget.epsilon import Amount, rational
from dpi.domain import Categories
from dpi.noise import RandomSource
from dpi.stream import Stream
from dpi_research.baselines import Baseline, user_level
from dpi_research.datasets.generators import Floats, Slot
from dpi_research.datasets.generators import ordered as numbers

FLOOR = 1e-3
"""Records added to every bin of a noisy histogram."""


class Contender(Protocol):
    """One system in a comparison: what it promises, in words, and the δ of that promise."""

    guarantee: str
    delta: float

    def release(self, slot: Slot) -> tuple[Floats, Floats]:
        """PDFs of the slot and of all slots so far, as released after this slot."""
        ...

    def loss(self, slots: int) -> float:
        """What a user in every slot has lost after so many slots."""
        ...


def as_pdf(counts: Floats) -> Floats:
    """A noisy histogram as a PDF: cut at 0, with a floor; uniform where nothing is released.

    >>> as_pdf(np.array([3.0, -1.0])).round(3).tolist(), as_pdf(np.array([np.nan, np.nan])).tolist()
    ([1.0, 0.0], [0.5, 0.5])
    """
    positive = np.maximum(np.nan_to_num(counts, nan=0.0), 0) + FLOOR
    return np.asarray(positive / positive.sum())


class _Counts:
    """Turns releases of a mechanism's counts into the two PDFs."""

    def __init__(self, mechanism: Baseline) -> None:
        self._prefix = mechanism.facts.releases == "prefix"
        self._total: Floats = np.zeros(mechanism.bins)

    def pdfs(self, release: Floats) -> tuple[Floats, Floats]:
        known = np.nan_to_num(release, nan=0.0)
        slot, self._total = (known - self._total, known) if self._prefix else (known, self._total + known)
        return as_pdf(slot), as_pdf(self._total)


class AsPublished:
    """A baseline with its own unit of privacy; the loss beside it is that of a user with records in every slot.

    delta: the larger of the mechanism's own and the one granted.
    """

    def __init__(self, mechanism: Baseline, records: Amount, delta: float | None) -> None:
        self._mechanism, self._records, self._counts = mechanism, records, _Counts(mechanism)
        self.delta = max(mechanism.delta, delta or 0.0)
        epsilon = float(mechanism.rate) if mechanism.event_epsilon else 0.0
        self.guarantee = f"ε = {epsilon:g} for {mechanism.facts.unit}"

    def release(self, slot: Slot) -> tuple[Floats, Floats]:
        """From the slot's records; most mechanisms see their histogram alone."""
        return self._counts.pdfs(self._mechanism.observe(slot.users, slot.values))

    def loss(self, slots: int) -> float:
        """That of a user with `records` records in every slot, at the δ stated beside it."""
        return self._mechanism.user_epsilon(slots, self._records, self.delta or None)


class Capped:
    """A baseline at user level, behind a cap."""

    def __init__(self, mechanism: Baseline, epsilon: Amount, cap: int, records: Amount) -> None:
        self._level, self._records, self._counts = user_level(mechanism, epsilon, cap), records, _Counts(mechanism)
        self.guarantee, self.delta = self._level.guarantee, self._level.delta

    def release(self, slot: Slot) -> tuple[Floats, Floats]:
        """From the records that the cap lets pass."""
        return self._counts.pdfs(self._level.update(slot.users, slot.values))

    def loss(self, slots: int) -> float:
        """At most ε, for ever."""
        return self._level.user_epsilon(slots, self._records)


class Ours:
    """A stream of this package; user level for ever, in either mode, without a δ."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._spent = [0.0]
        self.guarantee, self.delta = stream.guarantee, 0.0

    @classmethod
    def default(
        cls, epsilon: Amount, bins: int, unsafe_source: RandomSource | None = None, *, ordered: bool = False
    ) -> Ours:
        """The default budget and mechanism, on a domain with an order if that was declared."""
        domain = numbers(bins) if ordered else Categories(range(bins), other=None)
        return cls(Stream(domain=domain, epsilon=rational(epsilon), unsafe_source=unsafe_source))

    def release(self, slot: Slot) -> tuple[Floats, Floats]:
        """From the records; each user counts once in a slot."""
        release = self._stream.release(slot.users, slot.values)
        self._spent.append(release.epsilon_spent)
        return release.pdf, release.accumulated

    def loss(self, slots: int) -> float:
        """What the releases so far can have cost a user."""
        return self._spent[slots]
