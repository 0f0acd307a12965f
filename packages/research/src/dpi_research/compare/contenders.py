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
from dpi_research.baselines import Baseline, UserLevel
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


class Others:
    """A baseline: by itself, or behind a cap. What it releases of counts is turned into the two PDFs.

    guarantee: by itself ε for its own unit of privacy; behind a cap that of a user.
    delta: by itself the larger of the mechanism's own and the one granted.
    """

    def __init__(
        self, mechanism: Baseline, records: Amount, delta: float | None, capped: UserLevel | None = None
    ) -> None:
        self._mechanism, self._capped, self._records = mechanism, capped, records
        self._total: Floats = np.zeros(mechanism.bins)
        epsilon = float(mechanism.rate) if mechanism.event_epsilon else 0.0
        self.guarantee, self.delta = f"ε = {epsilon:g} for {mechanism.facts.unit}", max(mechanism.delta, delta or 0.0)
        if capped is not None:
            self.guarantee, self.delta = capped.guarantee, capped.delta

    def release(self, slot: Slot) -> tuple[Floats, Floats]:
        """From the slot's records, or those that the cap lets pass; most mechanisms see their histogram alone."""
        observe = self._mechanism.observe if self._capped is None else self._capped.update
        known = np.nan_to_num(observe(slot.users, slot.values), nan=0.0)
        before = self._total
        if self._mechanism.facts.releases == "prefix":
            self._total = known
            return as_pdf(known - before), as_pdf(known)
        self._total = before + known
        return as_pdf(known), as_pdf(self._total)

    def loss(self, slots: int) -> float:
        """That of a user with `records` records in every slot, at the δ stated beside it; behind a cap at most ε."""
        if self._capped is not None:
            return self._capped.user_epsilon(slots, self._records)
        return self._mechanism.user_epsilon(slots, self._records, self.delta or None)


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
