"""Questions answered on a PDF, with error bars.

Everything here is post-processing of released numbers: a question costs no privacy, however many are asked. Nothing
here sees private data.

*Error bars.* A release gives each probability a variance v; errors of different bins are taken as independent but for
their sum, which is zero because the PDF sums to one. For an answer Σ cᵢpᵢ that leaves Σ vᵢ(cᵢ - c̄)² with c̄ = Σ
vᵢcᵢ/Σ vᵢ. Answers that are not linear use their gradient. The error of a total adds in proportion.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dpi.display.card import bar, card, table
from dpi.display.markup import Html, element
from dpi.domain import Amounts, Bins, Domain, Product
from dpi.errors import OptionError
from dpi.mechanism.base import AFTER, HORIZON, SPANS, STICKY, at_most_one
from dpi.release.choice import bin_of, check_part, choose
from dpi.release.interval import LEVEL, LEVEL_TEXT, deviations, interval

Floats = npt.NDArray[np.float64]
NOT_SURER = "not enough measurements yet: the interval would be as wide as the prior. Ask again after more slots."
"""Why a number of engagement is not offered."""
NOT_COUNTED = (
    "this is told where active users are counted (`people`, set when a stream begins), once so many slots have passed "
    "and it is known to within itself."
)
"""Why a number across slots is not offered."""
UNKNOWN = "not known yet"
"""What stands for an interval that says nothing."""
COHORTS = {"new": "", "first": "first_"}
"""Whose retention is told, and how its numbers begin."""
SHOWN = 12
"""How many bins of a card have a row."""


def interval_text(lower: str, upper: str, end: float) -> str:
    """Return an interval in words, of its ends as texts; one without an upper `end` has the lower one alone.

    >>> interval_text("2", "8", 8.0), interval_text("2", "inf", math.inf)
    ('2 … 8', 'at least 2')
    """
    return f"at least {lower}" if math.isinf(end) else f"{lower} … {upper}"


@dataclass(frozen=True)
class Answer:
    """A value and its standard error.

    >>> Answer(0.25, 0.01).interval(0.95)
    (0.2304..., 0.2695...)
    """

    value: float
    error: float

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return the value minus and plus the normal quantile of the level times the error."""
        half = deviations(level) * self.error
        return self.value - half, self.value + half

    @property
    def known(self) -> bool:
        """Whether the interval says anything."""
        return True

    def __float__(self) -> float:
        return self.value

    def _repr_html_(self) -> str:
        lower, upper = self.interval()
        ends = interval_text(f"{lower:.6g}", f"{upper:.6g}", upper) if self.known else UNKNOWN
        return card(f"{self.value:.6g}", {"standard error": f"{self.error:.3g}", f"{LEVEL_TEXT} interval": ends})


@dataclass(frozen=True)
class Share(Answer):
    """The share of one bin, with the interval that the release states for it: there is one definition."""

    skew: float = 0.0
    total: float = math.inf

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return the ends for this bin by `dpi.release.interval`: never below 0 or above 1."""
        total = self.total if math.isfinite(self.total) else math.inf
        ends = interval(np.array([self.value]), np.array([self.error**2]), np.array([self.skew]), total, level)
        return float(ends[0][0]), float(ends[1][0])


@dataclass(frozen=True)
class Count(Answer):
    """A number of users, or of pairs of them: noise may take an estimate below 0, and no interval goes there.

    >>> Count(2.0, 5.0).interval(0.95), Count(20.0, 5.0, at_least=True).interval(0.95)
    ((0.0, 11.79...), (10.2..., inf))
    """

    at_least: bool = False
    """Whether users may be missing in it: then nothing is said of how many there are at most."""

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return the ends of `Answer`, cut at 0. This is post-processing, and no number of users lies below."""
        lower, upper = super().interval(level)
        return max(0.0, lower), math.inf if self.at_least else max(0.0, upper)


@dataclass(frozen=True)
class Part(Answer):
    """A part of users, or of the slots to come: between 0 and `most`, and so is its interval.

    >>> Part(0.9, 0.1).interval(0.95)
    (0.7040..., 1.0)
    """

    most: float = 1.0

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return the ends of `Answer`, cut at 0 and at `most`."""
        lower, upper = super().interval(level)
        return max(0.0, lower), min(upper, self.most)


@dataclass(frozen=True)
class Binned(Answer):
    """An answer about numbers of which only the bins are known: each may lie anywhere in its bin.

    `error` is that of noise alone. The interval also has the width of the bins.
    """

    low: Answer
    """The answer if every number were at the lower end of its bin …"""
    high: Answer
    """… and if every number were at the upper end."""
    first: bool = False
    """Whether the bins are the first grid of amounts: empty bins far out then count most."""

    @property
    def known(self) -> bool:
        """Return whether the interval says anything: on the first grid of amounts, one with both signs does not."""
        lower, upper = self.interval()
        return not (self.first and lower < 0 < upper) and math.isfinite(lower)

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return the interval from the lowest to the highest end of both: it holds wherever in bins numbers lie."""
        ends = (self.value, *self.low.interval(level), *self.high.interval(level))
        return min(ends), max(ends)


@dataclass(frozen=True, eq=False)
class Quantile(Answer):
    """Find where the distribution function of ordered bins passes q; within a bin, numbers may lie anywhere.

    `error` is that of noise, for numbers that are spread evenly within their bin. The interval also has the width of
    the bins.
    """

    q: float
    edges: Floats
    """Left and right ends of all bins."""
    below: Floats
    """The share below the right end of each bin …"""
    errors: Floats
    """… and its standard error."""

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return the interval from the left end of the first bin that may hold it, to the right end of the last."""
        half, last = deviations(level) * self.errors, self.below.size - 1
        first = int(np.argmax(np.append(self.below + half >= self.q, True)))
        end = int(np.argmax(np.append(self.below - half >= self.q, True)))
        return float(self.edges[min(first, last)]), float(self.edges[min(end, last) + 1])


@dataclass(frozen=True, eq=False)
class Distribution:
    """A released PDF over a domain, with the variance of each probability and the (private) total where it is known.

    >>> ages = Distribution(Bins([0, 10, 20]), np.array([0.0, 0.5, 0.5, 0.0]), np.zeros(4), total=100.0)
    >>> ages.mean().value, ages.quantile(0.25).value, ages.range(0, 10).value, ages.count().value
    (10.0, 5.0, 0.5, 100.0)
    """

    domain: Domain
    pdf: Floats
    variance: Floats
    total: float = math.nan
    total_variance: float = math.nan
    people: dict[str, float] | None = None
    """Where newcomers can be distinguished from others: numbers and variances by name (`dpi.release.people`)."""
    payers: bool = False
    """Whether some active users may have too little on their accounts: then payers alone are described."""

    def interval(self, level: float = LEVEL) -> tuple[Floats, Floats]:
        """Return the lower and upper ends of a credible interval of each probability (`dpi.release.interval`)."""
        total = self.total if math.isfinite(self.total) else math.inf
        return interval(self.pdf, self.variance, np.zeros_like(self.pdf), total, level)

    def probability(self, value: object) -> Share:
        """Return the share of one value of the domain."""
        code = bin_of(self.domain, value)
        return Share(
            float(self.pdf[code]), math.sqrt(float(self.variance[code])), float(self._skews()[code]), self.total
        )

    def range(self, low: float, high: float) -> Answer:
        """Return the share of numbers in [low, high) of an ordered domain; a bin that is cut counts in part."""
        if not low <= high:
            raise OptionError(f"`low` must be at most `high`. Got {low!r} and {high!r}.")
        edges = edges_of(self.domain)
        left, right = edges[:-1], edges[1:]
        return self._linear(np.clip((np.minimum(right, high) - np.maximum(left, low)) / (right - left), 0, 1))

    def count(self, value: object | None = None) -> Count:
        """Return the number of users with one value, or of all users."""
        users = self._times_total(Answer(1.0, 0.0) if value is None else self.probability(value))
        return Count(users.value, users.error, self.payers)

    def newcomers(self) -> Count:
        """Return how many of the active users had never come to this stream before."""
        return self._people("newcomers")

    def returning(self) -> Count:
        """Return how many of the active users had come to this stream before."""
        return self._people("returning")

    def reach(self) -> Count:
        """Return how many users ever came to this stream so far: newcomers of all slots, as they were measured."""
        return self._people("reach")

    def retention(self, after: int, cohort: str = "new") -> Part | None:
        """Return the share of a cohort that is active so many slots later: 1, 7 or 30.

        The cohort `new` is users who are new in this slot, and what they will do is a forecast; `first` is those of the
        stream's first slot. None while its interval would be as wide as the model's prior.
        """
        if cohort not in COHORTS:
            raise OptionError(f"`cohort` must be {' or '.join(COHORTS)}. Got {cohort!r}.")
        return self._engagement(f"{COHORTS[cohort]}retention_{one_of(after, AFTER, 'after')}")

    def active(self, window: int) -> Count | None:
        """Return the distinct users of the last 7 or 28 slots.

        None unless active users are counted (`people`), and while it is not known.
        """
        name = f"active_{one_of(window, SPANS, 'window')}"
        return self._people(name) if self.people is not None and name in self.people else None

    def stickiness(self, window: int) -> Part | None:
        """Return active users of this slot over the distinct ones of the last 7, 28 or 30 slots; None as above.

        Where active users are counted (`people`) it is known of 7 and 28 slots, elsewhere of 7 and 30.
        """
        return self._engagement(f"stickiness_{one_of(window, STICKY, 'window')}")

    def further_activity(self) -> Part | None:
        """Return in how many of the next 30 slots a user who is active now will be, on average: a forecast.

        None as in `retention`.
        """
        return self._engagement("further_activity", HORIZON)

    def top(self, k: int) -> list[tuple[str, float]]:
        """Return the k most frequent bins with their shares."""
        if not isinstance(k, int) or k < 1:
            raise OptionError(f"`k` must be a whole number above 0. Got {k!r}.")
        order = np.argsort(-self.pdf, kind="stable")[:k]
        return [(self.domain.label(int(code)), float(self.pdf[code])) for code in order]

    def mean(self) -> Binned:
        """Return the mean of an ordered domain, each bin at its middle; values beyond the edges count as these.

        The interval holds wherever in their bins the values lie, and also if what is prior of an estimate (`skew`) is
        nobody: an empty bin far out has a positive estimate, which counts much.
        """
        lower, upper = _ends(self.domain)
        likely = _ordered(self.domain).likely(self.pdf, self.variance)
        middle, low, high = (self._linear(at) for at in (likely, lower, upper))
        prior = self._skews() * self.pdf
        down = float(prior @ np.maximum(lower - middle.value, 0))
        up = float(prior @ np.maximum(middle.value - upper, 0))
        first = isinstance(self.domain, Amounts) and self.domain.unrefined
        ends = Answer(low.value - down, low.error), Answer(high.value + up, high.error)
        return Binned(middle.value, middle.error, *ends, first)

    def sum(self) -> Binned:
        """Return mean times total: the sum over users of each user's average value; of `Amounts`, of each user's sum.

        Users who are missing (`payers`) add what any value may: the interval is open where that has a sign.
        """
        mean = self.mean()
        middle, low, high = (self._times_total(each) for each in (mean, mean.low, mean.high))
        if self.payers:
            least, most = (float(end) for end in (_ends(self.domain)[0].min(), _ends(self.domain)[1].max()))
            low = replace(low, value=-math.inf) if least < 0 else low
            high = replace(high, value=math.inf) if most > 0 else high
        return Binned(middle.value, middle.error, low, high, mean.first)

    def spread(self) -> Answer:
        """Return the variance of an ordered domain (between bins; the width within a bin is left out)."""
        x = _middles(self.domain)
        centred = (x - float(self.pdf @ x)) ** 2
        return self._linear(centred)  # the gradient through the mean vanishes: Σ p·2(x - mean) = 0

    def median(self) -> Quantile:
        """Return the quantile of one half."""
        return self.quantile(0.5)

    def quantile(self, q: float) -> Quantile:
        """Find where the distribution function of an ordered domain passes q, linear within a bin.

        The interval holds wherever in their bins the values lie.
        """
        if not 0 <= q <= 1:
            raise OptionError(f"`q` must lie between 0 and 1. Got {q!r}.")
        edges = edges_of(self.domain)
        cumulative = np.concatenate(([0.0], np.cumsum(self.pdf)))
        code = int(np.clip(np.searchsorted(cumulative, q * cumulative[-1]) - 1, 0, self.pdf.size - 1))
        density = self.pdf[code] / (edges[code + 1] - edges[code])
        value = edges[code] + (q * cumulative[-1] - cumulative[code]) / max(density, 1e-300)
        below = self._linear(np.clip((value - edges[:-1]) / (edges[1:] - edges[:-1]), 0, 1))
        value, error = float(np.clip(value, edges[0], edges[-1])), below.error / max(density, 1e-300)
        known, whole = np.cumsum(self.variance), max(float(self.variance.sum()), 1e-300)
        errors = np.sqrt(np.maximum(known - known**2 / whole, 0))  # the errors of all bins sum to zero
        return Quantile(value, error, q * float(cumulative[-1]), edges, cumulative[1:], errors)

    def where(self, **values: object) -> Distribution:
        """Return the distribution of the other parts of a product among users with these values of some.

        A list of values means any of them. Users are weight: one whose events of a slot have several values of a part
        is in each by the share of their events. The total is the number of users there, with the error of both.
        """
        domain = self._product(*values)
        rest = {name: part for name, part in domain.parts.items() if name not in values}
        if not rest:
            raise OptionError("`where` must leave at least one part open.")
        pdf, variance = (array.reshape(domain.shape) for array in (self.pdf, self.variance))
        for axis, (name, part) in enumerate(domain.parts.items()):
            if name in values:
                chosen = values[name]
                several = list(chosen) if isinstance(chosen, list | tuple | set) else [chosen]
                codes = sorted({bin_of(part, value) for value in several})
                pdf, variance = (array.take(codes, axis).sum(axis, keepdims=True) for array in (pdf, variance))
        mass, doubt = float(pdf.sum()), float(variance.sum())
        doubt -= doubt**2 / max(float(self.variance.sum()), 1e-300)  # the errors of all bins sum to zero
        left: Domain = Product(**rest) if len(rest) > 1 else next(iter(rest.values()))
        total_variance = self.total_variance * mass**2 + self.total**2 * max(doubt, 0.0)
        shares, doubts = pdf.ravel() / mass, variance.ravel() / mass**2
        return Distribution(left, shares, doubts, self.total * mass, total_variance, payers=self.payers)

    def marginal(self, name: str) -> Distribution:
        """Return the distribution of one part of a product."""
        domain = self._product(name)
        others = tuple(i for i, part in enumerate(domain.parts) if part != name)
        pdf, variance = (array.reshape(domain.shape).sum(axis=others) for array in (self.pdf, self.variance))
        shares = at_most_one(pdf)
        total = self.total, self.total_variance
        return Distribution(domain.parts[name], shares, variance, *total, self.people, self.payers)

    def correlation(self, one: str, other: str) -> Answer:
        """Return Pearson's correlation of two ordered parts of a product."""
        domain = self._product(one, other)
        codes = domain.codes(np.arange(domain.size))
        x, y = (_middles(domain.parts[name])[codes[name]] for name in (one, other))
        x, y = x - self.pdf @ x, y - self.pdf @ y
        xx, yy, xy = float(self.pdf @ (x * x)), float(self.pdf @ (y * y)), float(self.pdf @ (x * y))
        if xx <= 0 or yy <= 0:
            raise OptionError("`correlation` needs two parts that vary.")
        r = xy / math.sqrt(xx * yy)
        gradient = (x * y) / math.sqrt(xx * yy) - r / 2 * (x * x / xx + y * y / yy)
        return Answer(r, self._linear(gradient).error)

    def l1(self, other: Distribution) -> Answer:
        """Return Σ |p - q|: between 0 (equal) and 2 (nothing in common)."""
        self._same(other)
        sign = np.sign(self.pdf - other.pdf)
        error = math.hypot(self._linear(sign).error, other._linear(sign).error)
        return Answer(float(np.abs(self.pdf - other.pdf).sum()), error)

    def kl(self, other: Distribution) -> Answer:
        """Return Σ p·ln(p/q), the information lost if q is taken for p."""
        self._same(other)
        p, q = np.maximum(self.pdf, 1e-300), np.maximum(other.pdf, 1e-300)
        error = math.hypot(self._linear(np.log(p / q)).error, other._linear(p / q).error)
        return Answer(max(float(p @ np.log(p / q)), 0.0), error)

    def join_size(self, other: Distribution) -> Count:
        """Return the pairs of users, one of each stream, with the same value: Σ n·p · m·q."""
        self._same(other)
        value = float(self.pdf @ other.pdf)
        share = Answer(value, math.hypot(self._linear(other.pdf).error, other._linear(self.pdf).error))
        pairs = self._times_total(share)
        second = other._times_total(Answer(1.0, 0.0))
        error = math.hypot(pairs.error * second.value, pairs.value * second.error)
        return Count(pairs.value * second.value, error, self.payers or other.payers)

    def _repr_html_(self) -> str:
        return card("Distribution", {"bins": f"{self.domain.size:,}"}, *self._shares())

    def _shares(self) -> list[Html]:
        """Show the largest bins with intervals, ordered ones in their order, and say in a sentence what is left out."""
        lower, upper = self.interval()
        codes = choose(self.domain, self.pdf, SHOWN)
        widest = max(float(upper[codes].max()), 1e-300)
        rows = [
            [
                self.domain.label(int(code)),
                f"{self.pdf[code]:.4f}",
                f"{lower[code]:.4f} … {upper[code]:.4f}",
                bar(*(float(end[code]) / widest for end in (self.pdf, lower, upper))),
            ]
            for code in codes
        ]
        shares = table(["value", "share", f"{LEVEL_TEXT} interval", ""], rows)
        rest = np.setdiff1d(np.arange(self.domain.size), codes)
        if not rest.size:
            return [shares]
        share = f"{100 * float(self.pdf[rest].sum()):.3g} %"
        one = f"{self.domain.label(int(rest[0]))}, {share}"
        many = f"{rest.size:,} more values, {share} together"
        return [shares, element("p", f"Left out: {one if rest.size == 1 else many}.")]

    def _linear(self, coefficients: Floats) -> Answer:
        weight = float(self.variance.sum())
        centre = float(self.variance @ coefficients) / weight if weight > 0 else 0.0
        return Answer(float(self.pdf @ coefficients), math.sqrt(float(self.variance @ (coefficients - centre) ** 2)))

    def _skews(self) -> Floats:
        """Return how much of each bin's estimate is prior; a distribution that does not know has none."""
        return np.zeros_like(self.pdf)

    def _times_total(self, share: Answer) -> Answer:
        if math.isnan(self.total):
            raise OptionError("the total was not measured, so shares cannot be turned into counts.")
        error = math.hypot(share.error * self.total, share.value * math.sqrt(self.total_variance))
        return Answer(share.value * self.total, error)

    def _people(self, name: str) -> Count:
        told = self._told()
        return Count(told[name], math.sqrt(told[f"{name}_variance"]))

    def _engagement(self, name: str, most: float = 1.0) -> Part | None:
        told = self._told()
        return Part(told[name], math.sqrt(told[f"{name}_variance"]), most) if name in told else None

    def _told(self) -> dict[str, float]:
        if self.people is None:
            raise OptionError(
                "newcomers are known only for all users of a stream with an ε of its own, the budget `Ledger()` "
                "without a `period`, and no restored copy."
            )
        return self.people

    def _product(self, *names: str) -> Product:
        if not isinstance(self.domain, Product):
            raise OptionError("this question needs a Product domain.")
        for name in names:
            check_part(self.domain, name)
        return self.domain

    def _same(self, other: Distribution) -> None:
        if self.domain != other.domain:
            raise OptionError("the two releases must have the same domain.")


def one_of(value: int, known: tuple[int, ...], name: str) -> int:
    """Return a number that is one of those known, or refuse it by the name that it was given under."""
    if value not in known:
        raise OptionError(f"`{name}` must be {', '.join(map(str, known[:-1]))} or {known[-1]}. Got {value!r}.")
    return value


def _ordered(domain: Domain) -> Bins:
    if not isinstance(domain, Bins):
        raise OptionError("this question needs an ordered domain (Bins).")
    return domain


def edges_of(domain: Domain) -> Floats:
    """Return left and right ends of all bins; the outer ones are as wide as their neighbours."""
    edges = _ordered(domain).edges
    first = edges[1] - edges[0] if edges.size > 1 else 1.0
    last = edges[-1] - edges[-2] if edges.size > 1 else 1.0
    return np.concatenate(([edges[0] - first], edges, [edges[-1] + last]))


def _middles(domain: Domain) -> Floats:
    """Return the middle of each bin; the outer bins at their edge."""
    return _ordered(domain).middles


def _ends(domain: Domain) -> tuple[Floats, Floats]:
    """Return the lower and the upper end of each bin; the outer bins at their edge."""
    edges = edges_of(domain)
    low, high = edges[:-1].copy(), edges[1:].copy()
    low[0], high[-1] = edges[1], edges[-2]
    return low, high
