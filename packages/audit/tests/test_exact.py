"""The exact audit through real streams: known losses are found exactly, and looking changes nothing."""

import math
import os
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpi
from dpi.budget.epsilon import UNITS
from dpi.errors import OptionError, StateError
from dpi.mechanism.base import Estimate, Measurement, Mechanism
from dpi.noise import UnsafeSeededSource
from dpi.testing.class_sums import ClassSums, SharedSums
from dpi_audit import Finding, Laplace, Law, Point, StreamSession, loss_on, neighbours, search, worst_of
from dpi_audit.exact import OUTWARD
from dpi_audit.session import _Probe
from dpi_audit.small import DOMAIN, VALUES, stream


@dataclass(frozen=True)
class Off(Mechanism[object]):
    """The boosted mechanism with noise that is `factor` times too small."""

    factor: Fraction
    inner = dpi.Boosted()

    def initial(self, domain):
        """As the boosted mechanism."""
        return self.inner.initial(domain)

    def measure(self, state, histogram, epsilon, slot, source):
        """Not used: the auditor forces outputs."""
        raise AssertionError

    def law(self, state, histogram, epsilon) -> Law:
        """Laplace noise of the wrong scale."""
        return Laplace(histogram.grains, epsilon.scale / self.factor)

    def update(self, state, measurement):
        """As the boosted mechanism."""
        return self.inner.update(state, measurement)

    def to_bytes(self, state):
        """As the boosted mechanism."""
        return self.inner.to_bytes(state)

    def from_bytes(self, domain, data):
        """As the boosted mechanism."""
        return self.inner.from_bytes(domain, data)


@pytest.mark.parametrize("factor", [Fraction(1, 2), Fraction(1), Fraction(1 + 2**-30), Fraction(3)])
def test_noise_that_is_off_by_a_factor_loses_exactly_that_factor(factor):
    """A loss is a rational number: noise too small by a part in 10⁹ is a violation, and exact noise is none."""
    make = stream(mechanism=Off(factor), budget=dpi.Ledger(per_slot=Fraction(1, 16)))
    finding = loss_on(lambda: StreamSession(make), neighbours.alone(20, VALUES))
    assert finding.loss == factor
    assert finding.claimed == 1
    assert finding.violates == (factor > 1)


@pytest.mark.parametrize(
    "budget",
    [
        dpi.Ledger(per_slot=0.07),
        dpi.Ledger(policy=dpi.budget.spend_first),
        dpi.Converging(dpi.budget.Zeta(2), dpi.budget.RBA(4)),
    ],
)
def test_looking_changes_nothing(budget):
    """A stream that was looked at before every release gives the bytes of one that was not."""
    rows = neighbours.every_slot(20, VALUES).one
    plain = stream(budget=budget, mechanism=dpi.Boosted())(lambda mechanism: mechanism)
    session = StreamSession(stream(budget=budget, mechanism=dpi.Boosted()))
    source = UnsafeSeededSource(5)
    for slot in rows:
        law = session.look(slot)
        assert isinstance(law.parts[1], Laplace | Point)
        session.look(slot)
        values = law.parts[1].values + np.array([int(w) % 999 for w in source.words(3)])
        forced = session.force((None, values))
        object.__setattr__(plain.setting.mechanism, "measure", Forced(values).measure)
        assert plain.release([u for u, _ in slot], [v for _, v in slot]).to_json() == forced


class Forced(dpi.Boosted):
    """A boosted mechanism whose measurement is given."""

    def __new__(cls, values):
        """Options of the boosted mechanism, and a measurement."""
        self = super().__new__(cls)
        object.__setattr__(self, "values", values)
        return self

    def __init__(self, values):
        """The defaults."""
        super().__init__()

    def __repr__(self):
        return repr(dpi.Boosted())

    def measure(self, state, histogram, epsilon, slot, source):
        """What is given."""
        return Measurement(slot, epsilon, self.values)


def test_a_transcript_has_at_least_twenty_slots():
    """Fewer would not let budgets run dry."""
    with pytest.raises(OptionError, match="at least 20"):
        search(lambda: StreamSession(stream()), VALUES, slots=19)


def test_neighbours_are_needed():
    """Nothing tried is nothing found."""
    with pytest.raises(OptionError, match="at least one pair"):
        worst_of(lambda: StreamSession(stream()), [])


def test_a_stream_without_the_probe_is_refused():
    """A stream that does not use the wrapped mechanism cannot be forced."""

    def make(wrap):
        wrap(dpi.Boosted())
        return dpi.Stream(domain=DOMAIN, epsilon=1)

    with pytest.raises(StateError, match="without a look"):
        StreamSession(make).look(())


def test_different_budgets_are_an_infinite_loss():
    """A slot's budget is public: if it depends on the data, the streams are told apart for sure."""
    seeds = iter((1, 2))

    def make(wrap):
        source = UnsafeSeededSource(next(seeds))
        budget = dpi.Converging(dpi.budget.Zeta(2), dpi.budget.RBA(4))
        return dpi.Stream(domain=DOMAIN, epsilon=1, budget=budget, mechanism=wrap(dpi.Boosted()), unsafe_source=source)

    assert math.isinf(loss_on(lambda: StreamSession(make), neighbours.alone(20, VALUES)).loss)


def test_the_search_finds_worse_neighbours_than_it_starts_from():
    """From a user who is there twice, small changes climb towards one who uses up the whole account."""
    quick = stream(mechanism=ClassSums())

    def twice(slots, values):
        return neighbours.pair("twice", [((neighbours.TARGET, "a"),) if t < 2 else () for t in range(slots)])

    found = [
        search(lambda: StreamSession(quick), VALUES, slots=20, families=[twice], tries=tries).ratio for tries in (0, 6)
    ]
    assert found[0] == pytest.approx(0.1)
    assert found[1] > found[0]


def test_a_finding_without_a_claim_allows_nothing():
    """Where no loss is admitted, any is infinitely too much."""
    assert math.isinf(Finding(Fraction(1, UNITS), Fraction(0), "").ratio)
    assert not Finding(Fraction(0), Fraction(0), "").violates
    assert Finding(Fraction(UNITS + 1, UNITS), Fraction(1), "").violates


def test_the_probe_prints_the_mechanism_behind_it():
    """Certificates and digests of an audited stream are those of the stream itself."""
    plain = stream()(lambda mechanism: mechanism)
    assert StreamSession(stream()).stream.digest == plain.digest
    assert repr(_Probe(dpi.Boosted())) == repr(dpi.Boosted())


class Blind(Off):
    """Exact noise, and a release that says nothing: fast, and as private as any."""

    def update(self, state, measurement):
        """A uniform PDF."""
        return state, Estimate(np.full(3, 1 / 3), np.zeros(3), np.zeros(3), 1.0, 1.0)


amounts = st.fractions(Fraction(1, 1000), 3, max_denominator=10**6)
users = st.sampled_from([neighbours.TARGET, "x", "y"])
slots = st.lists(st.lists(st.tuples(users, st.sampled_from(VALUES)), max_size=9).map(tuple), min_size=20, max_size=24)


@settings(max_examples=200 if os.environ.get("DPI_SLOW") else 12)
@given(
    amounts, amounts, slots, st.sampled_from([dpi.budget.spend_first, dpi.budget.fade()]), st.sampled_from([None, 1, 7])
)
def test_no_neighbours_lose_more_than_claimed_at_any_amounts(epsilon, per_slot, rows, policy, period):
    """Whatever ε, budget, policy and rows: the loss is a rational number that does not exceed the claim by one bit."""
    budget = dpi.Ledger(per_slot=min(epsilon * Fraction(99, 100), per_slot), policy=policy, period=period)
    make = stream(mechanism=Blind(Fraction(1)), epsilon=epsilon, budget=budget)
    finding = loss_on(lambda: StreamSession(make), neighbours.pair("any", rows))
    assert isinstance(finding.loss, Fraction)
    assert finding.loss <= finding.claimed


CLOCKED = [dpi.Ledger(policy=dpi.budget.clocked(top=top), period=period) for top in (1, 4) for period in (None, 7)]


@settings(max_examples=150 if os.environ.get("DPI_SLOW") else 15)
@given(
    amounts, slots, st.sampled_from(CLOCKED), st.sampled_from([ClassSums(), SharedSums()]),
    st.sampled_from(OUTWARD), st.booleans(),
)  # fmt: skip
def test_no_neighbours_lose_more_than_is_said_by_class(epsilon, rows, budget, mechanism, outward, reverse):
    """Whatever class, group and slot a user pays in: the loss, a rational number, is at most what is said."""
    make = stream(mechanism=mechanism, epsilon=epsilon, budget=budget)
    pair = neighbours.pair("any", rows)
    finding = loss_on(lambda: StreamSession(make), pair, outward=outward, reverse=reverse)
    assert isinstance(finding.loss, Fraction)
    assert finding.loss <= finding.claimed


def test_a_user_can_lose_what_is_said_by_class():
    """Who is there in every slot, or in other classes than others, loses nearly all that the bounds of classes say."""
    make = stream(mechanism=ClassSums(), budget=CLOCKED[2])
    for family in (neighbours.every_slot, neighbours.classes):
        assert 0.99 < loss_on(lambda: StreamSession(make), family(24, VALUES)).ratio <= 1


class OneGroup(ClassSums):
    """All classes in one histogram: half of what newcomers have left, a quarter of the others'."""

    def request_payments(self, state, slot):
        """Return one group, the same in every slot."""
        return (tuple((m, Fraction(1, 4) if m else Fraction(1, 2)) for m in range(state.classes)),)


@pytest.mark.parametrize("first", range(3))
@pytest.mark.parametrize("reverse", [False, True])
def test_in_a_shared_histogram_a_user_loses_what_they_pay(first, reverse):
    """Beside a newcomer who pays 1/2, who has 1/2 left pays 1/8, and then 3/32: the loss is exactly that."""
    rows = [(("newcomer " + str(t), "a"), *([(neighbours.TARGET, "b")] if t >= first else [])) for t in range(20)]
    paid, left = [], Fraction(1)
    for payment in range(20 - first):
        paid.append(left * (Fraction(1, 4) if payment else Fraction(1, 2)))
        left -= paid[-1]
    make = stream(mechanism=OneGroup(), budget=CLOCKED[2])
    finding = loss_on(lambda: StreamSession(make), neighbours.pair("two classes", rows), reverse=reverse)
    account = 1 - Fraction(round(left * UNITS), UNITS)
    assert 0 <= account - finding.loss < Fraction(1, 1 << 20)  # of 20 payments each is rounded to grains of 2^-25
    assert finding.loss <= finding.claimed


def test_users_of_two_classes_in_one_histogram_lose_exactly_what_each_pays():
    """Of neighbours that differ in one of them: 1/2 of one who comes first, 1/2 + 1/8 of one who was there before."""
    rows = [((neighbours.TARGET, "a"),), ((neighbours.TARGET, "a"), ("new", "b")), *[()] * 18]
    make = stream(mechanism=OneGroup(), budget=CLOCKED[2])
    for user, paid in ((neighbours.TARGET, Fraction(5, 8)), ("new", Fraction(1, 2))):
        finding = loss_on(lambda: StreamSession(make), neighbours.pair("two classes", rows, user))
        assert finding.loss == paid <= finding.claimed


def test_other_budgets_of_classes_are_an_infinite_loss():
    """Which classes are due, and what each costs, is public: streams in which it differs are told apart for sure."""
    tops = iter((3, 4))

    def make(wrap):
        budget = dpi.Ledger(policy=dpi.budget.clocked(top=next(tops)))
        return dpi.Stream(domain=DOMAIN, epsilon=1, budget=budget, mechanism=wrap(ClassSums()))

    assert math.isinf(loss_on(lambda: StreamSession(make), neighbours.alone(20, VALUES)).loss)
