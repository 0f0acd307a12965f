"""The boosted mechanism: measure once, then boost for free.

The slot's histogram gets exact discrete Laplace noise, and that is all that is ever seen of it. Everything else is made
of past measurements (`dpi.mechanism.class_estimator`): hypotheses of how the PDF moves are reweighted by how well they
predicted the noisy counts, and the release is the weighted posterior PDF.

What is measured is a partition of the domain: its bins or, in rotation from slot to slot, coarse blocks of them too.

Constants of the estimators say where they come from. What all of them together give is measured in docs/utility.md; no
privacy rests on any.

Sees a histogram (in `measure`, once), an amount of budget and the slot's number. It never sees a user.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np

from dpi.budget.classes import GroupBudget, PaymentRequest
from dpi.budget.epsilon import UNITS, Epsilon, or_word
from dpi.domain import Domain
from dpi.domain.overlap import Overlap
from dpi.domain.partition import PARTITIONS, Partition
from dpi.errors import OptionError, StateError
from dpi.exact import heap
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import Histogram
from dpi.mechanism import class_estimator as _class_estimator
from dpi.mechanism.base import MECHANISMS, Estimate, Floats, Measurement, Mechanism
from dpi.mechanism.class_estimator import HUGE, GroupSums, SingleClassState, UsersState
from dpi.mechanism.codec import decode, digested, encode
from dpi.mechanism.domain_change import move_state, move_views, order_partitions
from dpi.mechanism.rotation import Turns, Views, rotate_views
from dpi.mechanism.view_layout import Layout, automatic_partitions
from dpi.noise import RandomSource, add_laplace

LARGEST_SEASON = 1_250_000
"""Bins times phases that a state by class may have, of 8 bytes each. Source: by calculation; 10 MB."""
LONGEST = 1_000_000
"""Slots of a season: each has a place in memory. Source: chosen."""
_ALIKE, _ROTATING = b"dpi boosted state 2\n", b"dpi rotating state 2\n"
_WHOSE = "the boosted mechanism"

State = SingleClassState | Views | UsersState
"""Of users who are all measured alike, bins alone or in turns with coarser blocks; or of users by class."""


@MECHANISMS.member
@dataclass(frozen=True)
class Boosted(Mechanism[State]):
    """A mechanism with one measurement a slot.

    `season` is a public period in slots: what its phases have of their own is then learned. `partitions` are measured
    in turns with the bins: one of them in each slot, with all of its budget. "auto" means blocks of neighbours for
    `Bins` and marginals for a `Product`, from 10,000 bins on, and the bins alone (as does an empty tuple) for any other
    domain. Time is O(bins), memory O(bins · season); from 10,000 bins on fewer hypotheses are told apart, and a state
    has 44 bytes a bin. `partitions` are of users who are measured alike; by class, none are read.

    >>> from dpi.domain import Categories
    >>> from dpi.noise import SystemSource
    >>> mechanism, histogram = Boosted(), Histogram(np.array([90, 10]) * GRAINS, GRAINS)
    >>> state = mechanism.initial(Categories(["a", "b"], other=None))
    >>> measurement = mechanism.measure(state, histogram, Epsilon.at_most(100), 0, SystemSource())
    >>> state, estimate = mechanism.update(state, measurement)
    >>> estimate.pdf.round(1).tolist()
    [0.9, 0.1]
    """

    season: int | None = None
    partitions: Literal["auto"] | tuple[Partition, ...] = "auto"

    largest_sensitivity = GRAINS
    by_class = True
    codecs = MappingProxyType({"partitions": or_word(PARTITIONS.codec.each, "auto")})

    def __post_init__(self) -> None:
        season, given = self.season, self.partitions
        if season is not None and (type(season) is not int or not 2 <= season <= LONGEST):
            raise OptionError(f"`season` must be a number of slots from 2 to {LONGEST:,}. Got {season!r}.")
        if given != "auto" and not (isinstance(given, tuple) and all(isinstance(p, Partition) for p in given)):
            raise OptionError(f"`partitions` must be 'auto' or a tuple, for example (Blocks(16),). Got {given!r}.")
        if given != "auto" and len(set(given)) < len(given):
            raise OptionError(f"`partitions` must differ from each other. Got {given!r}.")

    def divides(self, domain: Domain) -> bool:
        """Divide by class, unless partitions are asked for, or the domain or its season is too large.

        What can be seen in coarse blocks alone is worth more than what classes tell, whose estimator knows none. From
        20,000 bins on they tell no more than they cost: its state takes 750 bytes for each bin, less than 15 MB, and
        8 for each bin and phase of a season, less than 10 MB.
        """
        phases = domain.size * (self.season or 0)
        asked = self.partitions not in ("auto", ())
        return domain.size < 2 * HUGE and phases < LARGEST_SEASON and not asked and not self._partitions(domain)

    def initial(self, domain: Domain, classes: int = 1) -> State:
        """Return the state before the first slot, which knows nothing."""
        heap.keep_freed_memory()
        if classes > 1:
            return UsersState.begun(domain.size, classes, self.season or 0)
        layout = self._layout(domain)
        if layout is None:
            return SingleClassState.begun(domain.size, self.season or 0)
        return Views.begun(layout, self.season or 0)

    def _layout(self, domain: Domain) -> Layout | None:
        """Return the views of a domain, or None if its bins are all that is measured."""
        partitions = self._partitions(domain)
        return Layout.of(partitions, domain) if partitions else None

    def _partitions(self, domain: Domain) -> tuple[Partition, ...]:
        return automatic_partitions(domain) if self.partitions == "auto" else self.partitions

    def drift(self, state: State) -> float | None:
        """Return the root of the mean squared step of the hypotheses, by their weights; near one after a jump.

        None by class, with a season or with partitions: the hypotheses alone do not say how such a stream moves.
        """
        return state.drift if isinstance(state, SingleClassState) and self.season is None else None

    def request_payments(self, state: State, slot: int) -> PaymentRequest:
        """Return, by class, who is due, for which share and in which histogram, from what was released before."""
        if isinstance(state, UsersState):
            return _class_estimator.request_payments(state, slot)
        return super().request_payments(state, slot)

    def measure(
        self, state: State, histogram: Histogram, epsilon: Epsilon, slot: int, source: RandomSource
    ) -> Measurement:
        """Return the histogram plus exact discrete Laplace noise of scale G/ε grains on every bin, drawn once.

        With partitions, its sums over the blocks of the one whose turn it is, plus that noise on every block.

        **Formal guarantee.** ε-DP for a user of weight one, (ε·w)-DP for a user of weight w; with ε = 0 the result does
        not depend on the histogram.

        *Why.* A user of weight w moves the grains by at most w·G in ℓ₁ (`dpi.histogram.compression`), so `add_laplace`
        at scale G/ε gives w·G/(G/ε) = w·ε. Sums over disjoint blocks move by no more (`dpi.domain.partition`), and
        whose turn it is follows from earlier measurements alone. A histogram of another sensitivity is refused: one
        that moves by 2·G would lose 2ε. What is refused depends on the compression, a public option, and not on the
        data.
        """
        if histogram.sensitivity != GRAINS:
            raise OptionError("`Boosted` takes histograms that one user moves by at most one unit: use `normalise`.")
        if epsilon.units == 0:
            return Measurement(slot, epsilon, np.empty(0, dtype=np.int64))
        grains = state.asked.counts(histogram.grains) if isinstance(state, Views) else histogram.grains
        return Measurement(slot, epsilon, add_laplace(grains, epsilon.scale, source))

    def update(self, state: State, measurement: Measurement) -> tuple[State, Estimate]:
        """Return the next state and the estimate of the slot; of an unmeasured one it is what was known before."""
        if isinstance(state, UsersState):
            return _by_class(state, measurement)
        slot, partial, values = measurement.slot, measurement.partial, measurement.values
        counts: Floats | None = None
        if values.size:
            asked = state.asked.blocks if isinstance(state, Views) else state.bins
            if values.shape != (asked,) or measurement.epsilon.units == 0:
                raise StateError("the measurement has another number of bins than the state, or values without budget.")
            counts = values / GRAINS
        if isinstance(state, Views):
            return rotate_views(state, slot, counts, float(measurement.epsilon), partial=partial)
        return _class_estimator.update_single_class(state, slot, counts, float(measurement.epsilon), partial=partial)

    def adapt_to_domain(self, state: State, old: Domain, new: Domain, classes: int = 1) -> State:
        """Return the state for another domain (`dpi.mechanism.domain_change`); anew, if they have nothing in common."""
        overlap, fresh = Overlap.of(old, new), self.initial(new, classes)
        if overlap is None or isinstance(state, UsersState) != isinstance(fresh, UsersState):
            return fresh
        if isinstance(state, UsersState):
            return move_state(state, overlap)
        if not isinstance(fresh, Views):
            return move_state(state.turns.states[-1] if isinstance(state, Views) else state, overlap)
        partitions = (order_partitions(self._partitions(domain), domain) for domain in (old, new))
        return move_views(state, fresh, overlap, *partitions)

    def to_bytes(self, state: State) -> bytes:
        """Encode the state, for storage, with version and checksum."""
        if isinstance(state, UsersState):
            return _class_estimator.to_bytes(state)
        if isinstance(state, Views):
            return encode(_ROTATING, state.turns)
        return encode(_ALIKE, state)

    def digested(self, data: bytes) -> int:
        """Return the size of its first line and the digest."""
        return digested(data)

    def from_bytes(self, domain: Domain, data: bytes) -> State:
        """Read the state of `to_bytes`, bit for bit; raise `StateError` if damaged or of another domain or options."""
        heap.keep_freed_memory()
        if _class_estimator.holds(data):
            divided = _class_estimator.from_bytes(data)
            if divided.bins != domain.size:
                raise StateError("the state belongs to another domain.")
            return divided
        layout = self._layout(domain)
        state: SingleClassState | Views
        if layout is None:
            state = decode(SingleClassState, _ALIKE, data, _WHOSE)
            parts, sizes = [state], [domain.size]
        else:
            state = Views(layout, decode(Turns, _ROTATING, data, _WHOSE))
            parts, sizes = [*state.turns.states], [view.blocks for view in layout.views]
        shapes = [(part.bins, part.season.period) for part in parts]
        if shapes != [(size, self.season or 0) for size in sizes]:
            raise StateError("the state belongs to a mechanism with other options or to another domain.")
        return state


def _by_class(state: UsersState, measurement: Measurement) -> tuple[UsersState, Estimate]:
    """Estimate a slot in which users were measured by class; payments are told as parts of ε, which is L_0."""
    groups, values = measurement.groups, measurement.values
    if values.size == 0:
        return _class_estimator.close_slot(state, measurement.slot, state.epsilon, ())
    if values.size != len(groups) * state.bins or any(group.epsilon.units == 0 for group in groups):
        raise StateError("the measurement has another number of bins or classes than the state.")
    rows = values.reshape(len(groups), state.bins) / GRAINS
    sums = [_sums(row, group) for row, group in zip(rows, groups, strict=True)]
    return _class_estimator.close_slot(state, measurement.slot, groups[0].classes[0].most_left / UNITS, sums)


def _sums(row: Floats, group: GroupBudget) -> GroupSums:
    """Return a histogram in units of its noise; a tree of sums may have taken a part of the price."""
    price, classes = max(due.epsilon.units for due in group.classes), [due.number for due in group.classes]
    return GroupSums(
        values=row * (group.epsilon.units / UNITS),
        classes=np.array(classes),
        shares=np.array([float(due.share) for due in group.classes]),
        part=group.epsilon.units / price,
    )
