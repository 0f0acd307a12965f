"""Stateless steps that close a slot, which every driver of a stream shares.

A driver (`Stream`, a played crowd, an engine of many processes) moves bytes between them and keeps their order:

    Offer.draw      the public budget of the slot, once
    weigh           the slot's rows and the accounts as they are  →  grains, and what the accounts will pay
                    (of a part of the users as well: grains of all parts add up)
    finish          the grains of all users                       →  histogram (`dpi.histogram.compression`)
    measure         the public state and the histogram            →  the paid slot: noise is drawn here alone
    (the driver pays: accounts and paid slot in one transaction)
    release_slot    the public state and the paid slot            →  the release, and the state after it

None of them changes what it is given. `weigh` sees users; `measure` sees a histogram and no user; `release_slot` sees
neither, so that the release of a paid slot that was lost has the same bytes when it is made again.

**Guarantee.** One slot loses at most ε_t·w_{u,t} about user u, where ε_t is the offer's, and the charge debits u by at
least that. *Why:* u moves the histogram by at most w_{u,t} units, of which the mechanism loses ε_t each; the tree's
part of ε_t is taken from the mechanism's; and `release_slot` is a function of what was measured. Where users are
measured by class, the same holds of each group of classes with its own price, and u is in one group.

**Whether a step is tried again never depends on a drawn value.** A charge that cannot be paid is refused before noise
is drawn, what is paid has a size that does not depend on the noise, and an offer is kept until its slot is paid for:
were a fresh one drawn after each failure, a failure that large budgets cause would leave small ones alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpi.budget.accounts import Accounts
from dpi.budget.allocation import Allocation
from dpi.budget.charge import Charge
from dpi.budget.class_allocation import ClassAllocation, read_snapshot
from dpi.budget.classes import Bounds, GroupBudget
from dpi.budget.epsilon import UNITS, Epsilon
from dpi.budget.policy import Fade
from dpi.exact.silence import silence
from dpi.histogram.compression import Compression, Histogram, count
from dpi.histogram.grouping import Groups
from dpi.mechanism.base import ACROSS, ENGAGEMENT, SPANS, Estimate, Measurement
from dpi.noise import RandomSource
from dpi.release import Release
from dpi.store.base import PaidSlot
from dpi.stream._option_history import Forgotten, OptionHistory
from dpi.stream.accumulation import users_of
from dpi.stream.options import StreamOptions
from dpi.stream.state import StreamState, adapted, begun, tree_of

if TYPE_CHECKING:
    from dpi.exact.integers import Integers


@dataclass(frozen=True)
class Offer:
    """What the next slot may take: public, drawn before any event of it is looked at."""

    after: int | None
    """The last slot that was released before: an offer is for the one slot that follows it."""
    epsilon: Epsilon
    share: Fraction
    """The part of what is left on an account that the slot may take."""
    allocation: str
    """All that was drawn until then, this included."""
    groups: tuple[GroupBudget, ...] = ()
    """Where users are measured by class: the budgets of those that are due in the slot, empty ones too."""
    slot: int | None = None
    """The number of the slot, for which classes are due."""

    @property
    def histograms(self) -> int:
        """How many histograms the slot has: one for each group of classes."""
        return max(1, len(self.groups))

    @classmethod
    def draw(cls, state: StreamState, allocation: Allocation, slot: int, source: RandomSource) -> Offer:
        """Return the budget of the slot after a state. The allocation is the one thing that a step moves on."""
        if isinstance(allocation, ClassAllocation):
            epsilon = allocation.draw_classes(slot, state.setting.mechanism.request_payments(state.state, slot))
        else:
            epsilon = allocation.draw(source)
        return cls(state.last, epsilon, allocation.share, allocation.snapshot(), allocation.groups, slot)


@dataclass(frozen=True, eq=False)
class ReleasedSlot:
    """What a paid slot becomes: all of it public, but for open nodes of a tree in the state."""

    release: Release
    """Without its certificate."""
    state: StreamState
    """Where the stream goes on."""
    users: float
    """What the allocation hears (`Allocation.observe`): the estimated users …"""
    bins: float
    """… the number of bins that matter, e^entropy …"""
    drift: float | None
    """… and the step by which log-probabilities move in a slot, as far as the mechanism tracks it."""
    groups: tuple[GroupBudget, ...] = ()
    """The budgets of the classes that were due, where users are measured by class."""


@dataclass(frozen=True)
class Counting:
    """What of a slot's options says how its rows are counted: all that a part of the users needs of them."""

    stream: str
    bins: int
    compression: Compression
    whole_weights: bool
    codes: int
    """How many codes rows have: the bins, unless values are summed."""

    @classmethod
    def of(cls, options: StreamOptions) -> Counting:
        """Return how slots with some options are counted."""
        domain = options.domain
        compression = options.compression.over(domain) if domain.summed else options.compression
        return cls(options.name, domain.size, compression, options.whole_weights, domain.row_codes)


@silence()
def weigh(
    counting: Counting, groups: Groups, accounts: Accounts | None, offer: Offer, slot: int
) -> tuple[Integers, Charge | None]:
    """Return the grains of a slot's rows, and what they change on the accounts: both private. Nothing is changed yet.

    With accounts, each user has the weight that theirs can pay; without, everybody counts in full. Rows and accounts
    may be those of a part of the users: the slot's grains are the sum over all parts (`dpi.histogram.compression`).
    """
    weights, group_index, charge = None, None, None
    if accounts is not None:
        bill = accounts.bill(
            groups.names,
            offer.epsilon,
            slot,
            share=offer.share,
            whole=counting.whole_weights,
            stream=counting.stream,
            groups=offer.groups,
        )
        weights, charge = bill.weights, accounts.charge(bill)
        group_index = bill.group_index if len(offer.groups) > 1 else None
    return count(groups, counting.bins, counting.compression, weights, group_index, offer.histograms), charge


@silence()
def measure(state: StreamState, clean: Histogram, offer: Offer, slot: int, source: RandomSource) -> PaidSlot:
    """Return the noisy measurement of a slot, as it is paid for: the only step that draws noise.

    Nobody may see it before the accounts are debited. What it holds has a size that does not depend on the noise.
    """
    options, tree = state.setting, state.tree
    if offer.groups:
        fed, groups = options.split_groups(offer.groups)
        measurement = options.mechanism.measure_classes(state.state, clean, groups, slot, source)
        summed = clean.of_groups(fed) if any(fed) else None
    else:
        to_tree, to_mechanism = options.split(offer.epsilon)
        measurement = options.mechanism.measure(state.state, clean, to_mechanism, slot, source)
        summed = clean if to_tree.units else None
    if tree is not None and summed is not None:
        tree = tree.added(summed, source)
    return PaidSlot(
        stream=options.name,
        slot=slot,
        epsilon=offer.epsilon.units,
        partial=not offer.groups and state.partial(offer.epsilon, offer.share, slot),
        values=measurement.values.astype("<i8").tobytes(),
        allocation=offer.allocation,
        assumption=clean.assumption or "",
        tree=b"" if tree is None else tree.to_bytes(),
    )


def release_slot(
    state: StreamState,
    paid: PaidSlot,
    guarantee: str,
    *,
    whole: bool = False,
    shared: bool = False,
    counted: Release | None = None,
) -> ReleasedSlot:
    """Return the release of a paid slot, and the state after it: a function, so that both can be made again.

    `whole` says that a newcomer has all that this stream knows of, `shared` that another one pays from the same
    accounts. `counted` is the release of the stream that counts the slot's users, if there is one.
    """
    options = state.setting
    bounds, groups = read_snapshot(paid.allocation)
    measurement, fed = measurement_of(options, paid)
    remembered, estimate = options.mechanism.update(state.state, measurement)
    if counted is not None:
        total, variance = _weigh(estimate, counted)
        estimate = replace(estimate, total=total, total_variance=variance)
    users, tree = users_of(estimate), tree_of(options, paid.tree)
    if tree is not None and not any(fed):
        tree = tree.passed(users * estimate.pdf)
    after = StreamState(
        setting=options,
        state=remembered,
        accumulation=state.accumulation.added(estimate),
        tree=tree,
        first=paid.slot if state.first is None else state.first,
        last=paid.slot,
        spent=state.spent + paid.epsilon if bounds is None else bounds.past + max(bounds.spent),
    )
    start = None if options.slots is None else options.slots.start(paid.slot)
    release = Release(
        domain=options.domain,
        pdf=estimate.pdf,
        variance=estimate.variance,
        skew=estimate.skew,
        total=float(estimate.total),
        total_variance=float(estimate.total_variance),
        accumulated=after.accumulated(),
        slot=paid.slot,
        # With its offset from UTC instead of a zone: differences are then those of real time.
        start=None if start is None else datetime.fromisoformat(start.isoformat()),
        epsilon=paid.epsilon / UNITS,
        epsilon_spent=after.most_spent / UNITS,
        guarantee=guarantee + (f" Assumed: {paid.assumption}." if paid.assumption else ""),
        certificate={},
        carried=float(estimate.carried) if options.classes > 1 else None,
        age=float(estimate.age) if options.classes > 1 else None,
        people=_with_count(_people(estimate, after, bounds) if whole else None, counted, estimate),
        payers=paid.partial or shared or _faded(state) or (bounds is not None and bool(bounds.restored)),
    )
    entropy = -float(estimate.pdf @ np.log(np.maximum(estimate.pdf, 1e-300)))
    return ReleasedSlot(release, after, users, float(np.exp(entropy)), options.mechanism.drift(remembered), groups)


def _faded(state: StreamState) -> bool:
    """Return whether users who were there before count in part, by the policy."""
    return isinstance(state.setting.policy, Fade) and state.first is not None


def measurement_of(options: StreamOptions, paid: PaidSlot) -> tuple[Measurement, list[bool]]:
    """Return a paid slot as the mechanism measured it, and which of its groups the tree of sums was fed with."""
    values, groups = np.frombuffer(paid.values, dtype="<i8").astype(np.int64), read_snapshot(paid.allocation)[1]
    if groups:
        fed, parts = options.split_groups(groups)
        return Measurement(paid.slot, max([part.epsilon for part in parts]), values, paid.partial, parts), list(fed)
    to_tree, to_mechanism = options.split(Epsilon(paid.epsilon))
    return Measurement(paid.slot, to_mechanism, values, paid.partial), [to_tree.units > 0]


def derive_state(history: OptionHistory, measurements: Iterable[PaidSlot], last: int) -> object:
    """Return what the mechanism remembers after slot `last`, made anew of the measurements that are kept.

    So an estimator may change what it remembers from one version to the next. Of measurements that were dropped
    nothing is known any more: then it is as if the stream had begun after them.

    **Guarantee.** It costs nothing. *Why:* it is a function of public measurements and options. What accounts hold and
    what is known of each class (`dpi.budget.classes`) stays as it was stored.
    """
    state, before = None, None
    for paid in measurements:
        if paid.slot > last:  # paid for and not yet released: that is done with this state
            break
        setting = history.at(paid.slot)
        if before is None:
            state = begun(setting)
        elif setting is not before:
            state = adapted(state, before, setting)
        if not isinstance(setting.mechanism, Forgotten):
            state, _ = setting.mechanism.update(state, measurement_of(setting, paid)[0])
        before = setting
    newest = history.at(last)
    return begun(newest) if before is None else state if before is newest else adapted(state, before, newest)


def _weigh(own: Estimate, counted: Release) -> tuple[float, float]:
    """Return the number of active users by both measurements, each by its precision, and its variance.

    Where they differ by more than both variances explain, the rest is added to the stream's own: its number is mostly
    carried forward, the count was measured in this slot. (The moment estimate of DerSimonian and Laird, 1986, for one
    of the two. Beside other rules on recorded years: docs/research-log.md, "Two measurements of one number".)
    """
    count, doubt = counted.total, counted.total_variance
    variance = max(own.total_variance, (own.total - count) ** 2 - doubt)
    apart = variance + doubt
    if not apart > 0:
        return count, doubt
    weight = doubt / apart
    return count + weight * (own.total - count), weight * variance


def _with_count(own: dict[str, float] | None, counted: Release | None, both: Estimate) -> dict[str, float] | None:
    """Return people as a count knows them, beside newcomers and reach of the stream's own first payments.

    First payments are dear, and newcomers are in every slot: no count for a small price knows them as well. Who is not
    new came before.
    """
    if counted is None or counted.people is None:
        return own
    told, least = (own or {}) | counted.people, float(both.total)
    for name in (f"active_{span}" for span in SPANS):
        if name in told:  # of more slots there are no fewer users
            told[name] = least = max(told[name], least)
    if own is not None:
        told |= {name: own[name] for name in ("newcomers", "newcomers_variance", "reach", "reach_variance")}
        told["returning"] = max(both.total - told["newcomers"], 0.0)
        told["returning_variance"] = both.total_variance + told["newcomers_variance"]
    return told


def _people(estimate: Estimate, after: StreamState, bounds: Bounds | None) -> dict[str, float] | None:
    """Return newcomers, those who returned and all who came, if public facts say that these can be told apart.

    Every first payment must be whole, and be the user's first: accounts are never refilled, no old copy of them went
    on, and the mechanism knows the stream from its first slot.
    """
    told = estimate.people
    if told is None or bounds is None or bounds.period is not None or bounds.restored or estimate.since != after.first:
        return None
    people: dict[str, float] = told._asdict()
    for names, numbers in ((ENGAGEMENT, estimate.engagement), (ACROSS, estimate.across)):
        for name, (value, variance) in [] if numbers is None else zip(names, numbers.tolist(), strict=True):
            people |= {} if math.isnan(value) else {name: value, f"{name}_variance": variance}
    return people
