"""Slots close by the public clock, in order, with every batch that was received before their moment."""

import threading
import time

import numpy as np
import pytest

import dpi
from dpi.service import _decoding as decoding
from dpi.service._publication import Publication
from dpi.service._receipts import Receipts
from serving import BEGIN, FIRST, MOMENT, SECOND, SLOT, SetClock, running, settings


def counted(found, stream="visits"):
    """Users whom each slot's rows had, before noise, as the stream saw them."""
    return {slot: users for name, slot, users in found.seen if name == stream}


@pytest.fixture
def watched(monkeypatch):
    """What every slot was closed with, for the test alone: (stream, slot, users)."""
    seen = []
    from dpi.stream.slot_closer import SlotCloser

    close = SlotCloser.close

    def noting(self, number, rows):
        seen.append((self.newest.name, number, len(np.unique(rows.names, axis=0))))
        return close(self, number, rows)

    monkeypatch.setattr(SlotCloser, "close", noting)
    return seen


def test_slots_close_after_downtime_in_order(tmp_path, watched):
    """All slots that the clock has passed are released, one after the other, over all streams by their closing time."""
    streams = settings(), settings(name="often", slot="5s")
    with running(tmp_path, *streams) as found:
        found.clock.now += SECOND
        assert found.send([("ada", 0.5, "home")], 0).status_code == 200
        found.set(10)
    begun = list(watched)
    with running(tmp_path, *streams, now=MOMENT + 60 * SECOND) as found:
        found.closed()
    expected = sorted(
        [((n + 1) * SLOT, "visits", n) for n in range(FIRST, FIRST + 6)]
        + [((n + 1) * SLOT // 2, "often", n) for n in range(2 * FIRST, 2 * FIRST + 12)]
    )
    assert [(name, slot) for name, slot, _ in watched] == [(name, slot) for _, name, slot in expected]
    assert len(begun) == 3
    assert {slot: users for name, slot, users in watched if name == "visits"}[FIRST] == 1


def test_a_slot_waits_for_what_was_received_before_its_moment(tmp_path, watched, monkeypatch):
    """A batch that takes long to decode is in its slot; one that is received later is not, however quick it is."""
    held, go_on = threading.Event(), threading.Event()
    decoded = decoding.read_batch

    def slow(body, *more):
        if b"slow" in body:
            held.set()
            assert go_on.wait(30)
        return decoded(body, *more)

    monkeypatch.setattr(decoding, "read_batch", slow)
    with running(tmp_path) as found:
        found.clock.now = MOMENT + 9 * SECOND
        answers = []
        rows = [("slow user", 5.0, "home")]
        sending = threading.Thread(target=lambda: answers.append(found.send(rows, 0, "slow").status_code))
        sending.start()
        assert held.wait(30)
        found.clock.now = MOMENT + 10 * SECOND
        found.service.closing.call(lambda: None).result(30)
        assert found.send([("late user", 9.0, "home"), ("next user", 10.0, "home")], 0, "quick").status_code == 200
        assert found.service.closing.call(lambda: watched.copy()).result(30) == []  # it was looked at, and waits
        go_on.set()
        sending.join(30)
        found.set(20)
        assert answers == [200]
    assert [(slot, users) for _, slot, users in watched] == [(FIRST, 1), (FIRST + 1, 1)]


def test_a_flood_by_one_user_displaces_nobody(tmp_path, watched):
    """However many events one user sends, in however many batches, the others are counted in their slots."""
    with running(tmp_path) as found:
        found.clock.now = MOMENT + 5 * SECOND
        flood = [("eve", 1.0, "home")] * 20_000
        threads = [
            threading.Thread(target=lambda part=part: found.send(flood, 0, f"flood {part}")) for part in range(8)
        ]
        for thread in threads:
            thread.start()
        assert found.send([(f"user {n}", 2.0, "search") for n in range(50)], 0).status_code == 200
        found.clock.now = MOMENT + 10 * SECOND
        for thread in threads:
            thread.join(60)
        found.set(10)
        assert [(slot, users) for _, slot, users in watched] == [(FIRST, 51)]


def test_a_clock_that_is_set_back_stands_still(tmp_path, watched):
    """What has closed stays closed, and no batch is stamped before it; forth again, all goes on."""
    with running(tmp_path) as found:
        found.set(20)
        assert [slot for _, slot, _ in watched] == [FIRST, FIRST + 1]
        found.set(3)
        assert found.send([("old", 2.0, "home"), ("new", 20.0, "home")], 0).status_code == 200
        found.set(40)
    assert [(slot, users) for _, slot, users in watched] == [
        (FIRST, 0), (FIRST + 1, 0), (FIRST + 2, 1), (FIRST + 3, 0),
    ]  # fmt: skip


def test_a_clock_that_jumps_forth_and_back_shows_nothing_twice(tmp_path, watched):
    """Five minutes ahead, all slots close in order; set back, what was seen stays seen, and nothing is closed again."""
    with running(tmp_path) as found:
        client = found.client("analyst")
        found.set(300)
        found.clock.now += 2 * SECOND
        seen = client.get("/v1/streams/visits").json()
        assert (seen["number"], seen["first"], seen["newest"]) == (30, FIRST, FIRST + 29)
        newest = client.get("/v1/streams/visits/releases/newest").content
        for seconds in (5, 0, 150, 299):
            found.set(seconds)
            assert client.get("/v1/streams/visits").json() == seen
            assert client.get("/v1/streams/visits/releases/newest").content == newest
            assert found.send([("eve", seconds, "home")], 0, f"at {seconds}").status_code == 200  # and too late
        assert found.send([("ada", 300, "home")], 0, "after").status_code == 200
        found.set(310)
        found.clock.now += 2 * SECOND
        assert client.get("/v1/streams/visits").json()["number"] == 31
    assert [slot for _, slot, _ in watched] == list(range(FIRST, FIRST + 31))
    assert [users for _, _, users in watched] == [0] * 30 + [1]


def test_a_release_is_seen_at_its_delay_and_not_before(tmp_path):
    """A slot that is closed long since is not there before its public moment: nowhere an analyst can look."""
    with running(tmp_path, delay="2s") as found:
        client = found.client("analyst")
        found.set(10)
        assert found.service.store.reached("visits")[0] == FIRST
        for seconds, seen in ((10, 0), (11.999, 0), (12, 1)):
            found.clock.now = MOMENT + round(seconds * SECOND)
            assert len(client.get("/v1/streams/visits/releases").json()["releases"]) == seen
            assert client.get(f"/v1/streams/visits/releases/{FIRST}").status_code == (200 if seen else 404)
            assert client.get("/v1/streams/visits/releases/newest").status_code == (200 if seen else 404)
            assert client.get("/v1/streams/visits/answers/total").status_code == (200 if seen else 404)
            told = client.get("/v1/streams/visits").json()
            assert (told["number"], told["newest"]) == (seen, FIRST if seen else None)
            chain = client.get("/v1/chain").json()
            assert [json_kind(each) for each in chain["entries"]].count("release") == seen


@pytest.mark.parametrize("origin", ["1970-01-01", BEGIN])
def test_no_release_is_readable_before_its_tick(tmp_path, origin):
    """Neither the first nor one after others, whatever the numbers of slots: each waits for its own moment."""
    with running(tmp_path, settings(origin=origin), delay="2s") as found:
        client, first = found.client("analyst"), 0 if origin == BEGIN else FIRST
        for slot in range(3):
            found.set(10 * (slot + 1))
            assert found.service.store.reached("visits")[0] == first + slot
            for late, seen in ((0, slot), (1.999, slot), (2, slot + 1)):
                found.clock.now = MOMENT + round((10 * (slot + 1) + late) * SECOND)
                told = client.get("/v1/streams/visits/releases").json()["releases"]
                assert [each["slot"] for each in told] == list(range(first, first + seen))
                extent = client.get("/v1/streams/visits").json()
                assert (extent["number"], extent["newest"]) == (seen, first + seen - 1 if seen else None)
                assert client.get(f"/v1/streams/visits/releases/{first + slot}").status_code == (
                    200 if seen > slot else 404
                )
                with found.service.reading.releases("visits") as releases:
                    assert [each.slot for each in releases] == list(range(first, first + seen))


def json_kind(entry):
    """What an entry of the chain is about."""
    return "release" if '"release"' in entry["text"] else "other"


def test_after_a_restart_a_release_waits_for_its_moment(tmp_path):
    """One that was stored and not yet seen when the program ended is seen when it would have been, or a tick later."""
    with running(tmp_path, delay="4s") as found:
        found.set(10)
    with running(tmp_path, delay="4s", now=MOMENT + 11 * SECOND) as found:
        assert found.service.publication.upto("visits") is None
        assert found.service.publication.entry == 0
        found.clock.now = MOMENT + 14 * SECOND
        assert found.service.publication.upto("visits") == FIRST
    with running(tmp_path, delay="4s", now=MOMENT + 15 * SECOND) as found:
        assert found.service.publication.upto("visits") == FIRST
        assert found.service.publication.entry == 1


def test_a_slot_that_was_paid_for_and_not_released_waits_for_a_tick(tmp_path, monkeypatch):
    """The program ended between the two: the release that is made on coming back is seen at a tick, not at once."""

    def fails(*_, **__):
        raise dpi.StoreError("the store is gone.")

    with running(tmp_path, delay="4s") as found:
        monkeypatch.setattr(type(found.service.store), "publish", fails)
        found.clock.now = MOMENT + 10 * SECOND
        found.service.closing.call(lambda: None)
        deadline = time.monotonic() + 30
        while found.service.store.pending("visits") is None and time.monotonic() < deadline:
            time.sleep(0.01)
    monkeypatch.undo()
    with running(tmp_path, delay="4s", now=MOMENT + 19 * SECOND) as found:
        assert found.service.store.reached("visits")[0] == FIRST
        assert found.service.publication.upto("visits") is None
        found.clock.now = MOMENT + 22 * SECOND
        assert found.service.publication.upto("visits") == FIRST


@pytest.mark.parametrize("late", range(12))
def test_late_releases_wait_for_the_next_tick(late):
    """Dues are whole numbers of delays after the closing, at or after the release is ready, and in order.

    A late release delays none that comes after it in the chain: it is seen with that one at the latest.
    """
    clock = SetClock(0)
    seen = Publication(clock, delay=3)
    dues = [seen.ready("a", 1, 1, 10, at=10 + late).due, seen.ready("b", 1, 2, 11, at=11).due]
    assert (dues[0] - 10) % 3 == 0
    assert max(13, 10 + late) <= dues[0] < 10 + max(late, 1) + 3
    assert dues[1] == 14
    dues[0] = min(dues)
    for moment in range(10, 40):
        clock.now = moment
        assert (seen.upto("a") == 1) == (moment >= dues[0])
        assert (seen.upto("b") == 1) == (moment >= dues[1])
        assert seen.entry == (2 if moment >= dues[1] else 1 if moment >= dues[0] else -1)


def test_an_entry_that_is_no_release_is_seen_with_what_stands_before_it():
    """A stream that is opened while a release waits comes after it in the chain, and is seen with it."""
    clock = SetClock(0)
    seen = Publication(clock, delay=10)
    seen.declared(0)
    assert seen.entry == 0
    seen.ready("a", 1, 1, 100, at=100)
    seen.declared(2)
    dues = []
    seen.listen(dues.append)
    assert dues == [110, 110]
    assert seen.entry == 0
    clock.now = 110
    assert (seen.entry, seen.upto("a")) == (2, 1)


def test_a_receipt_holds_a_slot_until_it_is_done():
    """A moment is never before one that was settled, and a slot waits for heads before its own moment alone."""
    clock = SetClock(100)
    receipts = Receipts(clock)
    first = receipts.arrive()
    assert receipts.settled("visits", 95)
    clock.now = 90
    second = receipts.arrive()
    assert (first.moment, second.moment, receipts.read_clock()) == (100, 95, 90)
    receipts.assign(first, "visits")
    receipts.assign(second, "visits")
    assert receipts.settled("visits", 95)
    assert not receipts.settled("visits", 100)
    assert not receipts.settled("visits", 101)
    assert receipts.settled("clicks", 101)
    assert (receipts.arrive().moment, receipts.read_clock()) == (101, 90)
    first.settle()
    assert not receipts.settled("visits", 101)
    second.settle()
    assert receipts.settled("visits", 101)
    assert not receipts.settled("visits", 102)


def test_all_streams_wait_for_a_request_until_it_is_understood():
    """Whom it is for is known when its token is checked; then the slots of others wait no longer."""
    receipts = Receipts(SetClock(100))
    receipt = receipts.arrive()
    assert [receipts.settled(name, 101) for name in ("visits", "clicks")] == [False, False]
    receipts.assign(receipt, "clicks")
    assert [receipts.settled(name, 101) for name in ("visits", "clicks")] == [True, False]


def test_a_release_that_is_in_time_is_not_seen_sooner_for_a_late_one():
    """What is late gives way: it waits for those before it in the chain, and these for their own tick."""
    clock = SetClock(0)
    seen = Publication(clock, delay=10)
    assert seen.ready("a", 1, 1, 100, at=101).due == 110
    assert seen.ready("late", 1, 2, 57, at=102).due == 117
    assert seen.ready("b", 1, 3, 103, at=104).due == 113
    for moment, a, late, b in ((109, None, None, None), (110, 1, None, None), (112, 1, None, None), (113, 1, 1, 1)):
        clock.now = moment
        assert (seen.upto("a"), seen.upto("late"), seen.upto("b")) == (a, late, b)


def test_nothing_is_seen_before_its_moment_where_slots_have_negative_numbers(tmp_path):
    """Slots are counted from an origin that may lie in the future."""
    with running(tmp_path, settings(origin="2030-01-01"), delay="5s") as found:
        found.set(10.5)
        assert found.client("analyst").get("/v1/streams/visits/releases/newest").status_code == 404
        assert found.client("analyst").get("/v1/streams/visits").json()["newest"] is None
        found.set(15.5)
        assert found.client("analyst").get("/v1/streams/visits/releases/newest").status_code == 200
