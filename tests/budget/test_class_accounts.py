"""Accounts that pay by class: own payments decide, and no path spends more than ε."""

from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clocked import KEY, TOP, Clocked, by_clock, divide, divisions, go_on, histories, separate, shares_of, users
from dpi.budget import Accounts, Bill, Epsilon, clocked
from dpi.budget.account_table import AccountTable
from dpi.budget.billing import SHARE_STEPS
from dpi.budget.charge import LostSlots
from dpi.budget.class_allocation import ClassAllocation
from dpi.budget.classes import level
from dpi.budget.epsilon import LARGEST, UNITS
from dpi.errors import BudgetExceeded, OptionError
from dpi.exact.integers import GRAINS
from strategies import few

copies = st.integers(0, 9)
amounts = st.one_of(st.integers(1, 50), st.integers(1, LARGEST), st.integers(UNITS, 4 * UNITS))


@given(amounts, histories)
def test_no_user_ever_loses_more_than_epsilon(epsilon, history):
    """Σ E · grains/2^24 ≤ what was debited ≤ ε, as exact rationals, whatever is asked and whoever is active."""
    ledger, loss = Clocked(Epsilon(epsilon)), dict.fromkeys(range(7), Fraction(0))
    for active, asked in history:
        for user, (_, grains, units) in ledger.pay(active, asked).items():
            assert 0 < grains <= GRAINS
            loss[user] += Fraction(units * grains, GRAINS)
        standings = zip(loss.values(), ledger.standings(loss), strict=True)
        assert all(lost <= epsilon - left <= epsilon for lost, (left, _) in standings)
    assert ledger.accounts.within


@given(histories)
def test_a_payment_is_the_exact_rule(history):
    """Limit = floor(f·left), grains = min(G, floor(limit·G/E)), debit = ceil(E·grains/G), by the user's own class."""
    ledger = Clocked()
    held, paid = dict.fromkeys(range(7), UNITS), dict.fromkeys(range(7), 0)
    for active, asked in history:
        seen, shares = ledger.pay(active, asked), shares_of(asked)
        for user in active:
            m = min(paid[user], TOP)
            if m not in shares:
                assert user not in seen
                continue
            row = next(row for row, group in enumerate(asked) if m in dict(group))
            group = ledger.allocation.groups[row]
            units = max(due.most_left * due.steps // SHARE_STEPS or 1 for due in group.classes)
            limit = held[user] * shares[m].numerator // shares[m].denominator
            grains = min(GRAINS, limit * GRAINS // units)
            assert seen.get(user, (row, 0, units)) == (row, grains, units)
            held[user] -= -(-units * grains // GRAINS)
            paid[user] += grains > 0
        assert ledger.standings(held) == [*zip(held.values(), paid.values(), strict=True)]


@given(histories, st.integers(0, 6))
def test_class_and_weight_depend_on_the_users_own_history_alone(history, removed):
    """Without one user, everybody else is in the same class with the same weight, and budgets are the same."""
    with_user, without = Clocked(), Clocked()
    for active, asked in history:
        all_paid, others = with_user.pay(active, asked), without.pay(active - {removed}, asked)
        assert others == {user: paid for user, paid in all_paid.items() if user != removed}
        assert with_user.allocation.groups == without.allocation.groups


def test_which_classes_are_measured_follows_from_what_is_asked_alone():
    """With nobody there, and with everybody, the same classes have the same budgets: empty ones too."""
    empty, full = Clocked(), Clocked()
    for slot in range(20):
        asked = (by_clock(slot), (((0, Fraction(1, 2)), (3, Fraction(1, 4))), ((1, Fraction(1, 8)),)))[slot % 2]
        empty.pay(set(), asked)
        full.pay(range(50), asked)
        assert empty.allocation.groups == full.allocation.groups
        assert len(empty.allocation.groups) == len(asked)


def test_users_of_two_classes_lose_what_each_of_them_pays():
    """In one histogram newcomers weigh one, and one who has a quarter of ε left weighs less: each pays for it."""
    ledger, half = Clocked(), Fraction(1, 2)
    ledger.pay({1}, (((0, 3 * half / 2),),))
    seen = ledger.pay({1, 2}, (((0, half), (1, half)),))
    assert seen == {1: (0, GRAINS // 4, UNITS // 2), 2: (0, GRAINS, UNITS // 2)}
    assert ledger.standings([1, 2]) == [(UNITS // 8, 2), (UNITS // 2, 1)]


def test_who_is_of_no_due_class_pays_nothing_and_stays():
    """A user who paid in slot 0 is not in slot 2, of level 0, and pays next in a slot of level 1 or more."""
    ledger = Clocked()
    paid = [1 in ledger.pay({1}) for _ in range(16)]
    payments, expected = 0, []
    for slot in range(16):
        expected.append(payments <= level(slot, TOP))
        payments += expected[-1]
    assert paid == expected
    assert ledger.payments(1) == payments


def test_nobody_is_silent_for_good():
    """The top class takes all who paid more often: they pay again whenever it is due, a share of what is left."""
    ledger = Clocked(top=1)
    for slot in range(40):
        before, seen = ledger.left(1), ledger.pay({1})
        if slot and level(slot, 1):
            assert seen[1][0] == 1
            assert 0 < ledger.left(1) < before


def test_streams_count_payments_each_for_itself():
    """M is kept for each account and stream; what is left is shared, and ε covers both."""
    accounts = Accounts(Epsilon(UNITS), key=KEY, policy=clocked(TOP))
    one, two = (Clocked(stream=name, accounts=accounts) for name in ("visits", "orders"))
    one.pay({1})
    assert (one.payments(1), two.payments(1)) == (1, 0)
    assert two.pay({1})[1][1] == GRAINS // 2  # a newcomer here, with half an account
    assert (one.payments(1), two.payments(1)) == (1, 1)
    for _ in range(30):
        one.pay({1, 2})
        two.pay({1, 2})
    assert accounts.within


def test_two_rows_of_one_account_pay_once():
    """Should two ids of a slot share an account, one of them has weight zero and it is one payment."""
    ledger = Clocked()
    epsilon = ledger.allocation.draw_classes(0, by_clock(0))
    bill = ledger.accounts.bill(pl.Series(["1", "x", "1"]), epsilon, 0, groups=ledger.allocation.groups)
    assert sorted(bill.weights.tolist()) == [0, GRAINS, GRAINS]
    ledger.accounts.debit(bill)
    assert ledger.accounts.payments(pl.Series(["1", "x"]), 0) == [1, 1]


def test_a_bill_that_asks_too_much_is_refused():
    """A forged weight beyond what is left is refused, and nobody is charged."""
    ledger = Clocked()
    for _ in range(4):
        ledger.pay({1})
    epsilon = ledger.allocation.draw_classes(7, by_clock(7, first=Fraction(1), later=Fraction(1)))
    bill = ledger.accounts.bill(pl.Series([1]), epsilon, 7, groups=ledger.allocation.groups)
    parts = (bill.positions, bill.version, bill.groups, np.zeros(1, dtype=np.int64), bill.payments_positions)
    with pytest.raises(BudgetExceeded):
        ledger.accounts.debit(Bill(np.array([GRAINS]), bill.epsilon, bill.slot, bill.stream, *parts))


def test_classes_need_clocked_accounts():
    """Accounts of another policy, or of a lower top class, know no such classes."""
    allocation = ClassAllocation(Epsilon(UNITS), TOP)
    epsilon = allocation.draw_classes(1, by_clock(1))
    for accounts in (Accounts(Epsilon(UNITS), key=KEY), Accounts(Epsilon(UNITS), key=KEY, policy=clocked(2))):
        with pytest.raises(OptionError):
            accounts.bill(pl.Series([1]), epsilon, 1, groups=allocation.groups)


def test_without_classes_it_is_spend_first():
    """A mechanism that needs users of weight one bills clocked accounts as it bills others; no class moves."""
    ledger = Clocked()
    bill = ledger.accounts.bill(pl.Series([1]), Epsilon(UNITS // 4), 0)
    ledger.accounts.debit(bill)
    assert bill.weights.tolist() == [GRAINS]
    assert (ledger.left(1), ledger.payments(1)) == (UNITS * 3 // 4, 0)


def test_an_epoch_refills_and_forgets_payments():
    """In a new period a user is a newcomer with a full account."""
    ledger = Clocked(period=4)
    for _ in range(4):
        ledger.pay({1})
    assert ledger.payments(1) == 0  # asked in slot 4, of the next epoch
    assert ledger.pay({1})[1][:2] == (0, GRAINS)


@settings(max_examples=30)
@given(histories, st.integers(0, 29))
def test_restored_equals_never_interrupted(history, cut):
    """Accounts that go on from all records, or from a store's changes, have the classes of those that never stopped."""
    one, plain = Clocked(), Clocked()
    records, payments = b"", b""
    for slot, (active, asked) in enumerate(history):
        if slot == cut:
            other = Accounts(Epsilon(UNITS), key=KEY, policy=clocked(TOP))
            go_on(other, one.accounts)
            stored = Accounts(Epsilon(UNITS), key=KEY, policy=clocked(TOP))
            stored.resume(records, {"": slot - 1}, [], {"": payments})
            assert stored._table.to_bytes() == AccountTable.from_bytes(other._table.to_bytes()).to_bytes()
            one.accounts = other
        epsilon = one.allocation.draw_classes(slot, asked)
        series = pl.Series(sorted(active), dtype=pl.Int64)
        charge = one.accounts.charge(one.accounts.bill(series, epsilon, slot, groups=one.allocation.groups))
        records, payments = records + charge.records(), payments + charge.payments()
        one.accounts.apply(charge)
        one.slot += 1
        plain.pay(active, asked)
    assert one.standings(range(7)) == plain.standings(range(7))


# Slots that were lost.


def copied(accounts):
    """The accounts as an old copy has them."""
    copy = Accounts(accounts.epsilon, key=KEY, policy=accounts.policy, period=accounts.period)
    go_on(copy, accounts)
    return copy


def charged(copy, lost, slot):
    """The copy after everybody was charged."""
    levy, records = copy.charge_lost(lost, slot)
    payments = {stream: table.to_bytes() for stream, table in copy._payments.items()}
    after = Accounts(copy.epsilon, key=KEY, policy=copy.policy, period=copy.period)
    levies = list(copy._levies)
    after.resume(copy._table.to_bytes() + b"".join(records), {}, levies, payments)
    after.levy(levy, slot)
    return after


@settings(max_examples=60)
@given(histories, st.integers(0, 29), st.sampled_from([None, 5]))
def test_after_a_levy_nobody_has_more_than_truly(history, cut, period):
    """An old copy that was charged has no account with more left than it truly has, newcomers of the lost slots too."""
    ledger = Clocked(period=period)
    copy = copied(ledger.accounts)
    for slot, (active, asked) in enumerate(history):
        ledger.pay(active, asked)
        copy = copied(ledger.accounts) if slot == cut else copy
    first, last = (cut + 1 if cut < len(history) else 0), len(history) - 1
    after = charged(copy, {"": LostSlots(range(first, last + 1), 0, ledger.bounds.largest)}, last)
    everybody = pl.Series(range(7), dtype=pl.Int64)
    held, true = (accounts.remaining(everybody, last) for accounts in (after, ledger.accounts))
    assert all(0 <= some <= all_ for some, all_ in zip(held, true, strict=True))
    assert after.payments(everybody, last) == copy.payments(everybody, last)


def test_a_levy_takes_from_each_what_its_own_class_can_have_paid():
    """Any class may have been due in lost slots: who paid before loses f_1 of what is left, future accounts f_0."""
    ledger = Clocked()
    for _ in range(2):
        ledger.pay({1}, separate([Fraction(1, 2), Fraction(1, 4)]))
    largest = ledger.bounds.largest
    assert ledger.left(1) == UNITS * 3 // 8
    after = charged(ledger.accounts, {"": LostSlots(range(2, 3), 0, (*largest, SHARE_STEPS // 8))}, 2)
    assert after.remaining(pl.Series([1, 2]), 2) == [Fraction(3 * 7, 8 * 8), Fraction(1, 2)]
    again = charged(after, {"": LostSlots(range(4, 6), 0, (*largest, SHARE_STEPS // 8))}, 5)
    assert again.remaining(pl.Series([1, 2]), 5) == [0, Fraction(3, 16)]  # nothing is known of class 3


def test_a_levy_is_for_all_streams_of_the_ledger():
    """Streams with and without classes are charged for together, and never more than there is."""
    accounts = Accounts(Epsilon(UNITS), key=KEY, policy=clocked(TOP))
    Clocked(stream="visits", accounts=accounts).pay({1})
    lost = {"visits": LostSlots(range(2, 3), 0, (SHARE_STEPS // 2,) * 2), "orders": LostSlots(range(3), UNITS // 8)}
    after = charged(accounts, lost, 2)
    assert after.remaining(pl.Series([1, 2]), 2) == [Fraction(1, 8), Fraction(3, 8)]
    emptied = charged(accounts, {"orders": LostSlots(range(3), 9 * LARGEST)}, 2)
    assert emptied.remaining(pl.Series([1, 2]), 2) == [0, 0]


paid = st.tuples(st.sampled_from(["pay", "pay", "caught"]), st.tuples(users, divisions))
moves = st.lists(st.one_of(paid, st.tuples(st.sampled_from(["copy", "back"]), copies)), max_size=25)
"""What happens to a store: slots are paid for, copies are made, some while a slot is paid for and not yet released, and
one of them goes on in the store's place."""
SEPARATE = [divide([(number, m) for m, number in enumerate((first, 1, 1, 1, 1))]) for first in (1, 2)]


@settings(max_examples=few(60, 2000))
@given(moves)
@example([("pay", (set(), SEPARATE[0])), ("copy", 0), ("caught", ({0}, SEPARATE[1])), ("back", 2)])
def test_however_often_old_copies_go_on_nobody_loses_more_than_is_said(history):
    """Copies of any age, of any way that was gone: what users truly lost is at most what accounts and bounds say."""
    ledger, loss = Clocked(), dict.fromkeys(range(7), Fraction(0))
    kept = [(copied(ledger.accounts), ledger.bounds, 0)]
    for move, what in history:
        if move in ("pay", "caught"):
            before = ledger.bounds, ledger.slot
            for user, (_, grains, units) in ledger.pay(*what).items():
                loss[user] += Fraction(units * grains, GRAINS)
            if move == "caught":
                kept.append((copied(ledger.accounts), *before))
        elif move == "copy":
            kept.append((copied(ledger.accounts), ledger.bounds, ledger.slot))
        else:
            copy, bounds, slot = kept[what % len(kept)]
            gone, seen = range(slot, ledger.slot), ledger.bounds
            if not gone:
                continue
            after = bounds.after_lost(gone, seen.largest, seen.restored)
            ledger.accounts = charged(copy, {"": LostSlots(gone, 0, after.largest, seen.restored)}, gone[-1])
            ledger.allocation.bounds = after
        for lost, (left, payments) in zip(loss.values(), ledger.standings(loss), strict=True):
            assert lost <= UNITS - left
            assert lost <= ledger.bounds.most_spent <= UNITS
            m = min(payments, TOP)
            assert m < len(ledger.bounds.spent)
            assert lost <= ledger.bounds.spent[m]
            assert "caught" in dict(history) or left <= ledger.bounds.left[m]
