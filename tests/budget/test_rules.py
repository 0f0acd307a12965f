"""Allocations and options by the letter: what each draws, what it saves, what it refuses, how it prints."""

import json
import math
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpi.budget import (
    RBA,
    Auto,
    Constant,
    Converging,
    Epsilon,
    Geometric,
    InOrder,
    Ledger,
    Zeta,
    clocked,
    fade,
    spend_first,
)
from dpi.budget.allocation import Concentrated, IndexSet, NearestUnused, Ranges
from dpi.budget.epsilon import UNITS
from dpi.errors import OptionError, StateError
from dpi.noise import SystemSource

ONE = Epsilon.at_most(1)
SOURCE = SystemSource()


def saved(allocation, state):
    """A snapshot of this rule with another state."""
    return json.dumps({"rule": allocation.description, "state": state})


def drawn(allocation, count):
    """Units of some draws."""
    return [allocation.draw(SOURCE).units for _ in range(count)]


# In order, constant, concentrated.


def test_elements_come_in_order_from_the_first():
    """Draw t is element t, also after a restart."""
    series = Geometric("0.5").of(ONE)
    allocation = InOrder(Geometric("0.5"), ONE)
    assert drawn(allocation, 5) == [series.element(t) for t in range(1, 6)]
    other = InOrder(Geometric("0.5"), ONE)
    other.restore(allocation.snapshot())
    assert drawn(other, 2) == [series.element(6), series.element(7)]
    fresh = InOrder(Geometric("0.5"), ONE)
    fresh.restore(saved(fresh, 0))
    assert drawn(fresh, 1) == [series.element(1)]


def test_concentrated_budgets_are_high_in_every_nth_slot():
    """High in slots 0, n, 2n …, low in the others, and a restart goes on in the middle."""
    allocation = Concentrated("0.1", 3)
    high, low = (Epsilon.at_most(Epsilon.at_most("0.1").fraction * s).units for s in (Fraction(12, 5), Fraction(3, 10)))
    assert drawn(allocation, 7) == [high, low, low, high, low, low, high]
    other = Concentrated("0.1", 3)
    other.restore(allocation.snapshot())
    assert drawn(other, 3) == [low, low, high]


def test_most_allocations_offer_all_that_is_left():
    """The share is one unless a rule says otherwise."""
    for allocation in (InOrder(Zeta(2), ONE), Constant("0.1"), Concentrated("0.1", 3)):
        allocation.draw(SOURCE)
        assert allocation.share == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Constant("0.1"), Constant("0.2")),
        (Concentrated("0.1", 3), Concentrated("0.1", 4)),
        (Concentrated("0.1", 3), Concentrated("0.2", 3)),
        (InOrder(Zeta(2), ONE), InOrder(Zeta(2), Epsilon.at_most(2))),
        (NearestUnused(Zeta(2), ONE, Fraction(1)), NearestUnused(Zeta(2), ONE, Fraction(2))),
        (NearestUnused(Zeta(2), ONE, Fraction(1)), NearestUnused(Zeta(2), Epsilon.at_most(2), Fraction(1))),
        (Ranges(Zeta(2), ONE, ONE, Epsilon(5)), Ranges(Zeta(2), ONE, ONE, Epsilon(6))),
        (Auto(ONE, 5), Auto(ONE, 6)),
        (Auto(ONE, 5), Auto(Epsilon.at_most(2), 5)),
    ],
    ids=lambda a: a.description[:30],
)
def test_rules_with_other_options_do_not_take_each_others_state(one, other):
    """Every option is in the rule's description."""
    assert one.description != other.description
    with pytest.raises(StateError, match="other options"):
        other.restore(one.snapshot())
    other.restore(other.snapshot())


# Random allocation.


@pytest.mark.parametrize(
    ("state", "good"),
    [
        ([], True),
        ([[1, 1]], True),
        ([[1, 2], [4, 4]], True),
        ([[2, 3], [4, 4]], False),
        ([[0, 1]], False),
        ([[1, 2], [2, 3]], False),
        ([[3, 3], [1, 1]], False),
        ([[2, 1]], False),
        ([[1, 2, 3]], False),
        ([[1]], False),
        ([5], False),
        ([[1, True]], False),
        ([[1, 1.0]], False),
    ],
    ids=str,
)
def test_used_elements_are_runs_that_follow_each_other(state, good):
    """Runs from 1 on, none backwards, none that overlap or touch; what is damaged changes nothing."""
    allocation = NearestUnused(Zeta(2), ONE, Fraction(1))
    if good:
        allocation.restore(saved(allocation, state))
        used = {i for first, last in state for i in range(first, last + 1)}
        assert [allocation._used.free_from(i) != i for i in range(1, 12)] == [i in used for i in range(1, 12)]
    else:
        allocation.restore(saved(allocation, [[7, 9]]))
        with pytest.raises(StateError, match="damaged"):
            allocation.restore(saved(allocation, state))
        assert allocation._state() == [[7, 9]]


def test_the_target_is_a_geometric_number_of_units():
    """S has a mean of 1/Λ, in units: six standard errors of 2,000 draws (false alarm below 10^-8), for small Λ too."""
    for rate in (Fraction(1, 1 << 10), Fraction(1), Fraction(10**8)):
        allocation = RBA(rate).open(Zeta(2), ONE)
        mean = sum(allocation._target(SOURCE) for _ in range(2000)) / 2000
        assert mean == pytest.approx(float(UNITS / rate), rel=6 / math.sqrt(2000))


def test_rates_at_both_ends_are_taken():
    """Λ from 2^-10 to 2^40."""
    for good in (Fraction(1, 1 << 10), 1 << 40):
        assert RBA(good).rate == good
    for bad in (Fraction(1, (1 << 10) + 1), (1 << 40) + 1):
        with pytest.raises(OptionError, match="`Lambda` must"):
            RBA(bad)


def test_ranges_end_where_their_thresholds_say():
    """Large are elements of at least `large`, medium of at least `small`; a saved place lies inside its queue."""
    allocation = Converging(Geometric("0.5"), RBA.ranges(large="0.125", small="0.03125")).allocation(ONE)
    assert allocation._state() == [1, 4, 6]  # 1/2 1/4 1/8 | 1/16 1/32 | 1/64 …
    for state in ([1, 4, 6], [4, 6, 6], [4, 6, 1000]):
        allocation.restore(saved(allocation, state))
        assert allocation._state() == state
    allocation = Converging(Geometric("0.5"), RBA.ranges(large="0.125", small="0.03125")).allocation(ONE)
    for state in ([0, 4, 6], [5, 4, 6], [1, 3, 6], [1, 7, 6], [1, 4, 5], [1, 4], [1, 4, 6, 6]):
        with pytest.raises(StateError, match="damaged"):
            allocation.restore(saved(allocation, state))
    allocation.restore(saved(allocation, [4, 6, 6]))
    series = Geometric("0.5").of(ONE)
    assert drawn(allocation, 3) == [series.element(t) for t in (6, 7, 8)]
    with pytest.raises(OptionError, match="below `large`"):
        Ranges(Zeta(2), ONE, Epsilon(5), Epsilon(5))
    assert Ranges(Zeta(2), ONE, Epsilon(6), Epsilon(5)).draw(SOURCE).units >= 0


def test_each_open_queue_is_drawn_from():
    """Of three open queues each is the first choice now and then: 60 draws miss one with probability below 10^-10."""
    seen = set()
    for _ in range(60):
        allocation = Converging(Geometric("0.5"), RBA.ranges(large="0.125", small="0.03125")).allocation(ONE)
        allocation.draw(SOURCE)
        seen.add(tuple(allocation._state()))
    assert seen == {(2, 4, 6), (1, 5, 6), (1, 4, 7)}


def test_an_index_set_reaches_far():
    """Members beyond a million, in words of several levels, are found and listed; 0 is no index."""
    index_set = IndexSet()
    for i in (1, 63, 64, 65, 4095, 4096, 1 << 20, (1 << 40) + 1):
        index_set.add(i)
    assert index_set.runs() == [[1, 1], [63, 65], [4095, 4096], [1 << 20, 1 << 20], [(1 << 40) + 1] * 2]
    assert [index_set.free_from(i) for i in (0, 1, 63, 66, 4095, 1 << 20, (1 << 40) + 1)] == [
        2, 2, 66, 66, 4097, (1 << 20) + 1, (1 << 40) + 2,
    ]  # fmt: skip
    assert [index_set.free_until(i) for i in (0, 1, 2, 65, 4096, 1 << 20, (1 << 40) + 1)] == [
        0, 0, 2, 62, 4094, (1 << 20) - 1, 1 << 40,
    ]  # fmt: skip


def test_an_index_set_that_is_full_up_to_a_border_of_every_level():
    """A full word of words leads on to the next one, and back to none."""
    for size in (63, 64, 127, 4095, 4096, 4159, 8191):
        index_set = IndexSet()
        for i in range(1, size + 1):
            index_set.add(i)
        assert index_set.free_from(1) == index_set.free_from(size) == size + 1
        assert index_set.free_until(size) == 0
        assert index_set.free_until(size + 3) == size + 3
        assert index_set.runs() == [[1, size]]


# Auto.


@example([(4000.0, 300.0)] * 20, 300, 2)  # the gain rises, and is taken back where ε is reached
@example([(5000.0, 300.0)] * 5, 300, 2)  # budgets sum to ε exactly
@example([(0.5, 1.0)] * 3, 1, 1000)  # fewer users than one
@given(
    st.lists(st.tuples(st.floats(-100, 1e7), st.floats(1, 300)), max_size=30),
    st.integers(1, 300),
    st.sampled_from([1, 2, 1000]),
)
def test_auto_is_the_rule_that_is_written_down(said, bins, epsilon):
    """g·25·B/u between ε/40 and ε, with the gain and the share of the module's docstring, over any transcript."""
    total = float(epsilon)
    auto = Auto(Epsilon.at_most(epsilon), bins)
    following, users, highest, spent, gain = 0.25 * total, None, 0.0, 0.0, 0.0
    for estimate, matter in said:
        share = Fraction(math.ceil((1 - 0.3 * math.exp(-gain)) * 4096), 4096)
        assert auto.draw(SOURCE).units == min(epsilon * UNITS, max(1, int(following * UNITS)))
        assert auto.share == share
        auto.observe(estimate, matter)
        seen = max(estimate, 0.0) / (min(following, float(share) * total) / following)
        users = seen if users is None else (users + seen) / 2
        highest = max(highest, users)
        if spent >= total and highest > 0:
            gain = min(max(gain + 2 * (users / highest - 0.95), 0.0), 6.0)
        spent += following
        wanted = math.exp(gain) * 25 * max(matter, bins / 8) / max(users, 1e-9)
        gain = max(0.0, gain - max(0.0, math.log(wanted / total)))
        following = min(max(wanted, total / 40), total)
        assert auto._state() == pytest.approx([following, users, highest, spent, gain])


@pytest.mark.parametrize(
    "state", [None, [], [1, 2, 3, 4], [0, 1, 1, 1, 1], [None, 1, 1, 1, 1], [1, 1, None, 1, 1], [1, 1, 1, None, 1],
              [1, 1, 1, 1, None], [-1, 1, 1, 1, 1], ["x", 1, 1, 1, 1]], ids=str,
)  # fmt: skip
def test_a_damaged_auto_is_refused(state):
    """Five numbers, of which the users alone may be unknown and the budget is above zero."""
    auto = Auto(ONE, 5)
    before = auto.snapshot()
    with pytest.raises(StateError, match="damaged"):
        auto.restore(saved(auto, state))
    assert auto.snapshot() == before
    auto.restore(saved(auto, [0.5, None, 0.0, 0.0, 1.5]))
    assert auto._state() == [0.5, None, 0.0, 0.0, 1.5]
    assert auto.share == Fraction(math.ceil((1 - 0.3 * math.exp(-1.5)) * 4096), 4096)


# Options.


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        (Ledger(), "Ledger()"),
        (Ledger(per_slot=0.05), "Ledger(per_slot=0.05)"),
        (Ledger(slots=20), "Ledger(slots=20)"),
        (Ledger(per_slot=0.05, every=2), "Ledger(per_slot=0.05, every=2)"),
        (Ledger(policy=clocked()), "Ledger(policy=Clocked(top=20))"),
        (Ledger(policy=spend_first), "Ledger(policy=SpendFirst())"),
        (Ledger(policy=fade()), "Ledger(policy=Fade(series=Zeta(2)))"),
        (Ledger(period=24), "Ledger(period=24)"),
        (Ledger(returning=False), "Ledger(returning=False)"),
        (Converging(Zeta(2)), "Converging(Zeta(2))"),
        (Converging(Zeta(2), RBA(10)), "Converging(Zeta(2), draw=RBA(10))"),
    ],
    ids=repr,
)
def test_options_print_what_they_are(budget, text):
    """What is as it is by default is left out."""
    assert repr(budget) == text


@pytest.mark.parametrize(
    ("options", "kind", "first"),
    [
        ({}, Auto, "0.25"),
        ({"returning": False}, Constant, "1"),
        ({"slots": 1}, Constant, "1"),
        ({"slots": 4}, Constant, "0.25"),
        ({"per_slot": "0.1"}, Constant, "0.1"),
        ({"per_slot": 1}, Constant, "1"),
        ({"slots": 4, "every": 2}, Concentrated, "0.425"),
        ({"per_slot": "0.1", "every": 3}, Concentrated, "0.24"),
    ],
    ids=str,
)
def test_a_ledgers_options_make_their_allocation(options, kind, first):
    """Auto unless an amount is given; constant unless it is concentrated."""
    allocation = Ledger(**options).allocation(ONE, 10)
    assert type(allocation) is kind
    assert float(allocation.draw(SOURCE)) == pytest.approx(float(first), abs=1e-9)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"per_slot": 0.1, "slots": 3}, "not both"),
        ({"slots": 0}, "`slots` must"),
        ({"slots": True}, "`slots` must"),
        ({"slots": 1.0}, "`slots` must"),
        ({"every": 0, "per_slot": 0.1}, "`every` must"),
        ({"every": True, "per_slot": 0.1}, "`every` must"),
        ({"every": 2}, "`every` needs"),
        ({"returning": 1}, "`returning` must"),
        ({"per_slot": 0}, "`per_slot` must"),
    ],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(options, says):
    """Each in a sentence of its own."""
    with pytest.raises(OptionError, match=says):
        Ledger(**options)


def test_a_slot_costs_at_most_the_account():
    """ε in one slot is allowed, a unit more is not, also where the cost is concentrated."""
    assert Ledger(per_slot=1).allocation(ONE, 5).draw(SOURCE) == ONE
    for options in ({"per_slot": Fraction(UNITS + 1, UNITS)}, {"per_slot": "0.5", "every": 3}):
        with pytest.raises(OptionError, match="at most epsilon"):
            Ledger(**options).allocation(ONE, 5)
    limit = 1 / (Fraction(3, 10) + 3 * Fraction(7, 10))
    assert Ledger(per_slot=limit, every=3).allocation(ONE, 5).draw(SOURCE).units == pytest.approx(UNITS, abs=3)


def test_accounts_are_those_of_the_options():
    """Policy and period go to the accounts."""
    accounts = Ledger(policy=fade(), period=7).accounts(ONE, bytes(32))
    assert (accounts.epsilon, accounts.policy, accounts.period) == (ONE, fade(), 7)
