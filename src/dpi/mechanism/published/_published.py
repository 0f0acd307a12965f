"""The published mechanism: Algorithm 1 with a public pool and a ramp, its coefficients derived from the budget.

A slot's histogram is looked at through choices alone: which queries the release so far answers badly, and which
synopses of the public pool answer those queries well. The release is the mean of the chosen synopses. The module sees a
histogram and an amount; never a user, and it keeps nothing but past choices, which are public.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from types import MappingProxyType

import numpy as np

from dpi.budget.epsilon import AS_NUMBER, Amount, Epsilon, rational
from dpi.domain import Domain
from dpi.errors import OptionError, StateError
from dpi.exact.integers import GRAINS, Integers, wide_sum
from dpi.histogram.compression import Histogram
from dpi.mechanism.base import MECHANISMS, Estimate, Floats, Measurement, Mechanism
from dpi.mechanism.published.linear import LARGEST_FLOOR, QUERIES, LinearQueries, Ramp, dyadic, queries_from_bytes
from dpi.mechanism.published.pool import POOLS, Multinomial, Pool, smoothed
from dpi.noise import RandomSource, add_laplace, exponential_choices
from dpi.noise.laplace import LARGEST_VALUE
from dpi.theory import Bound, claimed_loss, true_loss

_PAST_BITS = 20
"""Past scores are public; they are kept in whole numbers of 2^-20."""

SMALLEST_SHARE = Fraction(1, 1 << 16)
"""Of a budget of one unit (2^-40) this is the least that noise can be drawn for: a scale of 2^80 grains."""


@dataclass(frozen=True, eq=False)
class PublishedState:
    """All that the mechanism remembers: past choices and what follows from them. Public."""

    slots: int
    """Slots that were looked at."""
    chosen: Integers
    """Synopses whose mean is the last release; none: the uniform PDF."""
    queries: LinearQueries
    query_slots: int
    """Slots that were looked at since the queries were last changed."""
    query_past: Integers
    synopsis_past: Integers
    """Sums of public scores over past slots; zero unless scores accumulate."""


@MECHANISMS.member
@dataclass(frozen=True)
class Published(Mechanism[PublishedState]):
    """Algorithm 1, calibrated: `draws` queries and `draws` synopses a round, their mean is the release.

    In a round, each query is drawn with P_Q ∝ exp(-a_Q · score of the release so far on that query), then each synopsis
    with P_A ∝ exp(+a_A · mean score of the synopsis on the drawn queries). Scores are the ramp of `lam` and `mu` on
    the slot's histogram. `rounds` are made in the first slot, and in every slot with `every_slot`; other slots have
    one. `total_share` of the budget buys a private total.

    Without `n_min` a user of any weight can move a score over its whole range, as in the published text; then weights
    must be zero or one (`whole_weights`). With it, histograms of fewer than `n_min` users are filled up with the
    uniform PDF, one user moves a score by about 2/(mu·n_min), and all weights are welcome.

    **Formal guarantee.** `measure` with budget ε is (ε·w)-DP for a user of weight w: for every w with `n_min`, for w of
    zero and one without.

    *Why.* A slot makes 2·rounds·draws choices. Each is an exponential mechanism on integer scores that depend on the
    histogram, on public state and on earlier choices of the slot, with a rate of ε′/(2Δ), where ε′ is the share of one
    choice and Δ the most that a user of weight one moves a score. A user who moves all scores by at most w·Δ changes
    the log-probability of a choice by at most 2·(ε′/(2Δ))·w·Δ = w·ε′; public terms in the exponent cancel. Δ is proved
    in `dpi.mechanism.published.linear`: proportional to the grains moved with a floor, the ramp's range without. A mean
    of scores on several queries moves no more than one of them. The total is a discrete Laplace with scale 2^24/(τ·ε),
    and moves by at most w·2^24 grains. Given what was drawn before, each choice keeps its bound whatever the past was;
    so the bounds add up: (1 - τ)·ε·w for the choices and τ·ε·w for the total.

    With `accumulative` scores the exponents also hold the mean score over past slots. Those are taken from past
    *releases*, on which they cost nothing. The published text takes them from past data: there, every slot is drawn
    from again in all later ones, the memory is private, and the loss of a user who left goes on. So nothing here needs
    a converging budget.

    >>> from dpi.domain import Categories
    >>> from dpi.noise import SystemSource
    >>> mechanism = Published(Multinomial(size=50, precision=20), draws=4)
    >>> state = mechanism.initial(Categories(["a", "b", "c"]))
    >>> histogram = Histogram(np.array([5, 3, 0, 1]) * GRAINS, GRAINS)
    >>> measurement = mechanism.measure(state, histogram, Epsilon.at_most(1), 0, SystemSource())
    >>> measurement.values.size  # four queries, four synopses
    8
    >>> state, estimate = mechanism.update(state, measurement)
    >>> round(float(estimate.pdf.sum()), 9)
    1.0
    """

    pool: Pool = field(default_factory=Multinomial)
    queries: LinearQueries | None = None
    """None: halves, quarters … of the domain, `dyadic(bins)`."""
    lam: Amount = 0.1
    mu: Amount = 0.05
    draws: int = 20
    rounds: int = 1
    every_slot: bool = False
    accumulative: bool = False
    n_min: int | None = None
    total_share: Amount = 0

    codecs = MappingProxyType(
        {"pool": POOLS.codec, "queries": QUERIES.codec.or_none} | dict.fromkeys(("lam", "mu", "total_share"), AS_NUMBER)
    )

    def __post_init__(self) -> None:
        if not 0 <= rational(self.lam, "lam") < 1:
            raise OptionError(f"`lam` must be at least 0 and below 1. Got {self.lam}.")
        if not Fraction(1, 1024) <= rational(self.mu, "mu") <= 1:
            raise OptionError(f"`mu` must be at least 1/1024 and at most 1. Got {self.mu}.")
        share = self._share
        if share and not SMALLEST_SHARE <= share < 1:
            raise OptionError(f"`total_share` must be 0, or at least 2^-16 and below 1. Got {self.total_share}.")
        for name, value, largest in (("draws", self.draws, 128), ("rounds", self.rounds, 1024)):
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= largest:
                raise OptionError(f"`{name}` must be a whole number from 1 to {largest}. Got {value!r}.")
        floor = self.n_min
        if floor is not None and (not isinstance(floor, int) or not 1 <= floor <= LARGEST_FLOOR):
            raise OptionError(f"`n_min` must be a whole number of users from 1 to 2^20, or None. Got {floor!r}.")
        self.ramp.sensitivity(GRAINS)  # refuses a floor that is too low

    @cached_property
    def ramp(self) -> Ramp:
        """The scores' ramp, in whole numbers."""
        return Ramp.of(rational(self.lam, "lam"), rational(self.mu, "mu"), self.n_min)

    @cached_property
    def _share(self) -> Fraction:
        """The total's share of the budget."""
        return rational(self.total_share, "total_share")

    @property
    def whole_weights(self) -> bool:
        """Whether users' weights must be zero or one: without a floor, a small weight loses as much as a whole one."""
        return self.n_min is None

    def initial(self, domain: Domain, classes: int = 1) -> PublishedState:
        """Begin with nothing chosen: the release before the first slot is uniform."""
        queries = dyadic(domain.size) if self.queries is None else self.queries
        if queries.bins != domain.size:
            raise OptionError(f"`queries` must have as many bins as the domain, {domain.size}. Got {queries.bins}.")
        nothing = np.zeros(0, dtype=np.int64)
        past = np.zeros(self.pool.size, dtype=np.int64)
        return PublishedState(0, nothing, queries, 0, np.zeros(len(queries), dtype=np.int64), past)

    def with_queries(self, state: PublishedState, queries: LinearQueries) -> PublishedState:
        """Return the state with other queries from the next slot on, publicly chosen; their weights start anew."""
        if queries.bins != state.queries.bins:
            raise OptionError(f"`queries` must have {state.queries.bins} bins, as before. Got {queries.bins}.")
        return replace(state, queries=queries, query_slots=0, query_past=np.zeros(len(queries), dtype=np.int64))

    def measure(
        self, state: PublishedState, histogram: Histogram, epsilon: Epsilon, slot: int, source: RandomSource
    ) -> Measurement:
        """Choose queries and synopses; see the class for the guarantee.

        Values: for each round the drawn queries, then the drawn synopses; last the noisy total in grains, if bought.
        """
        if epsilon.units == 0:
            return Measurement(slot, epsilon, np.zeros(0, dtype=np.int64))
        bill = self._bill(state, histogram.sensitivity, epsilon)
        truth = self.ramp.truth(state.queries, histogram.grains)
        values: list[int] = []
        while len(values) < bill.choices:
            scores, rate = self._next(state, truth, bill, values)
            values += exponential_choices(scores, rate, source, self.draws)
        if bill.total_scale:
            total = np.array([_total(histogram)])
            values.append(int(add_laplace(total, bill.total_scale, source)[0]))
        return Measurement(slot, epsilon, np.array(values, dtype=np.int64))

    def probabilities(
        self, state: PublishedState, histogram: Histogram, epsilon: Epsilon, so_far: Sequence[int] = ()
    ) -> Floats:
        """Return the log-probability of every outcome of the next choice, given the choices so far.

        Private, for the curator's audit. Its integers are those that `measure` draws by; the logarithms are floats.
        """
        bill = self._bill(state, histogram.sensitivity, epsilon)
        if len(so_far) >= bill.choices:
            raise OptionError(f"`so_far` must hold fewer than the slot's {bill.choices} choices.")
        return self._law(state, self.ramp.truth(state.queries, histogram.grains), bill, so_far)

    def _law(self, state: PublishedState, truth: Integers, bill: _SlotCost, so_far: Sequence[int]) -> Floats:
        scores, rate = self._next(state, truth, bill, so_far)
        logarithms = (scores - scores.max()) * float(rate)
        result: Floats = logarithms - math.log(float(np.exp(logarithms).sum()))
        return result

    def log_likelihood(self, state: PublishedState, histogram: Histogram, measurement: Measurement) -> float:
        """Return the log-probability of a whole measurement: private, for the curator's audit."""
        if measurement.epsilon.units == 0:
            return 0.0
        bill = self._bill(state, histogram.sensitivity, measurement.epsilon)
        values, truth = self._checked(state, measurement), self.ramp.truth(state.queries, histogram.grains)
        result = 0.0
        for start in range(0, bill.choices, self.draws):
            law = self._law(state, truth, bill, values[:start].tolist())
            result += float(law[values[start : start + self.draws]].sum())
        if bill.total_scale:
            step = float(1 / bill.total_scale)
            result += math.log(math.tanh(step / 2)) - abs(int(values[-1]) - _total(histogram)) * step
        return result

    def update(self, state: PublishedState, measurement: Measurement) -> tuple[PublishedState, Estimate]:
        """Return the mean of the chosen synopses; the last release again if the slot was not looked at."""
        total, total_variance = math.nan, math.nan
        if measurement.epsilon.units:
            values = self._checked(state, measurement)
            chosen = self._synopses(values[: 2 * self.draws * self._rounds(state)])
            state = self._remember(state, chosen)
            share = self._share * measurement.epsilon.fraction
            if share:
                total, total_variance = int(values[-1]) / GRAINS, float(2 / share**2)
        bins = state.queries.bins
        counts = np.zeros(bins, dtype=np.int64)
        for index, times in zip(*np.unique(state.chosen, return_counts=True), strict=True):
            counts += int(times) * self.pool.counts(int(index), bins)
        pdf = smoothed(counts, self.pool.precision * state.chosen.size, bins)
        # A number in [0, 1] with mean p has a variance of at most p·(1 - p). The choices have no likelihood that would
        # say less, so all of it is stated, and the estimate counts as prior.
        return state, Estimate(pdf, pdf * (1 - pdf), np.ones(bins), total, total_variance)

    def to_bytes(self, state: PublishedState) -> bytes:
        """Encode the state with its digest, bound to the mechanism's options."""
        arrays = (state.chosen, state.query_past, state.synopsis_past)
        head = np.array([state.slots, state.query_slots, *(array.size for array in arrays)], dtype="<i8")
        body = b"".join((head.tobytes(), *(a.astype("<i8").tobytes() for a in arrays), state.queries.to_bytes()))
        return self._seal(body) + body

    def from_bytes(self, domain: Domain, data: bytes) -> PublishedState:
        """Read the state of `to_bytes`."""
        seal, body = data[:_SEAL], data[_SEAL:]
        if seal != self._seal(body):
            raise StateError("the saved state is damaged or belongs to a mechanism with other options.")
        numbers = np.frombuffer(body, dtype="<i8").astype(np.int64)
        slots, query_slots, *sizes = (int(x) for x in numbers[:5])
        ends = np.cumsum([5, *sizes])
        chosen, query_past, synopsis_past = (numbers[a:b] for a, b in pairwise(ends))
        queries = queries_from_bytes(body[8 * int(ends[-1]) :])
        if queries.bins != domain.size:
            raise StateError("the saved state belongs to another domain.")
        return PublishedState(slots, chosen, queries, query_slots, query_past, synopsis_past)

    def _seal(self, body: bytes) -> bytes:
        scores, rounds = self.ramp.description, f"{self.draws}/{self.rounds}/{self.every_slot}/{self.accumulative}"
        options = f"{self.pool.description}/{scores}/{rounds}"
        seal = hashlib.blake2b(digest_size=_SEAL, person=b"dpi published")
        seal.update(f"{options}/{self._share}\n".encode() + body)
        return seal.digest()

    def _rounds(self, state: PublishedState) -> int:
        return self.rounds if self.every_slot or state.slots == 0 else 1

    def _bill(self, state: PublishedState, sensitivity: int, epsilon: Epsilon) -> _SlotCost:
        """Split the slot's budget: what each choice costs, from public facts alone."""
        share = self._share
        if share and sensitivity != GRAINS:
            raise OptionError("`total_share` needs a histogram of one user, one unit: a whole PDF has no total.")
        choices = 2 * self.draws * self._rounds(state)
        # One query alone is no choice; what it would cost goes to the synopses.
        paid = choices if len(state.queries) > 1 else choices // 2
        rate = (1 - share) * epsilon.fraction / paid / (2 * self.ramp.sensitivity(sensitivity))
        total_scale = sensitivity / (share * epsilon.fraction) if share else Fraction(0)
        return _SlotCost(choices, rate, total_scale)

    def _next(
        self, state: PublishedState, truth: Integers, bill: _SlotCost, so_far: Sequence[int]
    ) -> tuple[Integers, Fraction]:
        """Return integer scores of the candidates of the next choice, and the rate they are drawn with.

        The draws of one family in one round are independent: they depend on the families before alone.
        """
        values = np.array(so_far[: len(so_far) // self.draws * self.draws], dtype=np.int64)
        table = _table(self.pool, state.queries, self.ramp)
        if values.size // self.draws % 2 == 0:
            chosen = self._synopses(values) if values.size else state.chosen
            scores = -self.ramp.score(table.mean(chosen), truth)
            return scores - self._past(state.query_past, state.query_slots), bill.rate
        scores = self.draws * self._past(state.synopsis_past, state.slots)
        for query, times in zip(*np.unique(values[-self.draws :], return_counts=True), strict=True):
            scores = scores + int(times) * self.ramp.score(table.answers[query], int(truth[query]))
        return scores, bill.rate / self.draws

    def _past(self, sums: Integers, slots: int) -> Integers:
        """Return the mean public score over past slots, on the ramp's scale."""
        return sums // max(slots, 1) * (self.ramp.mu >> _PAST_BITS)

    def _synopses(self, values: Integers) -> Integers:
        return values.reshape(-1, 2, self.draws)[:, 1].flatten()

    def _remember(self, state: PublishedState, chosen: Integers) -> PublishedState:
        after = replace(state, slots=state.slots + 1, query_slots=state.query_slots + 1, chosen=chosen)
        if not self.accumulative:
            return after
        ramp, table = self.ramp, _table(self.pool, state.queries, self.ramp)
        release, unit = table.mean(chosen), self.ramp.mu >> _PAST_BITS
        scores = np.zeros(self.pool.size, dtype=np.int64)
        for answers, truth in zip(table.answers, release, strict=True):
            scores += ramp.score(answers, int(truth)) // unit
        return replace(
            after,
            query_past=state.query_past + ramp.score(table.mean(state.chosen), release) // unit,
            synopsis_past=state.synopsis_past + scores // len(state.queries),
        )

    def _checked(self, state: PublishedState, measurement: Measurement) -> Integers:
        values, choices = measurement.values, 2 * self.draws * self._rounds(state)
        if values.size == choices + (self._share > 0):
            queries, synopses = values[:choices].reshape(-1, 2, self.draws).transpose(1, 0, 2)
            if _within(queries, len(state.queries)) and _within(synopses, self.pool.size):
                return values
        raise StateError("the measurement belongs to a mechanism with other options, or to another state.")


_SEAL = 16


@dataclass(frozen=True)
class _SlotCost:
    """The slot's number of choices, the rate of a choice between single scores, and the scale of the total's noise."""

    choices: int
    rate: Fraction
    total_scale: Fraction


@dataclass(frozen=True, eq=False)
class _PoolAnswers:
    """The pool's answers on the ramp's scale, one row a query, and those of the uniform PDF."""

    answers: Integers
    uniform: Integers

    def mean(self, chosen: Integers) -> Integers:
        """Return answers of the mean of the chosen synopses; of the uniform PDF if there are none."""
        if chosen.size == 0:
            return self.uniform
        # Divided first, so that the sum stays in 64 bits: less than `chosen.size` units below the mean, publicly.
        result: Integers = (self.answers[:, chosen] // chosen.size).sum(axis=1)
        return result


@lru_cache(maxsize=4)
def _table(pool: Pool, queries: LinearQueries, ramp: Ramp) -> _PoolAnswers:
    answers = ramp.public(np.ascontiguousarray(pool.answers(queries).T), pool.precision * queries.scale)
    ones = np.ones((1, queries.bins), dtype=np.int64)
    return _PoolAnswers(answers, ramp.public(queries.answers(ones)[0], queries.bins * queries.scale))


def _total(histogram: Histogram) -> int:
    return min(wide_sum(histogram.grains), LARGEST_VALUE)


def _within(indices: Integers, bound: int) -> bool:
    return int(indices.min()) >= 0 and int(indices.max()) < bound


def published_accounting(
    slots: int, epsilon: float, mu: float, zeta: float, draws: int = 20, *, families: int = 1
) -> Bound:
    """Return what Theorem 1 claims that Algorithm 1 loses with the published series, and what it can (`corrected`).

    The calibrated mechanism above loses at most Σ ε_t·w instead, whatever the number of draws.

    >>> bound = published_accounting(1000, 1, 0.1, 0.1)
    >>> round(bound.printed, 2), round(bound.corrected)
    (0.86, 103)
    """
    claimed = claimed_loss(slots, epsilon, mu, zeta, families=families)
    return Bound(claimed, true_loss(slots, draws, epsilon, mu, zeta, families=families))
