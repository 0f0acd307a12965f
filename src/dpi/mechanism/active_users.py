"""How many users are active: a count of all who come, in every slot, for a small price that is the same for all.

A stream of shares measures its returning users in one of up to eight slots, dear and exactly: what it knows of their
number in between is a guess. A count alone is cheap: of K bins the sum of a histogram has the noise of K bins, a count
that of one. So this mechanism has one bin, and asks everybody in every slot: users in four histograms by how often they
have paid, each with one price (`dpi.estimator.prices`). What is known follows by the learned filter and its heads
(`dpi.estimator`): active users, newcomers, returning users, reach, distinct users of the last slots and stickiness,
with intervals that are widened where this stream's own measurements ask for it. Its head of retention is not asked: in
populations unlike those it was trained on it is wrong and sure (benchmarks/unlike.py, docs/research-log.md).

Sees a histogram of one bin (in `measure_classes`, once), an amount of budget and the slot's number; never a user.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from dpi import estimator
from dpi.budget.billing import SHARE_STEPS
from dpi.budget.classes import PaymentRequest, Priced
from dpi.budget.epsilon import UNITS, Epsilon
from dpi.domain import Domain
from dpi.errors import OlderState, OptionError, StateError
from dpi.estimator import HISTOGRAMS, QUANTILE, Calibration, Released, Told
from dpi.estimator.prices import TOP, Options, PriceList, ReleasedActivity, opening, write_list
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import Histogram
from dpi.mechanism.base import ACROSS, MECHANISMS, Estimate, Floats, Measurement, Mechanism, People
from dpi.mechanism.codec import decode, digested, encode
from dpi.noise import RandomSource

LONGEST = 168
"""Slots of a season at most: hours of a week."""
LEFT = 8
"""Who has at least this part of what the fullest account of a class may have pays the whole price. Lost slots charge
every account that many prices (`dpi.budget.classes.most_taken`), so it is not larger than regulars need: after five
years of days they have about a sixth."""
REWRITTEN = 1.1
"""The list is written anew whenever the stream is so many times as long, so that prices change slowly."""
_MAGIC = b"dpi active users 1\n"
_DEVIATIONS = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, eq=False)
class ActiveUsersState:
    """Public: a function of measurements."""

    filtered: tuple[Floats, ...]
    """The arrays of the filter's state."""
    people: tuple[Floats, ...]
    """The arrays of the state of the heads, which tell of people."""
    widened: tuple[float, float]
    """Logarithms of the factors by which intervals are wider."""
    measured: tuple[int, int]
    """How many totals were measured, and how many of them lay inside of their forecast."""
    activity: ReleasedActivity
    prices: Floats
    edges: tuple[int, ...]
    next: int
    """After how many slots the list is written anew."""
    epsilon: float
    """What an account holds at first, as far as it was told."""
    left: Floats
    """The part of ε that users of each class have left at most."""
    first: int
    """The first slot, or -1 before it."""
    weights: str
    """The digest of the estimator's weights: what others remember says nothing to these."""

    @property
    def bins(self) -> int:
        """The domain has one bin."""
        return 1


@MECHANISMS.member
@dataclass(frozen=True)
class ActiveUsers(Mechanism[ActiveUsersState]):
    """A count of active users in every slot, for domains of one value.

    `season` is a public period in slots, such as 7 for days: activity is then learned for each of its phases.

    >>> from dpi.domain import Categories
    >>> mechanism = ActiveUsers(season=7)
    >>> state = mechanism.initial(Categories(["active"], other=None), classes=41)
    >>> mechanism.request_payments(state, 0)
    (((0, Fraction(...)),),)
    """

    season: int | None = None

    kind = "active_users"
    largest_sensitivity = GRAINS
    by_class = True

    def __post_init__(self) -> None:
        season = self.season
        if season is not None and (type(season) is not int or not 2 <= season <= LONGEST):
            raise OptionError(f"`season` must be a number of slots from 2 to {LONGEST}. Got {season!r}.")

    def top(self, domain: Domain) -> int:
        """Count payments up to 40."""
        return TOP

    def initial(self, domain: Domain, classes: int = 1) -> ActiveUsersState:
        """Return the state before the first slot."""
        if domain.size != 1 or classes != TOP + 1:
            raise OptionError("active users are counted by class, in a domain of one value.")
        prices = opening(1, 1.0, Options())
        return ActiveUsersState(
            filtered=_arrays(estimator.initial_state(1, self.season or 1)),
            people=_arrays(estimator.no_people()),
            widened=(0.0, 0.0),
            measured=(0, 0),
            activity=ReleasedActivity(),
            prices=prices.prices.astype(np.float64),
            edges=prices.edges,
            next=1,
            epsilon=0.0,
            left=np.ones(1),
            first=-1,
            weights=estimator.trained_digest(),
        )

    def request_payments(self, state: ActiveUsersState, slot: int) -> PaymentRequest:
        """Ask every class that somebody can be in: a user pays once a slot at most. A histogram has one price."""
        entry = Fraction(int(np.ceil(state.prices[0] * SHARE_STEPS)), SHARE_STEPS)
        asked: list[tuple[tuple[int, Fraction], ...]] = [((0, entry),)]
        for histogram in range(1, HISTOGRAMS):
            price, classes = float(state.prices[histogram]), range(state.edges[histogram], _end(state, histogram))
            if len(classes):
                shares = [(m, _share(LEFT * price / max(float(state.left[m]), price))) for m in classes]
                asked.append(Priced(shares, Epsilon(max(round(price * state.epsilon * UNITS), 1))))
        return tuple(asked)

    def measure(
        self, state: ActiveUsersState, histogram: Histogram, epsilon: Epsilon, slot: int, source: RandomSource
    ) -> Measurement:
        """Refuse: users are counted by class (`measure_classes`)."""
        raise OptionError("active users are counted by class: leave out `per_slot`, `slots` and `converging`.")

    def update(self, state: ActiveUsersState, measurement: Measurement) -> tuple[ActiveUsersState, Estimate]:
        """Return what is remembered, and what is known of a slot by its noisy sums."""
        groups = measurement.groups
        if measurement.values.size != len(groups):
            raise StateError("the measurement has another number of bins or classes than the state.")
        sums, due, price = (np.zeros(HISTOGRAMS, np.float32) for _ in range(3))
        begun = state.first >= 0
        epsilon = groups[0].classes[0].most_left / UNITS if groups else state.epsilon
        price[:] = np.where(state.prices > 0, state.prices * epsilon, 1e-7)
        due[:] = bool(groups) * (state.prices > 0)  # nobody is in a histogram that cannot be reached: that is exact
        for value, group in zip(measurement.values, groups, strict=True):
            histogram = int(np.searchsorted(state.edges, group.classes[0].number, side="right")) - 1
            sums[histogram] = int(value) / GRAINS * (group.epsilon.units / UNITS)
            price[histogram] = group.epsilon.units / UNITS
        season, width = np.float32(self.season is not None), np.diff([*state.edges, TOP + 1]).astype(np.float32)
        width[-1] = 0.0
        phase = measurement.slot % self.season if self.season else 0
        seen = estimator.Measurement(sums[:, None], due, price, phase, season, np.float32(0), width)
        weights = estimator.trained()
        with np.errstate(over="ignore"):  # of variances, which are bounded afterwards
            filtered, said = estimator.step(weights, estimator.State(*state.filtered), seen)
        signal = due * price * said.members / np.float32(np.sqrt(2))
        released = Released(said.numbers, said.number_scale, said.members, signal, season, np.float32(0))
        people, told = estimator.next_people(weights, estimator.People(*state.people), released)
        widening = Calibration(*state.widened, *state.measured)
        if begun:
            widening = estimator.calibrate(widening, seen, said)
        numbers = np.maximum(np.expm1(np.minimum(said.numbers, 40.0)), 0).astype(float)
        activity = state.activity.add_slot(numbers[1], numbers[2], float(state.prices[0])) if groups else state.activity
        listed, following = PriceList(state.prices, state.edges), state.next
        if activity.slots >= following and epsilon > 0:
            listed, following = write_list(activity, 1, epsilon, Options()), int(following * REWRITTEN) + 1
        after = ActiveUsersState(
            filtered=_arrays(filtered),
            people=_arrays(people),
            widened=(widening.bins, widening.total),
            measured=(widening.measured, widening.inside),
            activity=activity,
            prices=listed.prices.astype(np.float64),
            edges=listed.edges,
            next=following,
            epsilon=epsilon,
            left=_paid(state) if groups else state.left,
            first=state.first if begun or not groups else measurement.slot,
            weights=state.weights,
        )
        return after, _estimate(after, said, told, widening.factors[1])

    def adapt_to_domain(self, state: ActiveUsersState, old: Domain, new: Domain, classes: int = 1) -> ActiveUsersState:
        """Return the same state: there is one bin."""
        return state

    def to_bytes(self, state: ActiveUsersState) -> bytes:
        """Encode the state, for storage, with version and checksum."""
        return encode(_MAGIC, state)

    def digested(self, data: bytes) -> int:
        """Return the size of its first line and the digest."""
        return digested(data)

    def from_bytes(self, domain: Domain, data: bytes) -> ActiveUsersState:
        """Read the state of `to_bytes`, bit for bit; raise `StateError` if damaged or of another domain or options.

        Of other weights it raises `OlderState`: it is then derived anew from what was measured.
        """
        state = decode(ActiveUsersState, _MAGIC, data, "the count of active users")
        shapes = [part.shape for part in _arrays(estimator.initial_state(1, self.season or 1))]
        if domain.size != 1 or [part.shape for part in state.filtered] != shapes:
            raise StateError("the state belongs to a mechanism with other options or to another domain.")
        if state.weights != estimator.trained_digest():
            raise OlderState("the count of active users was made with other weights of the estimator.")
        return state


def _end(state: ActiveUsersState, histogram: int) -> int:
    """Return the end of the classes of a histogram that somebody can be in by now."""
    last = state.edges[histogram + 1] if histogram + 1 < HISTOGRAMS else TOP + 1
    return min(last, state.left.size)


def _share(part: float) -> Fraction:
    return Fraction(min(max(int(np.ceil(part * SHARE_STEPS)), 1), SHARE_STEPS // 2), SHARE_STEPS)


def _paid(state: ActiveUsersState) -> Floats:
    """Return what users of each class have left at most after a slot in which all paid their price."""
    edges, left = np.array(state.edges), state.left
    histogram = np.searchsorted(edges, np.arange(left.size), side="right") - 1
    after = np.append(left, 0.0)[: TOP + 1]
    paid = np.maximum(left - state.prices[histogram], left / 2)
    paid[0] = 1 - state.prices[0]
    for m, rest in enumerate(paid):
        into = min(m + 1, TOP)
        after[into] = max(after[into], rest)
    return after


def _arrays(parts: NamedTuple) -> tuple[Floats, ...]:
    return tuple(np.asarray(part, dtype=np.float32) for part in parts)


def _estimate(state: ActiveUsersState, said: estimator.Posterior, told: Told, wider: float) -> Estimate:
    """Return what is known as numbers and variances: normal intervals reach as far up as those of the posterior."""
    numbers = np.maximum(np.expm1(np.minimum(said.numbers, 40.0)), 0).astype(float)
    factors = np.expm1(np.minimum(QUANTILE * np.exp(said.number_scale.astype(float)) * wider, 30.0))
    deviation = (numbers + 1) * factors / _DEVIATIONS
    variance = deviation**2
    reach, reach_deviation = _of_logarithm(told.reach, told.reach_scale, wider)
    slots, across = state.activity.slots, np.full((len(ACROSS), 2), np.nan)
    known = dict(zip(ACROSS, across, strict=True))
    for place, window in enumerate(estimator.WINDOWS):
        if slots >= window:
            distinct, doubt = _of_logarithm(told.distinct[place], told.distinct_scale[place], wider)
            if _DEVIATIONS * doubt < distinct:
                known[f"active_{window}"][:] = _square(distinct, doubt)
            stickiness = _of_logarithm(told.stickiness[place], told.stickiness_scale[place], wider)
            known[f"stickiness_{window}"][:] = _known_part(*stickiness)
    return Estimate(
        pdf=np.ones(1),
        variance=np.zeros(1),
        skew=np.zeros(1),
        total=float(numbers[0]),
        total_variance=float(variance[0]),
        people=People(numbers[1], variance[1], numbers[2], variance[2], reach, reach_deviation**2),
        across=across,
        since=state.first,
    )


def _of_logarithm(value: float, scale: float, wider: float) -> tuple[float, float]:
    """Return a number and a deviation, of its logarithm and of the logarithm of that one's scale."""
    number = float(np.exp(min(float(value), 40.0)))
    return number, number * float(np.expm1(min(QUANTILE * np.exp(float(scale)) * wider, 30.0))) / _DEVIATIONS


def _known_part(value: float, deviation: float) -> tuple[float, float]:
    """Return a part and its variance; nothing if its interval has half of what is possible, or more."""
    return _square(value, deviation) if _DEVIATIONS * deviation < 0.25 else (np.nan, np.nan)


def _square(value: float, deviation: float) -> tuple[float, float]:
    return value, deviation**2
