"""Budgets that people can read say what then happens, and nothing that releases do not say."""

from __future__ import annotations

import math

import pytest

import dpi
from dpi.noise import UnsafeSeededSource
from dpi.reader import Releases
from dpi.service._budgets import ASKED, DECLARED, LAST, find_budget
from dpi.store.spent import spent_in
from serving import MOMENT, SECOND, running, settings

DOMAIN = dpi.Categories(["a", "b"])


def played(slots, **options):
    """A stream in memory with some slots released, in which `ada` was in every one."""
    store = dpi.MemoryStore()
    default = {"domain": DOMAIN, "epsilon": 1, "slot": "1h", "start": "2026-01-01", "store": store, "name": "visits"}
    stream = dpi.Stream(**(default | {"unsafe_source": UnsafeSeededSource(3)} | options))
    releases = [stream.release(["ada", f"new {number}"], ["a", "b"]) for number in range(slots)]
    return stream, store, releases


def told(store):
    """What is said."""
    return find_budget(Releases(store, "visits", {}), spent_in(store))


@pytest.mark.parametrize("slots", [0, 1, 5])
@pytest.mark.parametrize(
    "budget",
    [
        dpi.Ledger(per_slot="0.15"),
        dpi.Ledger(per_slot="0.05", every=3),
        dpi.Converging(dpi.budget.Zeta(2)),
        dpi.Ledger(per_slot="0.05", policy=dpi.budget.fade()),
    ],
    ids=["constant", "every third", "series", "fade"],
)
def test_costs_that_are_declared_are_those_of_the_next_slots(slots, budget) -> None:
    """What the next slots cost is said to the last digit before they close; error bars are those of the plan."""
    stream, store, releases = played(slots, budget=budget)
    found = told(store)
    assert found.costs == DECLARED
    assert found.spent_at_most == (releases[-1].epsilon_spent if releases else 0)
    for each in found.next_slots:
        release = stream.release(["ada"], ["a"])
        assert (release.slot, release.epsilon) == (each.slot, each.cost)
        assert each.error_users == pytest.approx(math.log(20) / release.epsilon)
        assert each.begins == release.start_text


def test_an_old_user_counts_as_their_account_says() -> None:
    """Who was there in every slot has the weight that is said, and who is new has all of it."""
    stream, store, _ = played(6, budget=dpi.Ledger(per_slot="0.15"))
    found = told(store)
    left = float(stream._accounts.remaining(_users(["ada"]), stream.next_slot)[0])
    assert found.old_user.weight_at_most == pytest.approx(left / 0.15, rel=1e-6)
    assert found.old_user.cost == pytest.approx(left, rel=1e-6)
    assert (found.new_user.weight_at_most, found.new_user.cost) == (1.0, pytest.approx(0.15))
    assert "counts as 0.667 of a user" in " ".join(found.sentences)


@pytest.mark.parametrize("slots", [0, 1, 7, 20])
def test_by_the_clock_it_is_said_who_is_due_and_when(slots) -> None:
    """The classes that are due in the next slots, and the next payment of one who was always there."""
    stream, store, _ = played(slots)
    found = told(store)
    assert found.costs == ASKED
    first = stream.next_slot
    paid = stream._accounts.payments(_users(["ada", "nobody"]), first, "visits")
    assert (found.old_user.payments, found.new_user.payments) == tuple(paid)
    assert found.new_user.slot == first
    for each in found.next_slots:
        before = stream._accounts.payments(_users(["ada"]), each.slot, "visits")[0]
        release = stream.release(["ada"], ["a"])
        after = stream._accounts.payments(_users(["ada"]), each.slot + 1, "visits")[0]
        assert len(release.certificate["classes"]) == each.classes_due
        assert (after > before) == (each.slot == found.old_user.slot or (before > paid[0] and after > before))
    if found.old_user.slot <= found.next_slots[-1].slot:
        assert stream._accounts.payments(_users(["ada"]), stream.next_slot, "visits")[0] > paid[0]


def test_a_stream_of_many_users_says_that_all_are_due_in_every_slot() -> None:
    """Which classes wait, and for how long, is said as the last slots had it."""
    stream, store, _ = played(2)
    crowd = [f"user {number}" for number in range(40_000)]
    for _ in range(18):
        release = stream.release(crowd, ["a", "b"] * 20_000)
    due = {each["class"] for each in release.certificate["classes"]}
    found = told(store)
    assert due == set(range(max(due) + 1))
    assert [each.classes_due for each in found.next_slots] == [max(due) + 1] * len(found.next_slots)


def test_a_share_that_was_not_asked_for_yet_is_not_foretold() -> None:
    """Before the first slot that is known which newcomers pay; what others will be asked for, nobody knows."""
    stream, store, _ = played(0)
    found = told(store)
    assert found.next_slots[0].cost == found.new_user.cost == stream.release(["ada"], ["a"]).epsilon == 0.5
    old = told(store)
    assert (old.old_user.payments, old.old_user.cost) == (1, None)
    assert "pays what is asked then in slot" in " ".join(old.sentences)
    while stream.next_slot <= old.old_user.slot:
        last = stream.release(["ada"], ["a"])
    asked = {due["class"]: due["epsilon"] for due in last.certificate["classes"]}
    assert told(store).old_user.payments == 2
    assert told(store).old_user.cost == asked[2]


def test_quotas_are_told_and_costs_are_of_what_a_stream_holds() -> None:
    """A stream with a quota pays from that; one without, from what quotas leave."""
    options = {"domain": DOMAIN, "epsilon": 1, "slot": "1h", "start": "2026-01-01", "store": dpi.MemoryStore()}
    visits = dpi.Stream(**options, name="visits", budget=dpi.Ledger(quota="0.5", slots=5))
    orders = dpi.Stream(**options, name="orders", budget=dpi.Ledger(slots=4))
    for stream, holds in ((visits, 0.5), (orders, 0.5)):
        found = find_budget(Releases(options["store"], stream.name, {}), 0.0)
        assert (found.holds, found.quotas) == (holds, {"visits": 0.5})
        assert "0.5 to visits" in " ".join(found.sentences)
        for each in found.next_slots[:3]:
            assert stream.release(["ada"], ["a"]).epsilon == each.cost


def test_a_series_drawn_at_random_is_not_foretold() -> None:
    """Nobody knows what is drawn: before the first slot nothing is said, and then what the last one cost."""
    for slots in (0, 3):
        _, store, releases = played(slots, budget=dpi.Converging(dpi.budget.Zeta(2), draw=dpi.budget.RBA(4.0)))
        found = told(store)
        assert found.costs == LAST
        assert {each.cost for each in found.next_slots} == {releases[-1].epsilon if releases else None}
        assert found.sentences


def test_only_releases_that_are_seen_are_spoken_of() -> None:
    """What was released after the last one that is seen changes no byte of the answer."""
    stream, store, releases = played(6)
    before = find_budget(
        Releases(store, "visits", {}).between(None, releases[3].slot + 1),
        spent_in(store, {"visits": releases[3].slot}),
    ).document()
    for _ in range(3):
        stream.release(["ada", "bob"], ["a", "b"])
    after = find_budget(
        Releases(store, "visits", {}).between(None, releases[3].slot + 1),
        spent_in(store, {"visits": releases[3].slot}),
    ).document()
    assert before == after
    assert before["newest"] == releases[3].slot


def test_a_count_of_users_is_part_of_what_a_store_has_cost(tmp_path) -> None:
    """Its quota counts as soon as the release is seen that has its numbers, and not before."""
    with running(tmp_path, settings(people="0.2"), delay="1s") as found:
        found.clock.now = MOMENT + 5 * SECOND
        found.send([(f"user {user}", 1, "home") for user in range(40)], 0)
        client = found.client("analyst")
        found.set(10.5)
        assert client.get("/v1/streams/visits/budget").json()["spent_by_store"] == 0
        found.set(11)
        said = client.get("/v1/streams/visits/budget").json()
        with found.service.reading.store() as store:
            (link,) = [link for _, link in store.releases("visits users")]
        own, count = said["spent_at_most"], link.entry["epsilon_spent"]
        assert min(own, count) > 0
        assert said["spent_by_store"] == pytest.approx(own + count)


def _users(names):
    from dpi.events.identity import users

    return users(names)
