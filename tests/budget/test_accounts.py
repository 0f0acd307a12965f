from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clocked import go_on
from dpi.budget import Accounts, Bill, Epsilon, Zeta, fade, spend_first
from dpi.budget.account_records import STANDING, merged, to_records
from dpi.budget.account_table import AccountTable
from dpi.budget.epsilon import UNITS
from dpi.errors import BudgetExceeded, ClockError, OptionError, StateError
from dpi.exact.integers import GRAINS

KEY = bytes(range(32))
slots = st.lists(st.tuples(st.integers(1, 3 * UNITS), st.sets(st.integers(0, 6))), min_size=1, max_size=25)


def pay(ledger, users, epsilon, slot):
    """One slot: the weights of its users, paid."""
    bill = ledger.bill(pl.Series(sorted(users), dtype=pl.Int64), epsilon, slot)
    ledger.debit(bill)
    return dict(zip(sorted(users), bill.weights.tolist(), strict=True))


@pytest.mark.parametrize("policy", [spend_first, fade(), fade(Zeta("1.2"))], ids=repr)
@given(slots)
def test_no_user_ever_loses_more_than_epsilon(policy, history):
    """Σ ε_t · grains/2^24 is at most ε for every user, as exact rationals, whatever the budgets and who is active."""
    ledger = Accounts(Epsilon(UNITS), key=KEY, policy=policy)
    loss = dict.fromkeys(range(7), Fraction(0))
    for slot, (units, users) in enumerate(history):
        for user, grains in pay(ledger, users, Epsilon(units), slot).items():
            assert 0 <= grains <= GRAINS
            loss[user] += Fraction(units, UNITS) * Fraction(grains, GRAINS)
    assert max(loss.values()) <= 1


@given(slots, st.integers(0, 6))
def test_a_weight_depends_on_the_users_own_history_alone(history, removed):
    """Without one user, every other user's weights are the same in every slot: the heart of the proof."""
    with_user, without = Accounts(Epsilon(UNITS), key=KEY), Accounts(Epsilon(UNITS), key=KEY)
    for slot, (units, users) in enumerate(history):
        all_weights = pay(with_user, users, Epsilon(units), slot)
        others = pay(without, users - {removed}, Epsilon(units), slot)
        assert others == {u: w for u, w in all_weights.items() if u != removed}


@given(slots)
def test_a_debit_is_rounded_up_and_leaves_no_debt(history):
    """What is left is never negative and never more than ε less the exact loss."""
    ledger = Accounts(Epsilon(UNITS), key=KEY)
    loss = dict.fromkeys(range(7), Fraction(0))
    for slot, (units, users) in enumerate(history):
        for user, grains in pay(ledger, users, Epsilon(units), slot).items():
            loss[user] += Fraction(units, UNITS) * Fraction(grains, GRAINS)
    left = ledger.remaining(pl.Series(range(7)), len(history))
    for user, amount in enumerate(left):
        assert 0 <= amount <= 1 - loss[user]


def test_spend_first_spends_all():
    """A user active in every slot gets weight one until the account is empty, and nothing is wasted."""
    ledger = Accounts(Epsilon.at_most(1), key=KEY)
    weights = [pay(ledger, {1}, Epsilon.at_most("0.3"), slot)[1] / GRAINS for slot in range(5)]
    assert weights[:3] == [1.0, 1.0, 1.0]
    assert weights[3] == pytest.approx(1 / 3, abs=1e-6)
    assert weights[4] < 1e-6


def test_fade_gives_later_slots_less():
    """The j-th active slot has weight at most 1/j²; slots without the user do not count."""
    ledger = Accounts(Epsilon.at_most(10), key=KEY, policy=fade())
    weights = []
    for slot in range(8):
        weights += pay(ledger, {1} if slot % 2 else {2}, Epsilon.at_most(1), slot).items()
    assert [w / GRAINS for u, w in weights if u == 1] == pytest.approx([1, 1 / 4, 1 / 9, 1 / 16], abs=1e-6)


def test_epochs_refill_by_the_slots_own_epoch():
    """An account is full again in the first slot of a new period, and only there."""
    ledger = Accounts(Epsilon.at_most(1), key=KEY, period=3)
    weights = [pay(ledger, {1}, Epsilon.at_most(1), slot)[1] for slot in range(7)]
    assert [w // GRAINS for w in weights] == [1, 0, 0, 1, 0, 0, 1]


def test_ids_of_one_user_in_several_types_share_an_account():
    """1, "1" and 1.0 are one user by declaration, so their accounts are one."""
    ledger = Accounts(Epsilon.at_most(1), key=KEY)
    ledger.debit(ledger.bill(pl.Series([1]), Epsilon.at_most(1), 0))
    assert ledger.bill(pl.Series(["1"]), Epsilon.at_most(1), 1).weights.tolist() == [0]


def test_two_rows_of_one_account_pay_once():
    """Should two ids of a slot share an account, one of them has weight zero and the account is charged once."""
    ledger = Accounts(Epsilon.at_most(1), key=KEY)
    bill = ledger.bill(pl.Series(["1", "x", "1"]), Epsilon.at_most("0.75"), 0)
    assert sorted(bill.weights.tolist()) == [0, GRAINS, GRAINS]
    ledger.debit(bill)
    assert ledger.remaining(pl.Series(["1", "x"]), 0) == [Fraction(1, 4)] * 2
    assert len(ledger._table) == 2


def test_an_account_asked_for_too_much_refuses_the_whole_bill():
    """Requested, remaining and difference are attributes, no amount is in the text, and nobody is charged."""
    ledger = Accounts(Epsilon.at_most(1), key=KEY)
    pay(ledger, {1}, Epsilon.at_most("0.75"), 0)
    bill = ledger.bill(pl.Series([1, 2]), Epsilon.at_most("0.5"), 1)
    forged = Bill(np.array([GRAINS, GRAINS]), bill.epsilon, bill.slot, bill.stream, bill.positions, bill.version)
    with pytest.raises(BudgetExceeded) as error:
        ledger.debit(forged)
    assert (error.value.requested, error.value.remaining) == (Fraction(1, 2), Fraction(1, 4))
    assert error.value.difference == Fraction(1, 4)
    assert not any(character.isdigit() for character in str(error.value))
    assert ledger.remaining(pl.Series([1, 2]), 1) == [Fraction(1, 4), Fraction(1)]


def test_slots_are_paid_one_after_the_other():
    """An older slot, a slot paid twice, or a bill written before another was paid is refused."""
    ledger = Accounts(Epsilon.at_most(1), key=KEY)
    users, epsilon = pl.Series([1]), Epsilon.at_most("0.1")
    first, second = ledger.bill(users, epsilon, 3), ledger.bill(users, epsilon, 4)
    ledger.debit(first)
    for bill in (first, second):
        with pytest.raises(ClockError):
            ledger.debit(bill)
    with pytest.raises(ClockError):
        ledger.bill(users, epsilon, 3)


def test_a_slot_of_no_budget_looks_at_nobody():
    """ε_t = 0 gives everybody weight zero and costs nothing."""
    ledger = Accounts(Epsilon.at_most(1), key=KEY)
    assert pay(ledger, {1, 2}, Epsilon(0), 0) == {1: 0, 2: 0}
    assert ledger.remaining(pl.Series([1]), 0) == [1]


@settings(max_examples=30)
@given(slots, st.integers(0, 24))
def test_restored_equals_never_interrupted(history, cut):
    """Accounts that go on from records give the weights of those that never stopped."""
    one = Accounts(Epsilon(UNITS), key=KEY)
    for slot, (units, users) in enumerate(history):
        if slot == cut:
            other = Accounts(Epsilon(UNITS), key=KEY)
            go_on(other, one)
            one = other
        pay(one, users, Epsilon(units), slot)
    plain = Accounts(Epsilon(UNITS), key=KEY)
    for slot, (units, users) in enumerate(history):
        pay(plain, users, Epsilon(units), slot)
    everybody = pl.Series(range(7))
    assert one.remaining(everybody, len(history)) == plain.remaining(everybody, len(history))


@pytest.mark.parametrize("period", [0, -1, 1.5, True])
def test_a_bad_period_is_refused(period):
    """A period is a whole number of slots."""
    with pytest.raises(OptionError, match="`period` must"):
        Accounts(Epsilon.at_most(1), key=KEY, period=period)


def test_nothing_private_is_printed():
    """Neither key nor accounts nor weights appear in what a ledger or a bill prints."""
    ledger = Accounts(Epsilon.at_most(1), key=KEY)
    bill = ledger.bill(pl.Series(["ada"]), Epsilon.at_most("0.5"), 0)
    assert repr(bill) == "Bill(epsilon=Epsilon(0.5), slot=0, stream='')"
    assert repr(ledger) == "Accounts(Epsilon(1), policy=SpendFirst(), period=None)"


names = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), unique=True, max_size=12)


@given(st.lists(names, max_size=8))
def test_accounts_behave_like_a_dictionary(batches):
    """Names that share their high half, come in any order and in many batches are kept apart."""
    accounts, plain = AccountTable(), {}
    for epoch, batch in enumerate(batches):
        positions = accounts.find(np.array(batch, dtype=np.uint64).reshape(-1, 2))
        written = {tuple(map(int, name)): (i + 10 * epoch, i, epoch) for i, name in enumerate(positions.names)}
        accounts.put(positions, np.array(list(written.values()), dtype=STANDING))
        plain |= written
    everybody = np.array([(a, b) for a in range(6) for b in range(6)], dtype=np.uint64)
    for book in (accounts, AccountTable.from_bytes(accounts.to_bytes())):
        positions = book.find(everybody)
        expected = [plain.get(tuple(map(int, name)), (0, 0, 0)) for name in positions.names]
        assert book.get(positions).tolist() == expected
        assert len(book) == len(plain)


def test_many_accounts_merge_and_stay_small():
    """A few hundred thousand accounts in many batches: 36 bytes each, all found again."""
    accounts, rng = AccountTable(), np.random.default_rng(0)
    everyone = rng.integers(0, 2**64, (300_000, 2), dtype=np.uint64)
    for start in range(0, 300_000, 30_000):
        positions = accounts.find(everyone[start : start + 30_000])
        standing = np.zeros(30_000, dtype=STANDING)
        standing["spent"] = start + positions.order
        accounts.put(positions, standing)
    positions = accounts.find(everyone)
    assert (accounts.get(positions)["spent"] == positions.order).all()
    assert accounts.nbytes == 36 * 300_000


def test_accounts_with_a_period_serve_one_stream():
    """Streams count their slots each for itself: sharing epochs would refill accounts at every turn."""
    accounts = Accounts(Epsilon.at_most(1), key=KEY, period=10)
    accounts.debit(accounts.bill(pl.Series(["u"]), Epsilon.at_most(1), 10, stream="a"))
    with pytest.raises(OptionError, match="serve one stream"):
        accounts.bill(pl.Series(["u"]), Epsilon.at_most(1), 0, stream="b")


def test_accounts_do_not_go_back_by_a_store():
    """Records from before the last payment are refused, also where a store hands them over."""
    accounts = Accounts(Epsilon.at_most(1), key=KEY)
    pay(accounts, {1}, Epsilon.at_most("0.9"), 1)
    with pytest.raises(StateError, match="refill"):
        accounts.resume(b"", {"": 0}, [])
    assert accounts.remaining(pl.Series([1]), 2)[0] < Fraction(1, 9)


def test_a_bill_is_for_its_own_accounts_and_cannot_be_changed():
    """A bill of other accounts, of changed or impossible weights, or with a slot that is no number is refused."""
    one, other = (Accounts(Epsilon.at_most(1), key=KEY) for _ in range(2))
    bill = one.bill(pl.Series(["a"]), Epsilon.at_most("0.5"), np.int64(0))
    for step in (other.debit, other.charge):  # a store is written to between the two steps of a debit
        with pytest.raises(ClockError):
            step(bill)
    with pytest.raises(ValueError, match="read-only"):
        bill.weights[:] = -GRAINS
    with pytest.raises(OptionError, match="weights"):
        one.debit(Bill(-bill.weights, bill.epsilon, bill.slot, bill.stream, bill.positions, bill.version))
    with pytest.raises(TypeError):
        one.bill(pl.Series(["a"]), Epsilon.at_most("0.5"), float("nan"))
    with pytest.raises(OptionError, match="missing"):
        one.bill(pl.Series(["a", None]), Epsilon.at_most("0.5"), 0)
    one.debit(bill)
    assert one._slots == {"": 0}


def test_a_log_of_changes_amounts_to_the_last_of_each_name():
    """Merging sorted runs keeps the newest record of every name, also where names share their high half."""
    rng = np.random.default_rng(4)
    for high in (1 << 60, 8):  # the second makes high halves collide
        names = [rng.integers(0, high, (50, 2)).astype(np.uint64) // 2 for _ in range(4)]
        names = [np.unique(run, axis=0) for run in names]
        expected, log = {}, b""
        for number, run in enumerate([*names, names[0]]):
            standing = np.array([(number, row, 0) for row in range(len(run))], dtype=STANDING)
            log = merged(log + to_records(run, standing))
            expected |= {tuple(name): (number, row, 0) for row, name in enumerate(run.tolist())}
        table = AccountTable.from_bytes(log)
        positions = table.find(np.array([*expected], dtype=np.uint64))
        found = dict(zip(map(tuple, positions.names.tolist()), table.get(positions).tolist(), strict=True))
        assert found == expected
        assert len(table) == len(expected)
