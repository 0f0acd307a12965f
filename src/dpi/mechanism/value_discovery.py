"""A mechanism that finds new values while it measures those that are known: a part of every payment goes to each.

Sees a slot's histogram over bins and over texts, once, and amounts; never a user. What it remembers is public.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np

from dpi.budget.classes import GroupBudget, PaymentRequest
from dpi.budget.epsilon import AS_NUMBER, Amount, Epsilon, rational
from dpi.domain import Discovered, Domain, Texts
from dpi.errors import OptionError, StateError
from dpi.exact.integers import Integers
from dpi.histogram.compression import Histogram, TextHistogram
from dpi.mechanism.base import MECHANISMS, Estimate, Measurement, Mechanism
from dpi.mechanism.text_histogram import FoundTexts, SparseHistogram, unpacked
from dpi.noise import RandomSource

FAILURE = Fraction(1, 10**6)
"""Texts of nobody that a slot shows, on average, at most: 0.01 in 10,000 slots. Source: chosen."""
SHOWN = 128
"""Texts that one histogram of a slot shows at most. Source: chosen."""
LISTED = 1024
"""Values that are listed at most; what is found beyond them waits. Source: chosen."""
LEVEL, DOUBTFUL, LONG = 0.002, 0.03, 14
"""A value whose released share is below the first of these, or below the second and twice its deviation, in so many
slots one after the other, is listed no more. Source: chosen."""


@dataclass(frozen=True, eq=False)
class HistogramWithTexts(Histogram):
    """A slot's histogram over bins, and over the texts of the same rows: one for each group of users."""

    texts: tuple[TextHistogram, ...] = field(default=(), repr=False)


@dataclass(frozen=True, eq=False)
class DiscoveringState:
    """What was measured so far of the listed values, what the last slot has shown, and who has been quiet."""

    inner: object
    universe: Texts
    values: tuple[str, ...]
    """The listed values, in the order of their bins."""
    found: tuple[str, ...] = ()
    """Texts that the last slot has shown and that are not listed."""
    quiet: Mapping[str, int] = field(default_factory=dict)
    """For how many slots in a row the share of a listed value was low."""


@MECHANISMS.member
@dataclass(frozen=True)
class Discovering(Mechanism[DiscoveringState]):
    """Measures listed values by another mechanism, and finds new ones, each with a public part of every price.

    **Formal guarantee.** (E·w)-DP for a user of weight w in a group whose price is E.

    *Why.* The user moves the histogram over bins by at most w·G grains in ℓ₁, and so the one over texts, both of their
    own group alone (`dpi.histogram.compression`): which of a user's texts count is a function of their own
    (`dpi.stream.texts`). Of the price, ⌊part·E⌋ buys noise on every text of the universe (`SparseHistogram`, with its
    proof) and the rest what the inner mechanism measures; the two losses add up to at most E·w. Which values are listed
    is a function of what was shown and released, so that the bins of a slot are public before it is looked at.

    `FAILURE` of a slot is divided evenly among its groups, of which there is a public number.
    """

    inner: Mechanism[Any]
    part: Amount = Fraction(1, 2)

    kind = "discovering"
    codecs = MappingProxyType({"inner": MECHANISMS.codec, "part": AS_NUMBER})
    discovers = True

    def __post_init__(self) -> None:
        if not 0 < rational(self.part, "part") < 1:
            raise OptionError(f"`part` must be above 0 and below 1. Got {self.part}.")

    @property
    def by_class(self) -> bool:  # type: ignore[override]
        """As the inner one."""
        return self.inner.by_class

    @property
    def largest_sensitivity(self) -> int | None:  # type: ignore[override]
        """As the inner one."""
        return self.inner.largest_sensitivity

    def divides(self, domain: Domain) -> bool:
        """Do as the inner one."""
        return self.inner.divides(domain)

    def top(self, domain: Domain) -> int:
        """Do as the inner one."""
        return self.inner.top(domain)

    def drift(self, state: DiscoveringState) -> float | None:
        """Do as the inner one."""
        return self.inner.drift(state.inner)

    def request_payments(self, state: DiscoveringState, slot: int) -> PaymentRequest:
        """Do as the inner one."""
        return self.inner.request_payments(state.inner, slot)

    def initial(self, domain: Domain, classes: int = 1) -> DiscoveringState:
        """Begin with no text."""
        if not isinstance(domain, Discovered):
            raise OptionError('values are discovered for ever with `domain="discover"`.')
        inner = self.inner.initial(domain) if classes == 1 else self.inner.initial(domain, classes)
        return DiscoveringState(inner, domain.texts, tuple(domain.values))

    def split(self, epsilon: Epsilon) -> tuple[Epsilon, Epsilon]:
        """Return what of a price is for texts, and what is left."""
        part = int(epsilon.units * rational(self.part, "part"))
        return Epsilon(part), Epsilon(epsilon.units - part)

    def sparse(self, groups: int) -> SparseHistogram:
        """Return what finds texts in each of so many groups."""
        return SparseHistogram(FAILURE / groups, SHOWN)

    def measure(
        self, state: DiscoveringState, histogram: Histogram, epsilon: Epsilon, slot: int, source: RandomSource
    ) -> Measurement:
        """Measure the listed values, and then the texts that pass: see the class."""
        for_texts, rest = self.split(epsilon)
        known = self.inner.measure(state.inner, histogram, rest, slot, source)
        if epsilon.units == 0:
            return Measurement(slot, epsilon, known.values)
        texts = self._texts(state, histogram, [for_texts], slot, source)
        return Measurement(slot, epsilon, np.concatenate([known.values, texts]))

    def measure_classes(
        self,
        state: DiscoveringState,
        histogram: Histogram,
        groups: tuple[GroupBudget, ...],
        slot: int,
        source: RandomSource,
    ) -> Measurement:
        """Measure the same of every group of classes, each with a part of its own price."""
        known = self.inner.measure_classes(state.inner, histogram, self._rest(groups), slot, source)
        prices = [self.split(group.epsilon)[0] for group in groups]
        texts = self._texts(state, histogram, prices, slot, source)
        return replace(
            known,
            epsilon=max([group.epsilon for group in groups]),
            values=np.concatenate([known.values, texts]),
            groups=groups,
        )

    def _rest(self, groups: tuple[GroupBudget, ...]) -> tuple[GroupBudget, ...]:
        return tuple(replace(group, epsilon=self.split(group.epsilon)[1]) for group in groups)

    def _texts(
        self, state: DiscoveringState, histogram: Histogram, prices: list[Epsilon], slot: int, source: RandomSource
    ) -> Integers:
        if not isinstance(histogram, HistogramWithTexts) or len(histogram.texts) != len(prices):
            raise OptionError('values are discovered in texts of users: open the stream with `domain="discover"`.')
        sparse, empty = self.sparse(len(prices)), FoundTexts(state.universe, {}, {})
        room = sparse.packed(state.universe, {})
        parts = [
            sparse.measure(empty, texts, price, slot, source).values if price.units else room
            for texts, price in zip(histogram.texts, prices, strict=True)
        ]
        return np.concatenate(parts)

    def update(self, state: DiscoveringState, measurement: Measurement) -> tuple[DiscoveringState, Estimate]:
        """Return what the inner mechanism makes of the listed values; note which texts were shown beside them."""
        groups, values, shown = max(1, len(measurement.groups)), measurement.values, set[str]()
        if values.size:
            room = groups * self.sparse(groups).packed(state.universe, {}).size
            for part in np.split(values[-room:], groups):
                shown |= unpacked(state.universe, part).keys()
            values = values[:-room]
        known = Measurement(
            measurement.slot,
            self.split(measurement.epsilon)[1],
            values,
            measurement.partial,
            self._rest(measurement.groups),
        )
        inner, estimate = self.inner.update(state.inner, known)
        low = estimate.pdf < np.maximum(LEVEL, np.minimum(DOUBTFUL, 2 * np.sqrt(estimate.variance)))
        quiet = {
            value: state.quiet.get(value, 0) + 1
            for value, is_low in zip(state.values, low.tolist(), strict=False)
            if is_low and value not in shown
        }
        unlisted = tuple(sorted(shown.difference(state.values)))
        return DiscoveringState(inner, state.universe, state.values, unlisted, quiet), estimate

    def domain_after(self, state: DiscoveringState, domain: Discovered) -> Discovered:
        """Return the domain of the next slot: a pure function of what was released."""
        kept = [value for value in domain.values if state.quiet.get(value, 0) < LONG]
        new = [value for value in state.found if value not in kept and value != domain.other]
        values = [*kept, *new[: max(LISTED - len(kept), 0)]]
        return domain if values == domain.values else Discovered(domain.texts, values, str(domain.other))

    def adapt_to_domain(self, state: DiscoveringState, old: Domain, new: Domain, classes: int = 1) -> DiscoveringState:
        """Return the inner state for the values that are listed now: a new one is split off from `other`."""
        assert isinstance(new, Discovered)  # noqa: S101 - `initial` refuses any other
        inner = self.inner.adapt_to_domain(state.inner, old, new, **({} if classes == 1 else {"classes": classes}))
        quiet = {value: slots for value, slots in state.quiet.items() if value in set(new.values)}
        return DiscoveringState(inner, new.texts, tuple(new.values), quiet=quiet)

    def to_bytes(self, state: DiscoveringState) -> bytes:
        """Encode the state: a line of JSON, and the inner state."""
        head = json.dumps([list(state.found), dict(state.quiet)], ensure_ascii=False, sort_keys=True)
        return head.encode() + b"\n" + self.inner.to_bytes(state.inner)

    def from_bytes(self, domain: Domain, data: bytes) -> DiscoveringState:
        """Read the state of `to_bytes`."""
        line, _, rest = data.partition(b"\n")
        try:
            texts, quiet = json.loads(line)
            if not all(type(text) is str for text in texts) or not all(type(n) is int for n in quiet.values()):
                raise ValueError
        except (ValueError, TypeError, AttributeError):
            raise StateError("what was discovered so far is damaged.") from None
        if not isinstance(domain, Discovered):
            raise StateError("the state belongs to another domain.")
        inner = self.inner.from_bytes(domain, rest)
        return DiscoveringState(inner, domain.texts, tuple(domain.values), tuple(texts), quiet)
