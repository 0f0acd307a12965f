import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.budget import RBA, Auto, Constant, Converging, Epsilon, Geometric, InOrder, Ledger, LogSquared, Spence, Zeta
from dpi.budget.allocation import Concentrated, IndexSet, NearestUnused
from dpi.budget.series import Elements
from dpi.errors import OptionError, StateError
from dpi.noise import SystemSource, UnsafeSeededSource

ONE = Epsilon.at_most(1)
ALLOCATIONS = [
    Converging(Spence(0.1, 0.1)),
    Converging(Zeta(2), RBA(10)),
    Converging(LogSquared(), RBA(1e4)),
    Converging(Spence(0.1, 0.1), RBA(1e8)),
    Converging(Zeta(2), RBA.ranges(large="0.01", small="0.0001")),
    Converging(Geometric(0.9), RBA.ranges(large="0.5", small="0.01")),
]


@pytest.mark.parametrize("budget", ALLOCATIONS, ids=repr)
def test_any_number_of_draws_sums_to_at_most_epsilon(budget):
    """Elements are drawn without replacement, so their integers never exceed the total."""
    allocation = budget.allocation(ONE)
    spent = 0
    for _ in range(2000):
        spent += allocation.draw(UnsafeSeededSource(spent)).units
        assert spent <= ONE.units


@pytest.mark.parametrize("budget", ALLOCATIONS, ids=repr)
def test_saved_and_restored_goes_on_exactly(budget):
    """A restart refills nothing: after `restore` the draws are those of the allocation that never stopped."""
    one, other = budget.allocation(ONE), budget.allocation(ONE)
    source = UnsafeSeededSource(1)
    for _ in range(300):
        one.draw(source)
    other.restore(one.snapshot())
    a, b = UnsafeSeededSource(2), UnsafeSeededSource(2)
    assert [one.draw(a) for _ in range(300)] == [other.draw(b) for _ in range(300)]
    assert one.snapshot() == other.snapshot()


@pytest.mark.parametrize("budget", [*ALLOCATIONS, Ledger(), Ledger(per_slot="0.05", every=5)], ids=repr)
def test_an_older_snapshot_does_not_refill(budget):
    """What was drawn since a snapshot was taken is not given back by restoring it; the same or a later one is taken."""
    one, other, source = budget.allocation(ONE, 10), budget.allocation(ONE, 10), UnsafeSeededSource(1)

    def drawn_and_heard():
        one.draw(source)
        one.observe(100.0, 5.0)
        return one.snapshot()

    older, newer = (drawn_and_heard() for _ in range(2))
    for text in (older, older, newer, newer):
        other.restore(text)
    with pytest.raises(StateError, match="refill"):
        other.restore(older)
    assert other.snapshot() == newer


def test_a_snapshot_of_other_draws_does_not_refill():
    """A random allocation is not put where as many, but other elements were drawn."""
    one, other = (Converging(Zeta(2), RBA(4)).allocation(ONE) for _ in range(2))
    for seed, rule in enumerate((one, other)):
        for _ in range(5):
            rule.draw(UnsafeSeededSource(seed))
    assert one.snapshot() != other.snapshot()
    with pytest.raises(StateError, match="refill"):
        other.restore(one.snapshot())


@given(st.lists(st.integers(2**20, 2**40), min_size=1, max_size=40))
def test_rba_takes_the_nearest_unused_element(targets):
    """Each draw is the nearest unused element to S, by brute force over the first thousand."""
    allocation = NearestUnused(Zeta(2), ONE, RBA(1).rate)
    elements = {t: allocation._series.element(t) for t in range(1, 1001)}
    for target in targets:
        allocation._target = lambda source, target=target: target
        nearest = min(abs(e - target) for e in elements.values())
        drawn = allocation.draw(SystemSource()).units
        assert abs(drawn - target) == nearest
        del elements[next(t for t, e in elements.items() if e == drawn)]


def fixed(values):
    """RBA over a short series of given elements (then zeros), whose target is given as well."""
    allocation = NearestUnused(Zeta(2), ONE, RBA(1).rate)

    def element(t):
        return values[int(t) - 1] if t < len(values) + 1 else 0

    allocation._series = Elements(ONE, element, element)

    def draw(target):
        allocation._target = lambda source: target
        return allocation.draw(SystemSource()).units

    return allocation, draw


def test_rba_takes_the_smaller_of_two_at_the_same_distance():
    """A tie goes to the element that spends less, also where others between them are used; else the nearer one wins."""
    for target, drawn in ((70, 60), (71, 80), (69, 60), (50, 40), (90, 80)):
        assert fixed([100, 80, 60, 40])[1](target) == drawn
    _, draw = fixed([100, 80, 60, 40, 20])
    assert [draw(60) for _ in range(5)] == [60, 40, 80, 20, 100]


def test_rba_takes_equal_elements_each_once():
    """Equal elements are as many as the series has, and none comes twice."""
    allocation, draw = fixed([50, 50, 50, 10])
    assert [draw(50) for _ in range(4)] == [50, 50, 50, 10]
    assert allocation._state() == [[1, 4]]


def test_ranges_use_every_queue_and_never_hang():
    """Large and medium run out, small never does."""
    allocation = Converging(Geometric(0.5), RBA.ranges(large="0.1", small="0.01")).allocation(ONE)
    drawn = [float(allocation.draw(SystemSource())) for _ in range(300)]
    assert sum(x >= 0.1 for x in drawn) == 3  # 1/2, 1/4, 1/8
    assert sum(0.01 <= x < 0.1 for x in drawn) == 3
    assert drawn[-1] < 0.01


RULES = [
    InOrder(Zeta(2), ONE),
    *(b.allocation(ONE) for b in ALLOCATIONS),
    Constant("0.05"),
    Concentrated("0.05", 5),
    Auto(ONE, 10),
]


@pytest.mark.parametrize("allocation", RULES, ids=lambda a: a.description[:40])
def test_state_that_is_not_its_own_is_refused(allocation):
    """Damaged text, damaged state, and state of any other rule are refused, and nothing changes."""
    before = allocation.snapshot()
    others = [rule.snapshot() for rule in RULES if rule.description != allocation.description]
    damaged = [
        json.dumps({"rule": allocation.description, "state": s}) for s in (-1, "x", [[2, 1]], [0, 0, 0], {}, [1])
    ]
    for text in ["", "{}", "[]", *others, *damaged]:
        with pytest.raises(StateError):
            allocation.restore(text)
    assert allocation.snapshot() == before


@pytest.mark.parametrize("budget", [Converging(Zeta(2)), *ALLOCATIONS], ids=repr)
def test_state_of_a_smaller_series_is_refused(budget):
    """What was drawn of a series of sum ε/2 are other elements: a series of sum ε does not go on from there."""
    smaller, larger = (budget.allocation(Epsilon.at_most(total)) for total in ("0.5", "1"))
    smaller.draw(SystemSource())
    with pytest.raises(StateError, match="other options"):
        larger.restore(smaller.snapshot())


def test_concentrated_budgets_have_the_same_mean():
    """Five slots cost five times the budget per slot, less at most the rounding."""
    drawn = [Concentrated("0.05", 5)] * 5
    total = sum(c.draw(SystemSource()).units for c in drawn)
    assert 5 * Epsilon.at_most("0.05").units - 5 <= total <= 5 * (Epsilon.at_most("0.05").units + 1)


@pytest.mark.parametrize(
    "options", [{"every": 0}, {"every": 5}, {"slots": 0}, {"slots": 2, "per_slot": 0.1}, {"per_slot": 0}]
)
def test_contradicting_ledger_options_are_refused(options):
    """Each says what is expected."""
    with pytest.raises(OptionError):
        Ledger(**options)


def test_a_slot_may_not_cost_more_than_the_account():
    """Also where the cost is concentrated."""
    with pytest.raises(OptionError, match="at most epsilon"):
        Ledger(per_slot=0.5, every=5).allocation(ONE, 10)
    high = Ledger(per_slot=0.05, every=5).allocation(ONE, 10).draw(SystemSource())
    assert float(high) == pytest.approx(0.19, abs=1e-9)


def test_parameters_that_print_alike_are_told_apart():
    """A snapshot of Zeta(2) does not restore onto Zeta(2.0000001)."""
    with pytest.raises(StateError):
        InOrder(Zeta("2.0000001"), ONE).restore(InOrder(Zeta(2), ONE).snapshot())


def test_auto_spends_within_its_bounds_and_resumes():
    """Whatever a release says, ε_t stays between ε/40 and ε, and a restored rule draws what the first one draws."""
    first, restored = Auto(ONE, 50), Auto(ONE, 50)
    rules = [first]
    rng = np.random.default_rng(0)
    assert first.draw(SystemSource()) == Epsilon.at_most("0.25")
    for step in range(200):
        drawn = [(rule.draw(SystemSource()), rule.share) for rule in rules]
        assert len(set(drawn)) == 1
        epsilon, share = drawn[0]
        assert Epsilon.at_most("0.0249").units <= epsilon.units <= ONE.units
        assert 0.7 <= share <= 1
        said = float(rng.choice([0.0, -5.0, 10.0, 1e6])), float(rng.uniform(1, 50))
        for rule in rules:
            rule.observe(*said)
        if step == 100:
            restored.restore(first.snapshot())
            rules.append(restored)


def test_options_out_of_range_are_refused():
    """Λ must be positive and finite, thresholds must be ordered."""
    for bad in (0, -1, float("inf"), 2**41):
        with pytest.raises(OptionError, match="`Lambda` must"):
            RBA(bad)
    with pytest.raises(OptionError, match="`small` must be below `large`"):
        Converging(Zeta(2), RBA.ranges(large="0.1", small="0.1")).allocation(ONE)


@given(st.sets(st.integers(1, 9000)), st.lists(st.integers(1, 9000), min_size=1, max_size=20))
def test_index_set_finds_the_nearest_gap(members, probes):
    """The nearest absent integer, up and down, is what a plain set says."""
    index_set = IndexSet()
    for member in members:
        index_set.add(member)
    for probe in probes:
        assert index_set.free_from(probe) == next(i for i in range(probe, 20_000) if i not in members)
        assert index_set.free_until(probe) == next((i for i in range(probe, 0, -1) if i not in members), 0)


def test_index_set_with_full_words():
    """Long runs fill whole words of several levels, and gaps behind them are still found."""
    index_set = IndexSet()
    for i in np.arange(1, 64 * 64 + 70):
        index_set.add(int(i))
    assert index_set.free_from(1) == 64 * 64 + 70
    assert index_set.free_until(64 * 64 + 69) == 0
    assert index_set.runs() == [[1, 64 * 64 + 69]]
