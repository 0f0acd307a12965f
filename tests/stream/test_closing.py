"""The steps that close a slot: the budget is drawn once, and what is made of a paid slot is a function."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import dpi
from dpi.budget.allocation import NearestUnused
from dpi.errors import StoreError
from dpi.events.rows import Rows
from dpi.noise import UnsafeSeededSource
from dpi.stream.closing import Offer, measure, release_slot
from dpi.stream.prefix_tree import PrefixTree
from dpi.stream.state import StreamState
from played_rows import weighed

DOMAIN = dpi.Categories(["a", "b", "c"], other=None)
RANDOM = dpi.Converging(dpi.budget.Zeta(2), draw=dpi.budget.RBA(4.0))


def stream(**options) -> dpi.Stream:
    """A small stream of random budgets, with a reproducible source."""
    defaults = {"domain": DOMAIN, "epsilon": 1, "budget": RANDOM, "unsafe_source": UnsafeSeededSource(1)}
    return dpi.Stream(**(defaults | options))


def raising(error: type[BaseException]):
    """A method that does nothing but fail."""

    def method(*_: object) -> None:
        raise error

    return method


@pytest.fixture
def drawn(monkeypatch) -> list[float]:
    """All budgets that are drawn."""
    budgets, draw = list[float](), NearestUnused.draw

    def noting(self, source):
        budget = draw(self, source)
        budgets.append(float(budget))
        return budget

    monkeypatch.setattr(NearestUnused, "draw", noting)
    return budgets


@pytest.mark.parametrize("error", [StoreError, KeyboardInterrupt])
def test_a_slot_that_could_not_be_paid_for_keeps_its_budget(drawn, monkeypatch, error) -> None:
    """However often the payment fails, a slot's budget is drawn once, and the slots after it have others."""
    opened = stream()
    for slot in range(4):
        with monkeypatch.context() as patch:
            patch.setattr(opened.store, "pay", raising(error))
            for _ in range(3):
                with pytest.raises(error):
                    opened.release(["x"], ["a"], slot=slot)
        assert opened.release(["x"], ["a"], slot=slot).epsilon == drawn[-1]
        assert len(drawn) == slot + 1
    assert len(set(drawn)) == 4


@pytest.mark.parametrize("method", ["publish", "testify"])
def test_a_slot_that_was_paid_for_uses_its_budget_up(drawn, monkeypatch, method) -> None:
    """The slot after one that was interrupted behind its payment has a budget of its own."""
    opened = stream(store=dpi.MemoryStore())
    with monkeypatch.context() as patch:
        patch.setattr(opened.store, method, raising(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            opened.release(["x"], ["a"], slot=0)
    assert opened.release(["x"], ["a"], slot=1).epsilon == drawn[1]
    assert opened.released(0).epsilon == drawn[0] != drawn[1]
    assert len(drawn) == 2


def test_a_budget_for_a_slot_that_another_has_closed_is_dropped(drawn) -> None:
    """Of two objects of one stream the slower draws anew for the next slot: its element stays with nobody."""
    store = dpi.MemoryStore()
    one, two = stream(store=store), stream(store=store, unsafe_source=UnsafeSeededSource(2))
    first = one.release(["x"], ["a"])
    with pytest.raises(StoreError):
        two.release(["x"], ["a"], slot=0)
    second = two.release(["x"], ["a"], slot=1)
    assert [first.epsilon, second.epsilon] == [drawn[0], drawn[2]]
    assert len(drawn) == 3


SLOTS = [(["ada", "bob", "ada"], [0, 1, 2]), ([], []), (["bob", "eve"], [2, 2]), (["ada", "eve"], [1, 1])]
BUDGETS = [dpi.Ledger(), dpi.Ledger(per_slot="0.4", every=2), RANDOM]


def rows(users: list[str], bins: list[int], key: bytes) -> Rows:
    """The rows of a slot."""
    return Rows.of(users, np.array(bins, dtype=np.int64), key)


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_the_steps_alone_make_the_bytes_of_a_stream(budget) -> None:
    """Whoever drives the steps in their order ends in the releases, states and accounts of a `Stream`."""
    key, tree = bytes(range(32)), PrefixTree(per_slot="0.001")
    opened = stream(store=dpi.MemoryStore(key), budget=budget, accumulate=tree)
    options, source, budget = opened.setting, UnsafeSeededSource(1), opened.budget
    state, allocation = StreamState.initial(options, source), options.allocation()
    accounts = budget.accounts(options.epsilon, key) if isinstance(budget, dpi.Ledger) else None
    for slot, (users, bins) in enumerate(SLOTS):
        offer = Offer.draw(state, allocation, slot, source)
        clean, charge = weighed(options, rows(users, bins, key), accounts, offer, slot)
        paid = measure(state, clean, offer, slot, source)
        if accounts is not None:
            accounts.apply(charge)
        made = release_slot(state, paid, opened.guarantee, whole=True)
        allocation.observe(made.users, made.bins)
        state = made.state
        release = opened.release(users, ["abc"[code] for code in bins])
        assert made.release.content() == release.content()
    kept = opened.store.progress("")
    assert kept.mechanism() == state.progress(allocation).mechanism()
    assert (kept.accumulated, kept.tree) == (state.accumulation.to_bytes(), state.tree.to_bytes())
    if accounts is not None:
        everyone = pl.Series(["ada", "bob", "eve"])
        assert accounts.remaining(everyone, 4) == opened._accounts.remaining(everyone, 4)


def test_a_step_changes_nothing_that_it_is_given() -> None:
    """Weighing, measuring and releasing leave accounts and state as they are, and can be done again."""
    opened = stream(budget=dpi.Ledger(per_slot="0.4"))
    options, accounts, source = opened.setting, opened._accounts, UnsafeSeededSource(3)
    state = StreamState.initial(options, source)
    offer = Offer.draw(state, options.allocation(), 0, source)
    everyone = pl.Series(["ada", "bob", "eve"])
    before, remembered = accounts.remaining(everyone, 0), options.mechanism.to_bytes(state.state)
    twice = [weighed(options, rows(*SLOTS[0], opened.store.key), accounts, offer, 0) for _ in range(2)]
    assert [charge.records() for _, charge in twice] == [twice[0][1].records()] * 2
    assert (twice[0][0].grains == twice[1][0].grains).all()
    paid = measure(state, twice[0][0], offer, 0, source)
    contents = [release_slot(state, paid, "").release.content() for _ in range(2)]
    assert contents[0] == contents[1]
    assert accounts.remaining(everyone, 0) == before
    assert options.mechanism.to_bytes(state.state) == remembered
    assert state.last is None


def test_no_noise_is_drawn_for_a_charge_that_cannot_be_paid(monkeypatch) -> None:
    """What the accounts refuse is refused before the slot is measured, so that it says nothing of the noise."""
    opened = stream(budget=dpi.Ledger(per_slot="0.4"))
    monkeypatch.setattr(opened._accounts, "charge", raising(MemoryError))
    monkeypatch.setattr(dpi.Boosted, "measure", raising(AssertionError))
    with pytest.raises(MemoryError):
        opened.release(["x"], ["a"])
