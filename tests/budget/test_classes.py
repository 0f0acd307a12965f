"""The public clock: one slot of level m in every block of 2^m, and no rhythm in common with hours, days or weeks."""

import json
import math
from dataclasses import replace
from fractions import Fraction
from itertools import count, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clocked import TOP, Clocked, by_clock, divisions, histories, separate, shares_of, steps
from dpi.budget import Epsilon
from dpi.budget.billing import SHARE_STEPS
from dpi.budget.class_allocation import ClassAllocation, read_snapshot, with_bounds
from dpi.budget.classes import HIGHEST, Bounds, ClassBudget, level, most_taken, next_due, steps_of
from dpi.budget.epsilon import LARGEST, UNITS
from dpi.budget.policy import clocked
from dpi.errors import ClockError, OptionError, StateError
from dpi.exact.integers import GRAINS
from dpi.noise import SystemSource

FAR = 10**9


@given(st.integers(-FAR, FAR), st.integers(0, 9))
def test_every_block_has_one_slot_of_its_level(block, size):
    """Of the slots of an aligned block of 2^m, before slot 0 too, exactly one has level m or more."""
    levels = [level(slot, HIGHEST) for slot in range(block << size, (block + 1) << size)]
    assert sum(each >= size for each in levels) == 1


@given(st.integers(-FAR, FAR), st.integers(0, 7))
def test_the_next_slot_of_a_class_is_the_first_of_its_level(after, m):
    """Found in m steps, it is the slot that a walk over all of them meets first."""
    assert next_due(after, m) == next(slot for slot in count(after + 1) if level(slot, HIGHEST) >= m)


@given(st.integers(-FAR, FAR), st.integers(1, HIGHEST))
def test_a_level_is_cut_at_the_top(slot, top):
    """The top class takes all above it: a lower top changes nothing below it."""
    assert level(slot, top) == min(level(slot, HIGHEST), top)


@pytest.mark.parametrize("period", [2, 3, 7, 12, 24, 60, 168, 365, 1440, 4096])
def test_who_is_active_at_one_hour_meets_all_levels(period):
    """In every residue of a period the levels have the frequencies 2^-m: deviations lie within five of the binomial's.

    The number of times that 2 divides the slot would give odd hours level 0 for ever. Levels are fixed, so there is no
    chance in this.
    """
    days = 4096
    for hour in {0, 1, period // 2, period - 1}:
        levels = [level(day * period + hour, HIGHEST) for day in range(days)]
        for m in range(1, 6):
            share = 2.0**-m
            seen = sum(each >= m for each in levels)
            assert abs(seen - days * share) <= 5 * math.sqrt(days * share * (1 - share))


def test_levels_do_not_change():
    """A stream that goes on after an upgrade meets the same levels."""
    assert [level(slot, 20) for slot in range(-8, 24)] == LEVELS


LEVELS = [0, 3, 0, 1, 2, 0, 1, 0, 0, 4, 0, 1, 0, 1, 0, 2, 3, 0, 1, 0, 1, 0, 0, 2, 0, 1, 0, 6, 2, 0, 1, 0]


@pytest.mark.parametrize("top", [0, 41, 2.0, True, "4"])
def test_a_top_class_that_never_comes_is_refused(top):
    """Of 1 to 40: a slot of level 40 comes once in 2^40."""
    assert clocked(1).top == 1
    assert clocked(40).top == 40
    with pytest.raises(OptionError, match="`top` must be a whole number from 1 to 40"):
        clocked(top)


HALF = Fraction(1, 2)
amounts = st.one_of(st.integers(1, 50), st.integers(1, LARGEST), st.integers(UNITS, 4 * UNITS))


@given(amounts, histories)
def test_no_account_has_more_left_or_spent_than_its_class_may(epsilon, history):
    """After every slot: left ≤ L_m and spent ≤ S_m for every user of every class, at any ε, shares and groups."""
    ledger = Clocked(Epsilon(epsilon))
    for active, asked in history:
        ledger.pay(active, asked)
        for left, payments in ledger.standings(range(7)):
            m = min(payments, TOP)
            assert left <= ledger.bounds.left[m]
            assert epsilon - left <= ledger.bounds.spent[m] <= ledger.bounds.most_spent <= epsilon


@given(amounts, histories)
def test_somebody_can_have_spent_what_is_said(epsilon, history):
    """S_m is no more than the rule makes it: a user who is there from the start pays as S says, but for grains."""
    ledger = Clocked(Epsilon(epsilon))
    for _, asked in history:
        ledger.pay({0}, asked)
    own = min(ledger.payments(0), TOP)
    rounding = len(history) * (1 + -(-epsilon // GRAINS))
    assert own == 0 or epsilon - ledger.left(0) <= ledger.bounds.spent[own]
    best = max(_paths(epsilon, history).values())
    assert ledger.bounds.most_spent == best
    assert epsilon - ledger.left(0) <= best + rounding


def _paths(epsilon, history):
    """The most spent by class, over users who pay in any part of the slots in which their class is due."""
    best = {0: 0}
    for _, asked in history:
        after, shares = dict(best), shares_of(asked)
        for m, spent in best.items():
            if m in shares:
                paid = spent + (epsilon - spent) * steps_of(shares[m]) // SHARE_STEPS
                after[min(m + 1, TOP)] = max(after.get(min(m + 1, TOP), 0), paid)
        best = after
    return best


def test_two_slots_do_not_spend_all():
    """Σ ε_t would say that all is spent after two slots of a half; nobody can have lost more than a half of it."""
    bounds = Bounds.initial(Epsilon(UNITS), TOP)
    for slot in (2, 4, 6):
        bounds, _ = bounds.draw(slot, separate([HALF]))
    assert bounds.most_spent == UNITS // 2
    assert bounds.left == (UNITS, UNITS // 2 + (UNITS // 2 // GRAINS))


def test_a_user_moves_one_class_in_a_slot():
    """In a slot that asks three classes after one that all were in, S_1 pays once: from high classes to low."""
    bounds, _ = Bounds.initial(Epsilon(UNITS), TOP).draw(2, separate([HALF]))
    for together in (separate([HALF] * 3), (tuple((m, HALF) for m in range(3)),)):
        assert bounds.draw(7, together)[0].spent == (0, UNITS // 2, UNITS * 3 // 4)


def test_every_due_class_has_a_budget():
    """ε_{t,m} = floor(f_m · L_m), at least one unit, for all classes that a slot asks, empty ones too."""
    asked = by_clock(1)
    assert len(asked) == TOP + 1  # in the second slot ever, when nobody can have paid twice
    _, groups = Bounds.initial(Epsilon(UNITS), TOP).draw(1, asked)
    budgets = [due for group in groups for due in group.classes]
    assert tuple(((due.number, due.share),) for due in budgets) == asked
    assert [due.epsilon.units for due in budgets] == [due.most_left * due.steps // SHARE_STEPS for due in budgets]
    _, tiny = Bounds.initial(Epsilon(1), TOP).draw(1, asked)
    assert {group.epsilon.units for group in tiny} == {1}


@given(amounts, divisions)
def test_a_group_costs_what_its_dearest_class_does(epsilon, asked):
    """The price is the largest ε_{t,m}, and groups are those that were asked for."""
    _, groups = Bounds.initial(Epsilon(epsilon), TOP).draw(0, asked)
    assert tuple(tuple((due.number, due.share) for due in group.classes) for group in groups) == asked
    for group in groups:
        assert group.epsilon == max(due.epsilon for due in group.classes)


def test_a_class_of_a_dear_group_keeps_what_is_rounded_off():
    """A grain of a price of 2^36 units costs 2^12: who has 5000 and is asked for half of it may pay nothing."""
    bounds = Bounds(1 << 36, TOP, (1 << 36, 5000), (0, (1 << 36) - 5000))
    alone, _ = bounds.draw(0, (((0, Fraction(1)),), ((1, HALF),)))
    shared, _ = bounds.draw(0, (((0, Fraction(1)), (1, HALF)),))
    assert (alone.left[2], shared.left[2]) == (2501, 5000)


def test_a_class_that_nobody_can_be_in_is_asked_by_the_bound_before_it():
    """After a gap of classes that were never due, what is left is at most what the class before the gap has."""
    bounds, groups = Bounds.initial(Epsilon(UNITS), TOP).draw(0, (((0, HALF), (3, HALF)),))
    after = UNITS // 2 + (UNITS // 2 // GRAINS)
    assert [due.most_left for due in groups[0].classes] == [UNITS, after]
    assert bounds.left[:4] == (UNITS, after, after, after)
    assert bounds.spent == (0, UNITS // 2)
    assert bounds.largest == (SHARE_STEPS // 2, 0, 0, SHARE_STEPS // 2)


WRONG = {
    "nothing": (),
    "no newcomers": (((1, HALF),),),
    "a class twice": (((0, HALF),), ((0, HALF),)),
    "a class above the top": (((0, HALF), (TOP + 1, HALF)),),
    "a class below zero": (((-1, HALF), (0, HALF)),),
    "an empty group": (((0, HALF),), ()),
    "classes that fall": (((0, HALF), (2, HALF), (1, HALF)),),
    "groups that fall": (((0, HALF),), ((2, HALF),), ((1, HALF),)),
    "no share": (((0, Fraction(0)),),),
    "a share above one": (((0, Fraction(3, 2)),),),
    "a share that is no step": (((0, HALF), (1, Fraction(1, 3))),),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_what_cannot_be_asked_is_refused(wrong):
    """Class 0 is always due, every class is in one group, groups are in order, and shares are steps of 2^-12."""
    with pytest.raises(OptionError):
        Bounds.initial(Epsilon(UNITS), TOP).draw(2, wrong)


def test_an_epoch_begins_anew():
    """With refills, S starts at zero in every epoch, and what was lost in those before is added up."""
    bounds = Bounds.initial(Epsilon(UNITS), TOP, period=3)
    for slot in range(6):
        bounds, _ = bounds.draw(slot, by_clock(slot))
    first = Bounds.initial(Epsilon(UNITS), TOP, period=3)
    for slot in range(3):
        first, _ = first.draw(slot, by_clock(slot))
    assert (bounds.epoch, bounds.past) == (1, first.most_spent)
    assert bounds.most_spent == first.most_spent + max(bounds.spent) <= 2 * UNITS


@settings(max_examples=40)
@given(st.integers(0, TOP + 2), amounts, st.integers(0, 40), st.integers(0, 7), st.lists(steps, min_size=TOP + 1))
def test_lost_slots_take_at_most_what_is_said(payments, left, first, number, largest):
    """Over all ways to be there or not, and due or not, in lost slots: never more than `most_taken`."""
    slots = range(first, first + number)
    (most,) = most_taken(np.array([payments]), np.array([left]), slots, largest, TOP).tolist()
    reached = 0
    for there in product((False, True), repeat=number):
        m, taken = min(payments, TOP), 0
        for present in there:
            if present:
                taken += (left - taken) * largest[m] // SHARE_STEPS
                m = min(m + 1, TOP)
        assert taken <= most
        reached = max(reached, taken)
    assert most == reached  # … and no more than somebody can have paid


def test_a_class_whose_share_is_not_known_may_have_paid_all():
    """What a witness does not say is taken for all that is left."""
    assert most_taken(np.array([0]), np.array([100]), range(1), (), TOP).tolist() == [100]
    asked = (SHARE_STEPS // 2, 0, SHARE_STEPS // 2)
    assert most_taken(np.array([0, 1, 2]), np.array([100] * 3), range(1), asked, TOP).tolist() == [50, 100, 50]


@given(histories, st.integers(0, 29))
def test_bounds_after_lost_slots_are_no_smaller(history, cut):
    """Max S after slots of which only the largest shares are known is at least what their certificates said."""
    whole = copy = Bounds.initial(Epsilon(UNITS), TOP)
    for slot, (_, asked) in enumerate(history):
        whole, _ = whole.draw(slot, asked)
        copy = whole if slot == cut else copy
    if cut < len(history):
        after = copy.after_lost(range(cut + 1, len(history)), whole.largest)
        assert whole.most_spent <= after.most_spent <= UNITS
        assert after.left == copy.left
        assert len(after.spent) == min(len(copy.spent) + (cut < len(history) - 1), TOP + 1)
        assert after.largest == whole.largest
    # Where nothing of this stream was lost, users may be put back to other classes all the same.
    assert copy.after_lost(range(7, 7), copy.largest) == replace(copy, restored=(6,))


def test_lost_epochs_cost_all_of_each():
    """Of epochs whose slots were lost nothing is known: each may have cost ε."""
    copy, _ = Bounds.initial(Epsilon(UNITS), TOP, period=4).draw(0, separate([HALF]))
    assert copy.most_spent == UNITS // 2
    after = copy.after_lost(range(1, 9), copy.largest)
    assert after.past == 2 * UNITS
    assert after.most_spent == 2 * UNITS + UNITS // 2
    assert copy.after_lost(range(1, 3), copy.largest).past == 0


def test_where_an_old_copy_went_on_everybody_may_be_in_any_class():
    """Who paid in a lost slot and was put back to an older class pays there once more: that is in what is taken."""
    shares = [SHARE_STEPS // 2, *[SHARE_STEPS // 4] * TOP]
    account = np.array([0]), np.array([UNITS])
    assert most_taken(*account, (2, 3), shares, TOP).tolist() == [UNITS * 5 // 8]
    assert most_taken(*account, (2, 3), shares, TOP, restored=(2,)).tolist() == [UNITS * 3 // 4]
    later = np.array([1]), np.array([UNITS])  # of a class that pays less, unless an older copy knows it as class 0
    taken = [most_taken(*later, (2,), shares, TOP, restored=again).tolist() for again in ((), (1,))]
    assert taken == [[UNITS // 4], [UNITS // 2]]
    copy = Bounds.initial(Epsilon(UNITS), TOP)
    once = copy.after_lost(range(2, 3), shares)
    assert once.restored == (2,)
    assert copy.after_lost(range(2, 4), shares, once.restored).most_spent == UNITS * 3 // 4
    assert copy.after_lost(range(2, 4), shares, once.restored).restored == (2, 3)


# The allocation.


def drawn(allocation, slot, asked=None):
    """The budgets of a slot."""
    return allocation.draw_classes(slot, asked or by_clock(slot)), allocation.groups


@given(histories)
def test_saved_and_restored_goes_on_exactly(history):
    """A restored allocation has the budgets of one that never stopped, and its snapshot tells the slot's budgets."""
    one, other = (ClassAllocation(Epsilon(UNITS), TOP) for _ in range(2))
    for slot, (_, asked) in enumerate(history):
        epsilon, groups = drawn(one, slot, asked)
        assert epsilon == max(group.epsilon for group in groups)
        assert read_snapshot(one.snapshot()) == (one.bounds, groups)
        other.restore(one.snapshot())
        assert (other.bounds, other.groups) == (one.bounds, one.groups)
        fresh = ClassAllocation(Epsilon(UNITS), TOP)
        fresh.restore(one.snapshot())
        other = fresh


def test_a_budget_needs_its_slot():
    """Budgets follow from what a slot asks: without that nothing is drawn, and none is drawn twice."""
    allocation = ClassAllocation(Epsilon(UNITS), TOP)
    with pytest.raises(ClockError):
        allocation.draw(SystemSource())
    drawn(allocation, 2)
    with pytest.raises(ClockError):
        allocation.draw(SystemSource())


def test_after_lost_slots_users_may_be_a_class_further_on_and_have_spent_the_most():
    """Who paid in the first of them was in the class after the last that was said, with all that can be spent."""
    before, _ = Bounds.initial(Epsilon(UNITS), TOP).draw(0, separate([Fraction(3, 4)]))
    after = before.after_lost(range(1, 2), (SHARE_STEPS // 2, SHARE_STEPS // 4))
    assert [spent / UNITS for spent in after.spent] == [0.5, 0.8125, 0.8125]


def test_slots_lost_before_any_was_paid_for_are_of_no_earlier_epoch():
    """Nothing can have been lost in epochs before the first; over later ones ε may have been lost in each."""
    first, largest = Bounds.initial(Epsilon(UNITS), TOP, period=2), (SHARE_STEPS,) * (TOP + 1)
    begun = first.after_lost(range(6, 7), largest)
    assert (begun.epoch, begun.past, begun.most_spent) == (3, 0, UNITS)
    later = begun.after_lost(range(7, 11), largest)
    assert (later.epoch, later.past, later.most_spent) == (5, 2 * UNITS, 3 * UNITS)


def test_a_snapshot_that_forgets_what_was_asked_or_restored_is_refused():
    """By shares that were larger, epochs that were entered and copies that went on, lost slots are charged for."""
    newer = Bounds(4 * UNITS, TOP, (4 * UNITS, UNITS), (0, UNITS), (2048, 1024), 2, 3, UNITS, (5,))
    assert newer.follows(newer)
    assert newer.follows(Bounds.initial(Epsilon(4 * UNITS), TOP, 2))
    older = [
        {"left": (4 * UNITS,)}, {"left": (4 * UNITS, UNITS - 1)}, {"spent": (0, UNITS - 1)}, {"past": 0},
        {"largest": (2048,)}, {"largest": (2047, 1024)}, {"epoch": 2}, {"epoch": None}, {"restored": ()},
    ]  # fmt: skip
    for forgotten in older:
        assert not replace(newer, **forgotten).follows(newer), forgotten
        assert newer.follows(replace(newer, **forgotten))


def test_an_older_or_damaged_snapshot_is_refused():
    """Bounds never fall, and nothing but what was written is read."""
    allocation = ClassAllocation(Epsilon(UNITS), TOP)
    before = allocation.snapshot()
    drawn(allocation, 2)
    with pytest.raises(StateError, match="older"):
        allocation.restore(before)
    text = allocation.snapshot()
    for name, before, after in (("spent", "[", "[null, "), ("past", "0", "null"), ("drawn", "[[", "[[7, ")):
        old, new = f'"{name}": {before}', f'"{name}": {after}'
        assert old in text
        with pytest.raises(StateError):
            ClassAllocation(Epsilon(UNITS), TOP).restore(text.replace(old, new))
    with pytest.raises(StateError):
        ClassAllocation(Epsilon(UNITS), TOP + 1).restore(text)
    with pytest.raises(StateError):
        ClassAllocation(Epsilon(UNITS), TOP, period=2).restore(text)


def test_a_snapshot_with_other_bounds():
    """After lost slots a snapshot has the bounds after them, and no slot's budgets."""
    allocation = ClassAllocation(Epsilon(UNITS), TOP)
    drawn(allocation, 2)
    after = allocation.bounds.after_lost(range(3, 9), allocation.bounds.largest)
    text = with_bounds(allocation.snapshot(), after)
    assert read_snapshot(text) == (after, ())
    allocation.restore(text)
    assert allocation.bounds == after


def test_accounts_that_hold_more_go_on_with_what_was_added():
    """As a quota grows: bounds of what is left grow by it, and what was spent stays spent."""
    before = ClassAllocation(Epsilon(UNITS), TOP)
    drawn(before, 2)
    same, larger = ClassAllocation(Epsilon(UNITS), TOP), ClassAllocation(Epsilon(3 * UNITS), TOP)
    for after in (same, larger):
        after.succeed(before.snapshot())
    assert (same.bounds, same.groups) == (before.bounds, before.groups)
    assert (larger.bounds, larger.groups) == (before.bounds.grown(3 * UNITS), ())
    assert json.loads(larger.snapshot())["rule"] == f"classes {3 * UNITS} {TOP}"


@pytest.mark.parametrize("options", [{"top": TOP + 1}, {"period": 2}])
def test_bounds_of_other_classes_or_epochs_are_refused(options):
    """They would be forgotten, and with them what users may have paid; what another rule has drawn is no bound."""
    before = ClassAllocation(Epsilon(UNITS), TOP)
    drawn(before, 2)
    after = ClassAllocation(**{"epsilon": Epsilon(UNITS), "top": TOP} | options)
    with pytest.raises(StateError, match="another top class or period"):
        after.succeed(before.snapshot())
    for text in ('{"rule": "constant 5", "state": null}', ""):
        after.succeed(text)
        assert after.bounds == Bounds.initial(Epsilon(UNITS), options.get("top", TOP), options.get("period"))


@pytest.mark.parametrize("name", ["left", "spent", "largest", "restored"])
def test_every_number_of_a_snapshot_is_a_whole_one(name):
    """What is left and what is spent is known of one class at least; nothing is read as a number that is none."""
    allocation = ClassAllocation(Epsilon(UNITS), TOP, period=2)
    drawn(allocation, 2)
    saved = json.loads(allocation.snapshot())
    wrong = (
        [[*saved["state"][name], number] for number in (True, 1.5, None)] + [None] + [[]] * (name in ("left", "spent"))
    )
    for numbers in wrong:
        text = json.dumps(saved | {"state": saved["state"] | {name: numbers}})
        with pytest.raises(StateError, match="damaged"):
            ClassAllocation(Epsilon(UNITS), TOP, period=2).restore(text)
    assert read_snapshot(allocation.snapshot())[0].period == 2


def test_other_allocations_know_no_classes():
    """A snapshot of a constant has neither bounds nor classes."""
    text = '{"rule": "constant 5", "state": null}'
    assert read_snapshot(text) == (None, ())


def test_a_share_is_a_step():
    """A share is told in steps of 2^-12."""
    assert ClassBudget(0, Epsilon(5), Fraction(3, 8), 9).steps == 3 * SHARE_STEPS // 8 == steps_of(Fraction(3, 8))
