"""What a ledger promises besides the sum: policies, shares, whole weights, levies, streams, and what it saves."""

from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from clocked import go_on
from dpi.budget import Accounts, Bill, Epsilon, Geometric, Zeta, clocked, fade, spend_first
from dpi.budget.account_table import AccountTable
from dpi.budget.billing import quota_units
from dpi.budget.classes import HIGHEST
from dpi.budget.epsilon import LARGEST, UNITS
from dpi.errors import BudgetExceeded, ClockError, OptionError, StateError
from dpi.exact.integers import GRAINS

KEY = bytes(range(32))
ONE = Epsilon.at_most(1)
ADA = pl.Series(["ada"])


def accounts(epsilon=ONE, **options):
    """Fresh accounts."""
    return Accounts(epsilon, key=KEY, **options)


def paid(ledger, epsilon, slot, users=ADA, **options):
    """One slot: the weights, paid."""
    bill = ledger.bill(users, Epsilon.at_most(epsilon), slot, **options)
    ledger.debit(bill)
    return bill.weights.tolist()


def left(ledger, slot=0, users=ADA):
    """What ada has left, in units."""
    return [int(amount * UNITS) for amount in ledger.remaining(users, slot)]


# Policies.


@pytest.mark.parametrize("series", [Zeta(2), Zeta("1.5"), Geometric("0.5")], ids=repr)
def test_a_fading_weight_is_the_series_rounded_down(series):
    """The j-th active slot has floor(2^24 · a_j/a₁) grains, for j of every size, whoever else is asked for."""
    expected = {
        Zeta(2): lambda j: 1 / j**2,
        Zeta("1.5"): lambda j: j**-1.5,
        Geometric("0.5"): lambda j: 0.5 ** (j - 1),
    }[series]
    for active in ([0], [1], [2], [3], [0, 1, 2, 3, 7, 8, 100, 1023, 1024], [65_534]):
        grains = fade(series).grains(np.array(active))
        exact = np.array([GRAINS * expected(j + 1) for j in active])
        assert (grains <= exact * (1 + 1e-12)).all()
        assert (grains > exact * (1 - 1e-12) - 1).all()
    assert fade(series).grains(np.array([0])).tolist() == [GRAINS]


def test_a_fading_weight_is_zero_from_the_65537th_slot_on():
    """The table ends somewhere: a user who was active 65,536 times has no weight left, and one before the end has."""
    slow = fade(Zeta("1.0001"))
    assert slow.grains(np.array([65_535]))[0] > 0
    assert slow.grains(np.array([65_536, 65_537, 1 << 30])).tolist() == [0, 0, 0]


def test_policies_tell_themselves_apart():
    """Accounts of one policy, series or period have another description than those of another."""
    options = [{}, {"policy": fade()}, {"policy": fade(Zeta(3))}, {"period": 5}]
    descriptions = [accounts(**o).description for o in options]
    assert len(set(descriptions)) == len(options)
    assert spend_first.description == "spend_first"
    assert fade(Zeta(2)).description == "fade Zeta(s=2)"
    assert accounts().description == f'{{"epsilon": {UNITS}, "period": null, "policy": "spend_first"}}'


@pytest.mark.parametrize("top", [0, -1, HIGHEST + 1, True, 2.0, "3", None])
def test_the_top_class_is_a_whole_number_that_the_clock_knows(top):
    """From 1 to 40, and nothing that only looks like one."""
    with pytest.raises(OptionError, match=f"`top` must be a whole number from 1 to {HIGHEST}"):
        clocked(top)
    assert [clocked(good).top for good in (1, HIGHEST)] == [1, HIGHEST]


def test_stored_accounts_are_read_by_their_policy():
    """What a description says of classes is read; policies that say weights are all read as one."""
    read = [Accounts.of_description(accounts(policy=p).description, KEY).policy for p in (clocked(7), fade())]
    assert read == [clocked(7), spend_first]
    assert clocked(7).grains(np.array([0, 99])).tolist() == [GRAINS, GRAINS]


@pytest.mark.parametrize("grains", [-5, GRAINS + 7])
def test_a_policy_out_of_its_range_is_brought_back(grains):
    """Whatever a policy says, weights lie between 0 and 2^24 grains."""

    class Odd:
        description = "odd"

        def grains(self, active):
            return np.full(active.size, grains)

    assert paid(accounts(policy=Odd()), "0.5", 0) == [0 if grains < 0 else GRAINS]


# Options.


def test_the_smallest_and_the_largest_account():
    """One unit is an account, none is not; ε of 1024 pays to the last unit."""
    with pytest.raises(OptionError, match="at least 2"):
        accounts(Epsilon(0))
    small = accounts(Epsilon(1))
    small.debit(small.bill(ADA, Epsilon(1), 0))
    assert left(small) == [0]
    assert small.within
    large = accounts(Epsilon(LARGEST))
    large.debit(large.bill(ADA, Epsilon(LARGEST), 0))
    assert left(large) == [0]


@pytest.mark.parametrize("share", [Fraction(0), Fraction(-1, 2), Fraction(5, 4), Fraction(1, (1 << 12) + 1)])
def test_a_share_out_of_range_is_refused(share):
    """A share is above 0, at most 1, in steps that stay exact."""
    with pytest.raises(OptionError, match="`share` must"):
        accounts().bill(ADA, ONE, 0, share=share)
    for good in (Fraction(1), Fraction(1, 1 << 12)):
        assert accounts().bill(ADA, ONE, 0, share=good).weights.size == 1


def test_a_slot_takes_at_most_its_share_of_what_is_left():
    """With a share of a half, each slot takes half of the rest, and nobody is silent for good."""
    ledger = accounts()
    for slot in range(6):
        before = left(ledger)[0]
        weight = paid(ledger, 1, slot, share=Fraction(1, 2))[0]
        assert weight == GRAINS * before // 2 // UNITS
        assert before - left(ledger)[0] == pytest.approx(before / 2, abs=UNITS / GRAINS)


def test_with_whole_weights_it_is_all_or_nothing():
    """Who can pay in full has weight one; who is a unit short takes no part and pays nothing."""
    ledger = accounts()
    assert paid(ledger, 1, 0, whole=True) == [GRAINS]
    ledger = accounts()
    paid(ledger, Fraction(1, UNITS), 0)
    assert paid(ledger, 1, 1, whole=True) == [0]
    assert left(ledger) == [UNITS - 1]
    assert paid(ledger, Fraction(UNITS - 1, UNITS), 2, whole=True) == [GRAINS]


# Slots, streams, epochs.


def test_streams_that_share_accounts_pay_from_one_balance_and_count_for_themselves():
    """Slots of one stream follow each other; another stream has its own numbers and the same accounts."""
    ledger = accounts()
    assert "a" not in ledger._slots
    paid(ledger, "0.5", 7, stream="a")
    paid(ledger, "0.25", 3, stream="b")
    assert ledger._slots == {"a": 7, "b": 3}
    assert left(ledger) == [UNITS // 4]
    for stream, slot in (("a", 7), ("a", 6), ("b", 3), ("b", 0)):
        with pytest.raises(ClockError, match="one after the other"):
            ledger.bill(ADA, ONE, slot, stream=stream)
    assert paid(ledger, "0.5", 4, stream="b") == [GRAINS // 2]


def test_a_period_of_one_slot_refills_in_every_slot():
    """The shortest period there is."""
    ledger = accounts(period=1)
    assert [paid(ledger, 1, slot) for slot in range(3)] == [[GRAINS]] * 3


def forged(ledger, epsilon, slot, weights, users):
    """A bill whose weights were changed."""
    bill = ledger.bill(users, epsilon, slot)
    return Bill(np.array(weights), bill.epsilon, bill.slot, bill.stream, bill.positions, bill.version)


@pytest.mark.parametrize("weights", [[-1, 5], [5, -1], [GRAINS + 1, 0], [0, GRAINS + 1]])
def test_a_bill_with_one_impossible_weight_is_refused(weights):
    """A negative weight would refill an account, also beside one that is as it should be."""
    ledger = accounts()
    with pytest.raises(OptionError, match="between 0 and 2"):
        ledger.debit(forged(ledger, ONE, 0, weights, pl.Series(["ada", "bob"])))


def test_a_bill_that_asks_for_one_unit_too_much_is_refused():
    """The last unit is there, the one after it is not; and nobody is charged."""
    ledger = accounts(Epsilon(7))
    ledger.debit(forged(ledger, Epsilon(6), 0, [GRAINS], ADA))
    with pytest.raises(BudgetExceeded):
        ledger.debit(forged(ledger, Epsilon(2), 1, [GRAINS], ADA))
    ledger.debit(forged(ledger, Epsilon(1), 1, [GRAINS], ADA))
    with pytest.raises(BudgetExceeded):
        ledger.debit(forged(ledger, Epsilon(1), 2, [GRAINS], ADA))
    assert left(ledger) == [0]


@pytest.mark.parametrize(
    ("names", "repeated"),
    [
        ([(1, 2), (1, 2)], 1),
        ([(1, 2), (1, 2), (1, 2)], 2),
        ([(1, 2), (1, 3), (1, 2)], 1),
        ([(1, 2), (1, 3), (1, 2), (1, 3), (2, 3)], 2),
        ([(1, 2), (2, 2), (3, 2)], 0),
        ([(1, 2), (1, 3), (1, 4)], 0),
        ([(5, 5), (1, 2), (1, 2), (4, 2)], 1),
        ([(1, 5), (2, 5), (1, 5)], 1),
    ],
    ids=str,
)
def test_an_account_that_stands_twice_in_a_slot_pays_once_and_others_are_not_touched(names, repeated):
    """Every account has one row of weight one; names that share a half only are two accounts."""
    ledger = accounts()
    bill = ledger.bill(np.array(names, dtype=np.uint64), Epsilon.at_most("0.5"), 0)
    assert bill.weights.tolist().count(0) == repeated
    for name in set(names):
        assert sum(w for w, n in zip(bill.weights.tolist(), names, strict=True) if n == name) == GRAINS
    ledger.debit(bill)
    place = ledger._table.find(np.array(sorted(set(names)), dtype=np.uint64))
    assert ledger._table.get(place)["spent"].tolist() == [UNITS // 2] * len(set(names))


def test_the_first_slot_may_have_any_number():
    """A stream may begin before its origin."""
    assert paid(accounts(), "0.5", -100) == [GRAINS]


def test_accounts_of_an_older_epoch_are_full_and_their_activity_begins_anew():
    """In a new epoch nothing is spent and no slot was active; in the same one both are kept."""
    ledger = accounts(policy=fade(), period=4)
    weights = [paid(ledger, "0.01", slot)[0] for slot in range(8)]
    assert weights[:4] == weights[4:]
    assert weights[1] == GRAINS // 4
    assert left(ledger, 7) == left(ledger, 4)
    assert left(ledger, 8) == [UNITS]


def test_only_accounts_that_pay_are_written():
    """A user who pays nothing gets no account and no active slot; others are found in the records."""
    ledger, users = accounts(), pl.Series(["ada", "bob"])
    paid(ledger, 1, 0)
    bill = ledger.bill(users, Epsilon.at_most("0.5"), 1)
    charge = ledger.charge(bill)
    assert bill.weights.tolist() == [0, GRAINS]
    table = AccountTable.from_bytes(charge.records())
    place = table.find(ledger.names(users))
    assert sorted(table.get(place).tolist()) == [(0, 0, 0), (UNITS // 2, 1, 0)]
    assert len(table) == 1
    ledger.apply(charge)
    assert left(ledger, 1, users) == [0, UNITS // 2]
    with pytest.raises(ClockError, match="charge"):
        ledger.apply(charge)


def test_within_says_whether_an_account_has_spent_more_than_epsilon():
    """What the curator checks finds a forged account, in whichever run it lies."""
    ledger = accounts()
    paid(ledger, 1, 0)
    assert ledger.within
    rich = accounts(Epsilon.at_most(2))
    paid(rich, 2, 0)
    ledger.resume(rich._table.to_bytes(), {"": 0}, [])
    assert not ledger.within


# Levies.


def test_a_levy_charges_everybody_and_nothing_gives_it_back():
    """Known and future accounts have that much less, in their epoch; an account never falls below zero."""
    ledger, users = accounts(), pl.Series(["ada", "new"])
    paid(ledger, "0.5", 0)
    assert ledger.levy(UNITS // 4, 0) == (0, UNITS // 4)
    assert left(ledger, 0, users) == [UNITS // 4, UNITS * 3 // 4]
    ledger.levy(UNITS // 2, 0)
    assert left(ledger, 0, users) == [0, UNITS // 4]
    assert paid(ledger, "0.5", 1, users) == [0, GRAINS // 2]
    ledger.levy(UNITS * 5, 0)
    assert left(ledger, 1, users) == [0, 0]
    with pytest.raises(OptionError, match="negative"):
        ledger.levy(-1, 0)
    assert ledger.levy(0, 0) == (0, 0)


def test_a_levy_counts_in_its_epoch_and_in_earlier_ones():
    """The slots that were lost lie in the levy's epoch or before; a later epoch starts full."""
    ledger = accounts(period=10)
    ledger.levy(UNITS // 4, 25)
    assert [left(ledger, slot) for slot in (5, 20, 29, 30)] == [[UNITS * 3 // 4]] * 3 + [[UNITS]]


def test_a_bill_from_before_a_levy_is_not_payable():
    """What is left has changed since: a new bill must be asked for."""
    ledger = accounts()
    bill = ledger.bill(ADA, ONE, 0)
    ledger.levy(1, 0)
    with pytest.raises(ClockError, match="ask for a new one"):
        ledger.debit(bill)


def test_records_have_all_streams_and_are_refused_where_one_went_on():
    """Of two streams, one that went on since, or that the records do not know, makes them too old."""
    ledger = accounts()
    paid(ledger, "0.1", 5, stream="a")
    saved = accounts()
    go_on(saved, ledger)
    go_on(ledger, saved)
    assert ledger._slots["a"] == 5
    bill = ledger.bill(ADA, Epsilon.at_most("0.1"), 6, stream="a")
    go_on(ledger, saved)
    with pytest.raises(ClockError):
        ledger.debit(bill)
    paid(ledger, "0.1", 0, stream="b")
    with pytest.raises(StateError, match="refill"):
        go_on(ledger, saved)


def test_a_quota_is_its_part_of_all_units_rounded_down():
    """Of parts with any numerator."""
    assert [quota_units(1000, Fraction(part)) for part in ("1/3", "2/3", "1")] == [333, 666, 1000]
