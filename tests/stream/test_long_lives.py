"""Books of long random lives: what slots measured, what accounts were debited and what the chain says, to the unit.

Every user has a bin of their own, so that a slot's histogram shows each user's weight w before noise is added. A slot
of ε_t then costs them ceil(ε_t · w) units, which is added up here by hand, with Python's integers. Nothing is random in
what is compared: there is no tolerance, and no false alarm.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import polars as pl
import pytest

import dpi
from clocked import separate
from dpi.budget.accounts import Accounts
from dpi.budget.class_allocation import ClassAllocation
from dpi.budget.classes import level
from dpi.budget.epsilon import UNITS, Epsilon
from dpi.noise import UnsafeSeededSource
from dpi.store.ledger_session import stored_accounts
from dpi.testing.class_sums import ClassSums
from dpi.verification import check_accounts, verify

GRAINS = 1 << 24
USERS = [f"user {number}" for number in range(5)]
DOMAIN = dpi.Categories(USERS, other=None)
SHARE = Fraction(1, 64)
SLOTS = 500 if os.environ.get("DPI_SLOW") else 160
"""Of a life: more than the accounts pay in full."""


@dataclass(frozen=True)
class Spy(ClassSums):
    """Sums by class that note what is measured: (units of ε, grains of each user), for each group of classes."""

    seen: ClassVar[list[tuple[int, list[int]]]] = []

    def request_payments(self, state, slot):
        """Small shares, so that users pay hundreds of times; more of the first."""
        return separate([2 * SHARE, *[SHARE] * level(slot, state.classes - 1)])

    def measure(self, state, histogram, epsilon, slot, source):
        """Note and measure."""
        self.seen[:] = [(epsilon.units, histogram.grains.tolist())]
        return super().measure(state, histogram, epsilon, slot, source)

    def measure_classes(self, state, histogram, groups, slot, source):
        """Note and measure."""
        rows = zip(groups, histogram.by_group, strict=True)
        noted = [(group.epsilon.units, grains.tolist()) for group, grains in rows]
        measurement = super().measure_classes(state, histogram, groups, slot, source)
        self.seen[:] = noted
        return measurement


def opened(store, name="", budget=None, **options):
    """A stream of a store."""
    source = UnsafeSeededSource(7)
    return dpi.Stream(
        domain=DOMAIN,
        epsilon=1,
        budget=budget,
        mechanism=Spy(),
        store=store,
        name=name,
        unsafe_source=source,
        **options,
    )


class Life:
    """Who is there: users who stay, who come in spells, who come rarely, and one who comes late."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.odds = [1.0, self.chance.uniform(0.3, 0.9), self.chance.uniform(0.02, 0.1), 0.5, 0.9]
        self.away = [0] * len(USERS)

    def users(self, slot):
        """Those of a slot; one in fifty slots has nobody."""
        if self.chance.random() < 0.02:
            return []
        there = []
        for number, user in enumerate(USERS):
            if self.chance.random() < 0.01:
                self.away[number] = slot + self.chance.randrange(40) * (number > 0)
            if self.away[number] <= slot and (number < 4 or slot > 60) and self.chance.random() < self.odds[number]:
                there.append(user)
        return there


def close(stream, users):
    """Release a slot; what each user was measured with: (units of ε, grains), one for each class they are in."""
    release = stream.release(users, users)
    found = defaultdict(list)
    for units, grains in Spy.seen:
        for user, weight in zip(USERS, grains, strict=True):
            if weight:
                found[user].append((units, weight))
    assert set(found) <= set(users)
    assert all(len(measured) == 1 for measured in found.values())  # a user is in one class
    return release, {user: measured[0] for user, measured in found.items()}


def debit(units, weight):
    """What a weight costs."""
    return -(-units * weight // GRAINS)


def spent(store, ledger, slot=0):
    """What each user has spent from some accounts as the store has them, in units."""
    accounts = stored_accounts(store, ledger)
    return [int((accounts.held.fraction - left) * UNITS) for left in accounts.remaining(pl.Series(USERS), slot)]


def entries(store, name=""):
    """The releases of a stream in the chain."""
    links = (link.entry for link in store.links())
    return [entry for entry in links if entry["kind"] == "release" and entry["stream"] == name]


BY_COST = {
    "an amount a slot": dpi.Ledger(per_slot=Fraction(1, 90)),
    "an amount that does not divide": dpi.Ledger(per_slot="0.0117"),
    "a number of slots": dpi.Ledger(slots=80),
    "most in every fifth slot": dpi.Ledger(slots=80, every=5),
    "in as few slots as drift allows": dpi.Ledger(slots=80, every="auto"),
    "by the transcript": dpi.Ledger(policy=dpi.budget.spend_first),
    "weights that fade": dpi.Ledger(per_slot="0.1", policy=dpi.budget.fade(dpi.budget.LogSquared())),
    "nobody returns": dpi.Ledger(returning=False),
}


@pytest.mark.parametrize("budget", BY_COST.values(), ids=BY_COST.keys())
def test_debits_are_what_was_measured_and_what_the_chain_says(budget):
    """Slot by slot: each account has spent the sum of its debits, the chain min(ε, Σ ε_t), nobody more than that."""
    store, life = dpi.MemoryStore(secret=bytes(32)), Life(repr(budget))
    stream = opened(store, budget=budget)
    owed, lost, total = dict.fromkeys(USERS, 0), dict.fromkeys(USERS, Fraction(0)), 0
    for slot in range(SLOTS):
        release, measured = close(stream, life.users(slot))
        for user, (units, weight) in measured.items():
            owed[user] += debit(units, weight)
            lost[user] += Fraction(units * weight, GRAINS)
        total += release.certificate["epsilon_units"]
        assert release.certificate["epsilon_spent_units"] == min(UNITS, total)
        if slot % 10 == 9:
            assert spent(store, "") == list(owed.values())
        assert max(owed.values()) <= min(UNITS, total)
    assert all(lost[user] <= owed[user] for user in USERS)
    _check(store, {"": total})


@pytest.mark.parametrize("top", [1, 3, 20])
def test_debits_by_class_are_what_was_measured_and_the_chain_bounds_them(top):
    """The chain's ε spent is the recursion of `dpi.budget.classes` on its own shares, and no account is above it."""
    store, life = dpi.MemoryStore(secret=bytes(32)), Life(top)
    stream = opened(store, budget=dpi.Ledger(policy=dpi.budget.clocked(top)))
    owed, paid, most = dict.fromkeys(USERS, 0), dict.fromkeys(USERS, 0), {0: 0}
    for slot in range(SLOTS):
        users = life.users(slot)
        release, measured = close(stream, users)
        due = release.certificate["classes"]
        assert len(due) == level(slot, top) + 1
        for user in users:  # a user pays if their class is due, as long as they have a grain's worth left
            units, weight = measured.get(user, (0, 0))
            assert units == (due[min(paid[user], top)]["epsilon_units"] if weight else 0)
            assert (min(paid[user], top) < len(due)) >= (weight > 0)
            owed[user] += debit(units, weight)
            paid[user] += weight > 0
        for m in sorted(most, reverse=True):
            if m < len(due):
                after = most[m] + (UNITS - most[m]) * due[m]["share_steps"] // 4096
                most[min(m + 1, top)] = max(most.get(min(m + 1, top), 0), after)
        assert release.certificate["epsilon_spent_units"] == max(most.values())
        if slot % 10 == 9:
            assert spent(store, "") == list(owed.values())
            assert stored_accounts(store, "").payments(pl.Series(USERS), slot, "") == list(paid.values())
        assert max(owed.values()) <= max(most.values())
    assert top > 1 or max(paid.values()) > SLOTS * 2 // 5
    _check(store, {})


SERIES = {
    "in order": dpi.Converging(dpi.budget.Zeta(2)),
    "by RBA": dpi.Converging(dpi.budget.Zeta(2), dpi.budget.RBA(4)),
    "slowly": dpi.Converging(dpi.budget.LogSquared()),
    "geometric": dpi.Converging(dpi.budget.Geometric(0.99)),
}


@pytest.mark.parametrize("budget", SERIES.values(), ids=SERIES.keys())
def test_a_series_costs_everybody_what_the_chain_says(budget):
    """Everybody has weight one in every slot, and the chain's ε spent is the sum of the slots' ε, at most ε."""
    store, life, total = dpi.MemoryStore(secret=bytes(32)), Life(3), 0
    stream = opened(store, budget=budget)
    for slot in range(SLOTS):
        users = life.users(slot)
        release, measured = close(stream, users)
        stated = release.certificate["epsilon_units"]
        assert measured == (dict.fromkeys(users, (stated, GRAINS)) if stated else {})
        total += stated
        assert release.certificate["epsilon_spent_units"] == total <= UNITS
    _check(store, {"": total})


def test_a_refill_counts_every_epoch():
    """Debits add up within an epoch; the chain says the sum of what every epoch can have cost."""
    store, life, period = dpi.MemoryStore(secret=bytes(32)), Life(4), 50
    stream = opened(store, budget=dpi.Ledger(per_slot=Fraction(1, 40), period=period))
    owed, cost = dict.fromkeys(USERS, 0), UNITS // 40
    for slot in range(SLOTS):
        if slot % period == 0:
            owed = dict.fromkeys(USERS, 0)
        release, measured = close(stream, life.users(slot))
        for user, (units, weight) in measured.items():
            assert units == cost
            owed[user] += debit(units, weight)
        if slot % 10 == 9:
            assert spent(store, "", slot) == list(owed.values())
        assert release.certificate["epsilon_spent_units"] == min((slot + 1) * cost, -(-(slot + 1) // period) * UNITS)
        assert max(owed.values()) <= min(UNITS, (slot % period + 1) * cost)
    _check(store, {})


@pytest.mark.parametrize("seed", range(2))
def test_quotas_that_grow_and_the_rest_add_up_to_what_the_chain_says(seed, tmp_path):
    """Four streams of a store on disk: by class and by cost, with quotas and two without, and a quota that grows."""
    life, chance = Life(seed), random.Random(seed)
    small, clocked = {"per_slot": Fraction(1, 200)}, {"policy": dpi.budget.clocked(2)}
    with dpi.open_store(tmp_path / "visits.db") as store:
        budgets = {
            "one": dpi.Ledger(**small, quota="0.25"), "two": dpi.Ledger(**clocked, quota="0.125"),
            "rest": dpi.Ledger(**small), "other": dpi.Ledger(**small),
        }  # fmt: skip
        streams = {name: opened(store, name, budget) for name, budget in budgets.items()}
        ledgers = {name: str(stream.setting.accounts) for name, stream in streams.items()}
        assert sorted(set(ledgers.values())) == ["", "quota one", "quota two"]
        owed = {ledger: dict.fromkeys(USERS, 0) for ledger in ledgers.values()}
        totals = dict.fromkeys(budgets, 0)
        for step in range(SLOTS):
            if step == SLOTS // 2:
                streams["one"] = opened(store, "one", dpi.Ledger(**small, quota="0.375"), change="next")
            name = chance.choice(list(streams))
            release, measured = close(streams[name], life.users(step))
            for user, (units, weight) in measured.items():
                owed[ledgers[name]][user] += debit(units, weight)
            stated = release.certificate
            totals[name] += stated["epsilon_units"]
            if name != "two":
                assert stated["epsilon_spent_units"] == min(stated.get("epsilon_quota_units", UNITS), totals[name])
            if step % 20 == 19:
                said = dict.fromkeys(owed, 0)
                for each in streams:
                    chained = entries(store, each)
                    said[ledgers[each]] += chained[-1]["epsilon_spent_units"] if chained else 0
                for ledger, users in owed.items():
                    assert spent(store, ledger) == list(users.values())
                    assert max(users.values()) <= said[ledger]
        for user in USERS:
            assert sum(users[user] for users in owed.values()) <= UNITS
        assert max(owed["quota one"].values()) > 0
        assert verify(store).problems == ()
        assert check_accounts(store) == ()


POLICIES = {
    "spent first": dpi.budget.spend_first,
    "fading": dpi.budget.fade(dpi.budget.Zeta(1.2)),
    "clocked": dpi.budget.clocked(3),
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
def test_thousands_of_debits_add_up_to_what_accounts_have_spent(policy):
    """Accounts alone: one stream by class where the policy has classes, another with costs of any size."""
    chance, life = random.Random(repr(policy)), Life(repr(policy))
    accounts = Accounts(Epsilon(UNITS), key=bytes(32), policy=policy)
    allocation = ClassAllocation(Epsilon(UNITS), 3)
    owed, paid = dict.fromkeys(USERS, 0), dict.fromkeys(USERS, 0)
    for slot in range(5 * SLOTS):
        users, options, stream = life.users(slot), {}, "cost"
        cost = Epsilon(chance.choice((1, 999, chance.randrange(1, UNITS // 1_300), UNITS // 1_000)))
        if policy == dpi.budget.clocked(3) and chance.random() < 0.5:
            cost, stream = allocation.draw_classes(slot, separate([SHARE] * (level(slot, 3) + 1))), "class"
            options = {"groups": allocation.groups}
        elif chance.random() < 0.2:
            options = {"share": Fraction(chance.randrange(1, 4097), 4096), "whole": chance.random() < 0.3}
        bill = accounts.bill(pl.Series(users, dtype=pl.String), cost, slot, stream=stream, **options)
        members = [None] * len(users) if bill.group_index is None else bill.group_index.tolist()
        for user, weight, member in zip(users, bill.weights.tolist(), members, strict=True):
            owed[user] += debit(cost.units if member is None else allocation.groups[member].epsilon.units, weight)
            paid[user] += weight > 0
        accounts.debit(bill)
        if slot % 25 == 0 or slot > 5 * SLOTS - 10:
            left = accounts.remaining(pl.Series(USERS), slot)
            assert [UNITS * (1 - each) for each in left] == list(owed.values())
    assert max(owed.values()) <= UNITS
    assert max(paid.values()) > 2 * SLOTS


def _check(store, totals):
    """The chain is intact; its last entries state what was added up, and the store remembers the same."""
    assert verify(store).problems == ()
    for name, total in totals.items():
        chained = entries(store, name)
        assert sum(entry["epsilon_units"] for entry in chained) == total
        assert chained[-1]["epsilon_spent_units"] == min(UNITS, total)
        assert store.reached(name) == (len(chained) - 1, total)
