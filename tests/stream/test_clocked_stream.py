"""Streams that measure users by class: budgets, certificates, interruptions, trees, and where it is spend_first."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import dpi
from clocked import OneClass, separate
from dpi.budget.classes import Bounds, level
from dpi.budget.epsilon import UNITS, Epsilon
from dpi.certificates.chain import Head, extend
from dpi.errors import OptionError
from dpi.events.rows import Rows
from dpi.exact.integers import GRAINS
from dpi.noise import UnsafeSeededSource
from dpi.stream.closing import Offer, measure, release_slot
from dpi.testing.class_sums import ClassSums, SharedSums
from dpi.verification import verify
from played_rows import weighed

TOP = 4
DOMAIN = dpi.Categories(["a", "b", "c"], other=None)
BUDGET = dpi.Ledger(policy=dpi.budget.clocked(top=TOP))
SPEND = dpi.Ledger(policy=dpi.budget.spend_first)
REGULARS = [f"regular {number}" for number in range(60)]


def stream(**options):
    """A stream whose users pay by class."""
    default = {"domain": DOMAIN, "epsilon": 1, "budget": BUDGET, "mechanism": ClassSums()}
    kept = {"unsafe_source": UnsafeSeededSource(3), "store": dpi.MemoryStore()}
    return dpi.Stream(**(default | kept | options))


def close(opened, slots, **options):
    """Release some slots of regulars and newcomers."""
    found = []
    for slot in slots:
        users = [*REGULARS, *[f"new {slot} {number}" for number in range(40)]]
        found.append(opened.release(users, [["a", "b", "c"][row % 3] for row in range(len(users))], **options))
    return found


@pytest.mark.parametrize("mechanism", [ClassSums(), SharedSums()], ids=["clock", "shared"])
def test_a_certificate_states_the_budgets_of_all_due_classes(mechanism):
    """Each class that was asked, empty or not, with ε_{t,m} = floor(f_m·L_m); the slot's ε_t is the largest."""
    opened = stream(mechanism=mechanism)
    bounds = Bounds.initial(Epsilon(UNITS), TOP)
    for slot in range(20):
        asked = mechanism.request_payments(opened.driver.state.state, slot)
        (release,) = close(opened, [slot])
        bounds, groups = bounds.draw(slot, asked)
        due = [(number, each) for number, group in enumerate(groups) for each in group.classes]
        stated = release.certificate["classes"]
        for (number, each), told in zip(due, stated, strict=True):
            assert (told["class"], told["group"], told["share_steps"]) == (each.number, number, each.steps)
            assert (told["epsilon_units"], told["most_left_units"]) == (each.epsilon.units, each.most_left)
            assert told["epsilon"] == float(each.epsilon)
        assert release.certificate["epsilon_units"] == max(due["epsilon_units"] for due in stated)
        assert release.epsilon == release.certificate["epsilon_units"] / UNITS
        assert release.certificate["epsilon_spent_units"] == bounds.most_spent
        assert release.epsilon_spent == bounds.most_spent / UNITS < 1
    assert verify(opened.store).problems == ()


def test_what_is_stated_does_not_depend_on_who_was_there():
    """Two streams with the same measurements have the same budgets, whoever was in which class."""
    one, other = stream(), stream(unsafe_source=UnsafeSeededSource(3))
    for slot in range(6):
        first = one.release(["ada"], ["a"])
        second = other.release([], [])
        assert len(first.certificate["classes"]) == len(second.certificate["classes"]) == level(slot, TOP) + 1


def test_no_account_has_spent_more_than_is_said():
    """`epsilon_spent` bounds every user, and a user who was in every slot has lost nearly as much."""
    opened = stream()
    for slot in range(24):
        (release,) = close(opened, [slot])
        left = min(opened._accounts.remaining(pl.Series(REGULARS[:1]), release.slot))
        assert 1 - left <= Fraction(release.certificate["epsilon_spent_units"], UNITS)
    assert float(1 - left) > 0.9 * release.epsilon_spent


@pytest.mark.parametrize("seed", range(3))
def test_a_slot_of_two_classes_measures_each_by_itself(seed):
    """The histograms are those of newcomers and of those who paid once, in one pass; who is not due is in none."""
    opened = stream(unsafe_source=UnsafeSeededSource(seed))
    close(opened, range(3))
    state, accounts, options = opened.driver.state, opened._accounts, opened.setting
    assert level(3, TOP) == 1
    offer = Offer.draw(state, opened.driver._allocation, 3, UnsafeSeededSource(1))
    paid = dict(zip(REGULARS, accounts.payments(pl.Series(REGULARS), 3), strict=True))
    assert set(paid.values()) == {2}  # in slots 0 and 1: not due in slot 3
    users = ["ada", "bob", "new 2 0", *REGULARS]  # two newcomers, one who paid in slot 2, and regulars
    rows = Rows.of(users, np.array([0, 1, 2, *[0] * len(REGULARS)]), opened.store.key)
    clean, charge = weighed(options, rows, accounts, offer, 3)
    assert clean.groups == 2
    assert clean.by_group[0].tolist() == [GRAINS, GRAINS, 0]
    assert clean.by_group[1][:2].tolist() == [0, 0]
    assert 0 < clean.by_group[1][2] <= GRAINS
    assert len(charge.records()) == len(charge.payments()) == 3 * 36
    slot = measure(state, clean, offer, 3, UnsafeSeededSource(2))
    assert len(slot.values) == 8 * 2 * DOMAIN.size
    made = release_slot(state, slot, "")
    assert made.release.digest == release_slot(state, slot, "").release.digest


@pytest.mark.parametrize(
    "options",
    [
        {"mechanism": dpi.Published(dpi.mechanism.published.Multinomial(8, 6))},
        {"mechanism": dpi.Published(dpi.mechanism.published.Multinomial(8, 6)), "compression": dpi.histogram.whole_pdf},
        {"mechanism": OneClass()},
    ],
    ids=["published", "whole PDFs", "one class"],
)
def test_where_users_have_weight_one_it_is_spend_first(options):
    """What cannot be measured by class is released, and paid for, as under `spend_first`."""
    clocked, first = stream(**options), stream(**options, budget=SPEND, unsafe_source=UnsafeSeededSource(3))
    assert clocked.setting.classes == 1
    for one, other in zip(close(clocked, range(5)), close(first, range(5)), strict=True):
        assert one.content() == other.content()
        assert "classes" not in one.certificate
    assert clocked._accounts.remaining(pl.Series(REGULARS), 5) == first._accounts.remaining(pl.Series(REGULARS), 5)
    assert verify(clocked.store).problems == ()


@pytest.mark.parametrize("wrong", [{"per_slot": "0.1"}, {"slots": 5}, {"slots": 5, "every": 2}, {"returning": False}])
def test_amounts_of_a_slot_are_for_spend_first(wrong):
    """Where users pay shares of what is left, a slot has no amount of its own; where it is spend_first, it has."""
    with pytest.raises(OptionError, match="clocked"):
        stream(budget=dpi.Ledger(policy=dpi.budget.clocked(), **wrong))
    assert stream(budget=dpi.Ledger(policy=dpi.budget.clocked(), **wrong), mechanism=OneClass())


def test_saved_and_loaded_goes_on_exactly(tmp_path):
    """A stream that is saved, thrown away and loaded after every slot releases the bytes of one that was not."""
    whole = close(stream(), range(12))
    opened, made = stream(), []
    for slot in range(12):
        made += close(opened, [slot])
        opened.save(tmp_path / "saved")
        source = opened.driver.source
        opened = stream(unsafe_source=source)
        opened.load(tmp_path / "saved")
    assert [release.to_json() for release in made] == [release.to_json() for release in whole]


def test_the_first_slot_may_be_tried_under_another_number():
    """Classes are those of the slot that is released: one that failed before it leaves nothing behind."""
    opened = stream()
    assert (level(1, TOP), level(2, TOP)) == (4, 0)
    opened.driver._offered(1)
    release = opened.release(["ada"], ["a"], slot=2)
    assert len(release.certificate["classes"]) == 1
    assert verify(opened.store).problems == ()


def test_a_retry_has_the_budgets_of_the_first_try():
    """An offer is kept until its slot is paid for."""
    opened = stream()
    close(opened, range(2))
    assert opened.driver._offered(2) is opened.driver._offered(2)


# Beside other things.


def tree_of(per_slot):
    """A stream with a tree of sums, and its state before and after a slot of level 1."""
    opened = stream(accumulate=dpi.stream.PrefixTree(per_slot=per_slot, arity=2))
    close(opened, range(8))
    return opened


def test_the_trees_part_is_taken_from_every_group_that_it_sums():
    """What a group pays is shared between tree and mechanism; the noise of both is that of their parts."""
    options = tree_of("0.1").setting
    _, whole = Bounds.initial(Epsilon(UNITS), TOP).draw(1, separate([Fraction(1, 2)] * 5))
    fed, parts = options.split_groups(whole)
    assert [float(due.epsilon) > 0.1 for due in whole] == fed == [True, True, True, False, False]
    for due, part, into in zip(whole, parts, fed, strict=True):
        assert part.epsilon.units + (options.accumulate.epsilon.units if into else 0) == due.epsilon.units
        assert part.classes == due.classes


def test_groups_below_the_trees_share_stay_out():
    """A tree sums the users of groups that can pay for it; if none can, what was released stands in for the slot."""
    clean = dpi.histogram.Histogram(np.arange(15) * GRAINS, GRAINS, groups=5)
    some = clean.of_groups([True, False, True, False, False])
    assert (some.grains // GRAINS).tolist() == [0 + 6, 1 + 7, 2 + 8]
    assert some.groups == 1
    dear = tree_of("0.9")
    assert dear.driver.state.tree.nodes == 0
    assert dear.driver.state.tree.done.any()
    assert tree_of("0.1").driver.state.tree.nodes > 0


def test_streams_of_one_ledger_have_classes_of_their_own():
    """M is kept for each account and stream, and ε covers both; the statement says so."""
    store = dpi.MemoryStore()
    visits, orders = (stream(store=store, name=name) for name in ("visits", "orders"))
    close(visits, range(6))
    assert set(orders._accounts.payments(pl.Series(REGULARS), 6, "orders")) == {0}
    close(orders, range(6))
    assert visits._accounts is orders._accounts
    assert visits._accounts.within
    assert verify(store).problems == ()


def test_classes_go_on_under_other_options():
    """A change of the domain starts the mechanism anew, not the classes: bounds and payments are kept."""
    store = dpi.MemoryStore()
    before = close(stream(store=store), range(8))[-1]
    changed = stream(store=store, domain=dpi.Categories(["a", "b", "c", "d"], other=None), change=True)
    after = close(changed, [8])[0]
    assert after.epsilon_spent >= before.epsilon_spent
    assert max(changed._accounts.payments(pl.Series(REGULARS), 9)) >= 3
    assert verify(store).problems == ()


def test_a_stream_measures_by_class_for_ever_or_never():
    """A mechanism that knows no classes does not go on with a stream that has them, nor the other way round."""
    known, store = {"mechanism": ClassSums()}, dpi.MemoryStore()
    close(stream(store=store, name="one"), range(2))
    close(stream(store=store, name="two", mechanism=OneClass()), range(2))
    for name, options in (("one", {"mechanism": OneClass()}), ("two", known)):
        with pytest.raises(OptionError, match="another `name`"):
            stream(store=store, name=name, change=True, **options)
    assert verify(store).problems == ()


def test_an_epoch_refills_classes():
    """With a period, every epoch begins with newcomers, and what was lost is added up over epochs."""
    opened = stream(budget=dpi.Ledger(policy=dpi.budget.clocked(top=TOP), period=4))
    releases = close(opened, range(12))
    assert [release.epsilon_spent for release in releases] == sorted(release.epsilon_spent for release in releases)
    assert 1 < releases[-1].epsilon_spent <= 3
    assert set(opened._accounts.payments(pl.Series(REGULARS), 12)) == {0}
    assert verify(opened.store).problems == ()


def test_the_top_class_is_part_of_the_ledger():
    """Streams of one ledger have one policy: another top class would count classes differently."""
    store = dpi.MemoryStore()
    stream(store=store, name="visits")
    with pytest.raises(OptionError, match="policy"):
        stream(store=store, name="orders", budget=dpi.Ledger(policy=dpi.budget.clocked(top=5)))
    with pytest.raises(OptionError, match="policy"):
        stream(store=store, name="orders", budget=SPEND)


# What a verifier finds.

FORGED = {
    "a share that was not asked for": lambda due: [{**due[0], "share_steps": due[0]["share_steps"] - 1}, *due[1:]],
    "another budget": lambda due: [{**due[0], "epsilon_units": due[0]["epsilon_units"] - 1}, *due[1:]],
    "another amount for people": lambda due: [{**due[0], "epsilon": 0.1}, *due[1:]],
    "another bound": lambda due: [{**due[0], "most_left_units": due[0]["most_left_units"] + 1}, *due[1:]],
    "another class": lambda due: [*due[:-1], {**due[-1], "class": due[-1]["class"] + 1}],
    "a group that is left out": lambda due: [*due[:-1], {**due[-1], "group": due[-1]["group"] + 1}],
    "a class twice": lambda due: [*due, due[-1]],
    "no newcomers": lambda due: due[1:],
    "no share": lambda due: [{}],
    "no classes": lambda due: None,
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_a_forged_budget_of_a_class_is_found(forged):
    """The chain is replayed with the stated classes, shares and groups: what does not follow from them is told."""
    opened = stream(store=dpi.MemoryStore())
    close(opened, range(4))
    links, head = [*opened.store.links()], Head()
    for number, link in enumerate([*links]):
        entry = dict(link.entry)
        if number == 4:
            assert len(entry["classes"]) == 2
            entry["classes"] = forged(entry["classes"])
            if entry["classes"] is None:
                del entry["classes"]
        facts = {name: fact for name, fact in entry.items() if name not in ("sequence", "previous")}
        links[number] = extend(head, facts)
        head = links[number].head
    opened.store._content = replace(opened.store._content, links=tuple(links))
    problems = verify(opened.store).problems
    assert any(problem.startswith("entry 4 ") and "vouches" not in problem for problem in problems)


def test_classes_that_were_not_declared_are_found():
    """A stream of another policy does not measure by class."""
    opened = stream(store=dpi.MemoryStore(), mechanism=OneClass(), budget=dpi.Ledger(per_slot="0.1"))
    close(opened, range(1))
    links = [*opened.store.links()]
    link = links[1]
    facts = {name: fact for name, fact in link.entry.items() if name not in ("sequence", "previous")}
    links[1] = extend(links[0].head, facts | {"classes": []})
    opened.store._content = replace(opened.store._content, links=tuple(links))
    assert any("has not declared" in problem for problem in verify(opened.store).problems)
