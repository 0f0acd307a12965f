"""Laws of what a mechanism lets out in one step, and the most that two of them differ by.

A law knows the probability of every output, exactly. Between two laws, of the same step on two neighbouring streams,
lies a log-likelihood ratio for every output; `worst` gives the output with the largest. Ratios of Laplace noise are
rational numbers and are kept as such, so a verdict on them has no rounding in it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from dpi.budget.classes import GroupBudget
from dpi.budget.epsilon import Epsilon
from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi.histogram.compression import Histogram, TextHistogram
from dpi.mechanism.base import Measurement
from dpi.mechanism.boosted import Boosted
from dpi.mechanism.published import Published, PublishedState
from dpi.mechanism.text_histogram import FoundTexts, SparseHistogram, unpacked
from dpi.mechanism.value_discovery import Discovering, DiscoveringState, HistogramWithTexts

Loss = Fraction | float
"""A log-likelihood ratio: rational where it is one, infinite where an output tells the two apart for sure."""


@dataclass(frozen=True)
class Worst:
    """An output and its log-likelihood ratio."""

    output: object
    loss: Loss


class Law(ABC):
    """The distribution of one step's output."""

    @abstractmethod
    def worst(self, other: Law, outward: int = 0) -> Worst:
        """Return the output that speaks loudest for this law against the other one.

        Where many do so alike, `outward` says how far from the data to take one: transcripts lead to different budgets.
        """

    @abstractmethod
    def log_ratio(self, other: Law, output: object) -> Loss:
        """Return ln P(output | this) - ln P(output | other)."""


@dataclass(frozen=True)
class Point(Law):
    """No randomness: an output that differs between neighbours gives everything away.

    >>> Point(3).worst(Point(4)).loss
    inf
    """

    value: Hashable

    def worst(self, other: Law, outward: int = 0) -> Worst:
        """Return the value, which the other law either has for sure or not at all."""
        return Worst(self.value, self.log_ratio(other, self.value))

    def log_ratio(self, other: Law, output: object) -> Loss:
        """Return zero or infinity."""
        return Fraction(0) if isinstance(other, Point) and other.value == output else math.inf


@dataclass(frozen=True, eq=False)
class Laplace(Law):
    """Whole numbers with exact discrete Laplace noise: P(y) ∝ e^(-|y - value|/scale), bin by bin.

    >>> Laplace(np.array([5, 7]), Fraction(2)).worst(Laplace(np.array([4, 7]), Fraction(2))).loss
    Fraction(1, 2)
    """

    values: Integers
    scale: Fraction

    def worst(self, other: Law, outward: int = 0) -> Worst:
        """Return the noiseless values, or further out on their side: |y - h′| - |y - h| is |h - h′| there, its most."""
        output = self.values
        if outward and isinstance(other, Laplace) and other.values.shape == self.values.shape:
            side, turns = np.sign(self.values - other.values), np.where(np.arange(self.values.size) % 2, -1, 1)
            output = self.values + outward * np.where(side == 0, turns, side)
        return Worst(output, self.log_ratio(other, output))

    def log_ratio(self, other: Law, output: object) -> Loss:
        """Return Σ (|y - h′| - |y - h|) / scale, a rational number."""
        if not isinstance(other, Laplace) or (other.values.shape, other.scale) != (self.values.shape, self.scale):
            return math.inf
        y = np.asarray(output).astype(object)
        return Fraction(int((abs(y - other.values) - abs(y - self.values)).sum())) / self.scale


@dataclass(frozen=True, eq=False)
class Finite(Law):
    """Any output of a list, by its log-probability; what is not listed cannot happen.

    >>> half = Finite({0: math.log(0.5), 1: math.log(0.5)})
    >>> half.worst(Finite({0: 0.0}))
    Worst(output=1, loss=inf)
    """

    logarithms: Mapping[Hashable, float]

    def worst(self, other: Law, outward: int = 0) -> Worst:
        """Return the worst of all outputs."""
        possible = [output for output, log in self.logarithms.items() if log > -math.inf]
        return max((Worst(output, self.log_ratio(other, output)) for output in possible), key=lambda worst: worst.loss)

    def log_ratio(self, other: Law, output: object) -> Loss:
        """Return a difference of two logarithms."""
        theirs = other.logarithms.get(output, -math.inf) if isinstance(other, Finite) else -math.inf
        ours = self.logarithms.get(output, -math.inf)
        return 0.0 if ours == theirs else ours - theirs


@dataclass(frozen=True, eq=False)
class Choices(Law):
    """What the published mechanism lets out: queries and synopses, each drawn given those before, and perhaps a total.

    The law of a choice depends on the choices before it. So `worst` is a search: for every query, it takes that query
    in all draws, then the synopsis with the largest ratio, and keeps the best. With one draw and one round that is all
    there is; with more it is a lower bound of the largest ratio.
    """

    mechanism: Published
    state: PublishedState
    histogram: Histogram
    epsilon: Epsilon

    def worst(self, other: Law, outward: int = 0) -> Worst:
        """Return the worst measurement found; see the class."""
        if not isinstance(other, Choices) or other.epsilon != self.epsilon:
            return Worst(np.zeros(0, dtype=np.int64), math.inf)
        if self.epsilon.units == 0:
            return Worst(np.zeros(0, dtype=np.int64), Fraction(0))
        candidates = [self._complete(other, [query] * self.mechanism.draws) for query in range(len(self.state.queries))]
        return max(candidates, key=lambda worst: float(worst.loss))

    def _complete(self, other: Choices, values: list[int]) -> Worst:
        rounds = self.mechanism.rounds if self.mechanism.every_slot or not self.state.slots else 1
        while len(values) < 2 * self.mechanism.draws * rounds:
            ours, theirs = (
                law.mechanism.probabilities(law.state, law.histogram, law.epsilon, values) for law in (self, other)
            )
            values = values + [int((ours - theirs).argmax())] * self.mechanism.draws
        if self.mechanism.total_share:
            values = [*values, int(self.histogram.grains.sum())]
        output = np.array(values, dtype=np.int64)
        return Worst(output, self.log_ratio(other, output))

    def log_ratio(self, other: Law, output: object) -> Loss:
        """Return a difference of two log-likelihoods, in floats."""
        if not isinstance(other, Choices) or other.epsilon != self.epsilon:
            return math.inf
        measurement = Measurement(0, self.epsilon, np.asarray(output))
        ours, theirs = (law.mechanism.log_likelihood(law.state, law.histogram, measurement) for law in (self, other))
        return ours - theirs


@dataclass(frozen=True, eq=False)
class Shown(Law):
    """What discovery shows of a universe that is small enough to list: every text by itself, shown with a sum, or not.

    With q = e^(-1/scale) a text of h grains is shown as y ≥ θ with probability (1 - q)/(1 + q)·q^|y - h|, and else not.
    Ratios of sums are rational; those of what is not shown are floats.
    """

    mechanism: SparseHistogram
    state: FoundTexts
    histogram: TextHistogram
    epsilon: Epsilon
    drawn: bool = True
    """Whether texts that nobody has can be shown too; if not, this is a law of something broken."""

    def worst(self, other: Law, outward: int = 0) -> Worst:
        """Return the worst of every text."""
        if not isinstance(other, Shown) or (other.mechanism, other.epsilon) != (self.mechanism, self.epsilon):
            return Worst(np.zeros(0, dtype=np.int64), math.inf)
        shown = {}
        for text, least in self._thresholds.items():
            heights = {max(least, grains) + outward for grains in (0, self._grains(text), other._grains(text))}
            best = max([None, *heights], key=lambda y: float(self._ratio(other, text, y)))
            if best is not None:
                shown[text] = best
        output = self.mechanism.packed(self.state.universe, shown)
        return Worst(output, self.log_ratio(other, output))

    def log_ratio(self, other: Law, output: object) -> Loss:
        """Return the sum over all texts."""
        if not isinstance(other, Shown):
            return math.inf
        shown = unpacked(self.state.universe, np.asarray(output))
        return sum((self._ratio(other, text, shown.get(text)) for text in self._thresholds), Fraction(0))

    @cached_property
    def _thresholds(self) -> dict[str, int]:
        universe = self.state.universe
        by_length = self.mechanism.thresholds(universe, self.epsilon)
        texts = [universe.text(rank) for rank in range(universe.count)]
        return {text: by_length[len(text.encode())] for text in texts}

    def _grains(self, text: str) -> int:
        texts = list(self.histogram.texts)
        return int(self.histogram.grains[texts.index(text)]) if text in texts else 0

    def _ratio(self, other: Shown, text: str, y: int | None) -> Loss:
        h, theirs = self._grains(text), other._grains(text)
        silent, others_silent = (law._silent(text) for law in (self, other))
        if y is not None and (silent or others_silent):
            return Fraction(0) if silent and others_silent else -math.inf if silent else math.inf
        if h == theirs and silent == others_silent:
            return Fraction(0)
        if y is not None:
            return Fraction(abs(y - theirs) - abs(y - h)) / self.epsilon.scale
        return self._hidden(text, h, silent) - self._hidden(text, theirs, others_silent)

    def _silent(self, text: str) -> bool:
        """Tell whether the text cannot be shown at all."""
        return not self.drawn and text not in self.histogram.texts

    def _hidden(self, text: str, grains: int, silent: bool) -> float:
        """Return ln P(the text is not shown): of a tail above the threshold, or of the other one."""
        if silent:
            return 0.0
        rate = 1 / float(self.epsilon.scale)
        below = self._thresholds[text] - grains
        if below >= 1:
            return math.log1p(-math.exp(-below * rate) / (1 + math.exp(-rate)))
        return (below - 1) * rate - math.log1p(math.exp(-rate))


@dataclass(frozen=True, eq=False)
class Joint(Law):
    """Several independent outputs of one step."""

    parts: tuple[Law, ...]

    def worst(self, other: Law, outward: int = 0) -> Worst:
        """Return the worst of each part."""
        if not isinstance(other, Joint) or len(other.parts) != len(self.parts):
            return Worst(None, math.inf)
        candidates = [part.worst(its, outward) for part, its in zip(self.parts, other.parts, strict=True)]
        return Worst(
            tuple(worst.output for worst in candidates), sum((worst.loss for worst in candidates), Fraction(0))
        )

    def log_ratio(self, other: Law, output: object) -> Loss:
        """Return the sum over the parts."""
        if not isinstance(other, Joint) or not isinstance(output, tuple) or len(other.parts) != len(self.parts):
            return math.inf
        parts = zip(self.parts, other.parts, output, strict=True)
        return sum((part.log_ratio(its, value) for part, its, value in parts), Fraction(0))


@dataclass(frozen=True, eq=False)
class Chained(Law):
    """Two independent parts of one measurement, whose values follow each other."""

    first: Law
    second: Law

    def worst(self, other: Law, outward: int = 0) -> Worst:
        """Return the worst of both."""
        if not isinstance(other, Chained):
            return Worst(None, math.inf)
        one, two = self.first.worst(other.first, outward), self.second.worst(other.second, outward)
        values = [np.asarray(part, dtype=np.int64) for part in (one.output, two.output)]
        return Worst(np.concatenate(values), one.loss + two.loss)

    def log_ratio(self, other: Law, output: object) -> Loss:
        """Return the sum of both; the first has as many values as its worst output."""
        if not isinstance(other, Chained):
            return math.inf
        values, cut = np.asarray(output), np.asarray(self.first.worst(other.first).output).size
        return self.first.log_ratio(other.first, values[:cut]) + self.second.log_ratio(other.second, values[cut:])


def law_of(mechanism: object, state: object, histogram: Histogram, epsilon: Epsilon) -> Law:
    """Return the law of what a mechanism measures: its own method `law(state, histogram, epsilon)`, or a known one."""
    if hasattr(mechanism, "law"):
        law = mechanism.law(state, histogram, epsilon)
        if isinstance(law, Law):
            return law
    if isinstance(mechanism, Boosted):
        return Laplace(histogram.grains, epsilon.scale) if epsilon.units else Point(())
    if isinstance(mechanism, Published) and isinstance(state, PublishedState):
        return Choices(mechanism, state, histogram, epsilon)
    if isinstance(mechanism, SparseHistogram) and isinstance(state, FoundTexts):
        return Shown(mechanism, state, histogram, epsilon) if isinstance(histogram, TextHistogram) else Point(())
    if isinstance(state, DiscoveringState) and isinstance(histogram, HistogramWithTexts):
        assert isinstance(mechanism, Discovering)  # noqa: S101 - its state
        for_texts, rest = mechanism.split(epsilon)
        texts_law = law_of(mechanism.sparse(1), FoundTexts(state.universe, {}, {}), histogram.texts[0], for_texts)
        return Chained(law_of(mechanism.inner, state.inner, histogram, rest), texts_law)
    raise OptionError(
        f"no likelihood is known for {type(mechanism).__name__}: give it a method `law`, or audit it blindly."
    )


def law_of_groups(histogram: Histogram, groups: Sequence[GroupBudget]) -> Law:
    """Return the law of what is measured by class: independent noise on every group's histogram, each of its scale."""
    rows = zip(histogram.by_group, groups, strict=True)
    return Joint(tuple(Laplace(row, group.epsilon.scale) for row, group in rows))
