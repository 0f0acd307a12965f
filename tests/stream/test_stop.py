"""A stream that is stopped: nothing more is released of it, ever, and what was spent stays spent."""

import json

import pytest

import dpi
from dpi.verification._entries import Streams
from dpi.verification._store import verify

HOURS = {"domain": dpi.Categories(["a", "b"]), "epsilon": 1, "slot": "1h", "start": "2026-01-01"}
FIRST = 490_896
"""The slot with which it begins."""


@pytest.fixture(params=["memory", "sqlite"])
def reopen(request, tmp_path):
    """Opens the same store again."""
    kept = dpi.MemoryStore()
    return lambda: kept if request.param == "memory" else dpi.open_store(tmp_path / "visits.db")


def feed(stream, hours, now):
    """Keep an event in each of these hours."""
    times = [f"2026-01-01T{hour:02}:30" for hour in hours]
    stream.append(["ada"] * len(times), times, ["a"] * len(times), now=now)


def spent(store):
    """What all accounts of the shared ledger have paid."""
    return store.load_ledger("", store.ledgers()[""])[0]


def test_a_stopped_stream_releases_nothing_more(reopen):
    """Neither in this process nor in the next; its releases stay, and its chain is whole."""
    store = reopen()
    stream = dpi.Stream(**HOURS, store=store, name="visits")
    feed(stream, [0, 1, 2, 3], now="2026-01-01T03:40")
    assert [release.slot for release in stream.advance("2026-01-01T02:00")] == [FIRST, FIRST + 1]
    paid, before = spent(store), stream.released(FIRST).to_json()
    stream.stop()
    for again in (stream, dpi.Stream.of(store, "visits")):
        assert again.stopped
        assert list(again.advance("2027-01-01")) == []
        with pytest.raises(dpi.StateError, match="the stream was stopped"):
            feed(again, [3], now="2026-01-01T03:50")
        with pytest.raises(dpi.StateError, match="the stream was stopped"):
            again.release(["ada"], ["a"])
        with pytest.raises(dpi.StateError, match="the stream was stopped"):
            again.stop()
    if store.durable:
        store.close()
    store = reopen()
    for change in (False, True, "next"):
        with pytest.raises(dpi.StateError, match="the stream was stopped"):
            dpi.Stream(**HOURS, store=store, name="visits", change=change)
    found = dpi.Stream.of(store, "visits")
    assert found.stopped
    assert list(found.advance("2027-01-01")) == []
    assert found.released(FIRST).to_json() == before
    assert spent(store) == paid
    assert [store.events("visits", FIRST + n).counts.size for n in range(5)] == [0] * 5
    assert store.sequence("visits", "") == 0  # what a producer has sent is not taken for something new


def test_a_stop_whose_answer_is_lost_is_entered_once(reopen, monkeypatch):
    """Whether it is tried again by the same program or by the next."""
    store = reopen()
    stream = dpi.Stream(**HOURS, store=store, name="visits")
    list(stream.advance("2026-01-01T02:00"))
    declare = type(store).declare

    def lost(*given, **named):
        declare(*given, **named)
        raise dpi.StoreError("the answer is lost.")

    with monkeypatch.context() as broken:
        broken.setattr(type(store), "declare", lost)
        with pytest.raises(dpi.StoreError, match="the answer is lost"):
            stream.stop()
    stream.stop()
    assert stream.stopped
    assert list(stream.advance("2027-01-01")) == []
    assert [json.loads(link.text)["kind"] for link in store.links()].count("options") == 2
    assert verify(store).intact


def test_others_of_its_accounts_wait_for_it_no_more(reopen):
    """Before, a slot that is not closed holds back those that close after it, which pay from the same accounts."""
    store = reopen()
    stuck = dpi.Stream(**HOURS, store=store, name="stuck")
    other = dpi.Stream(**HOURS, store=store, name="visits")
    feed(stuck, [0], now="2026-01-01T00:40")
    feed(other, [0, 1], now="2026-01-01T01:40")
    assert list(other.advance("2026-01-01T02:00")) == []
    stuck.stop()
    assert [release.slot for release in other.advance("2026-01-01T02:00")] == [FIRST, FIRST + 1]


def test_a_stream_with_accounts_of_its_own_waits_for_no_other(reopen):
    """With a quota, what others take changes nothing, and neither does the order in which they close."""
    store = reopen()
    options = HOURS | {"store": store}
    dpi.Stream(**options, name="stuck", budget=dpi.Ledger(quota="0.25")).admission()
    rest = dpi.Stream(**options, name="rest")
    rest.admission()
    other = dpi.Stream(**options, name="visits", budget=dpi.Ledger(quota="0.25"))
    assert len(list(other.advance("2026-01-01T02:00"))) == 2
    assert len(list(rest.advance("2026-01-01T02:00"))) == 2


def test_a_quota_of_a_stopped_stream_is_not_given_again(reopen):
    """What it has spent of it is spent."""
    store = reopen()
    dpi.Stream(**HOURS, store=store, name="old", budget=dpi.Ledger(quota="0.75")).stop()
    with pytest.raises(dpi.OptionError, match="quota"):
        dpi.Stream(**HOURS, store=store, name="new", budget=dpi.Ledger(quota="0.5"))
    dpi.Stream(**HOURS, store=store, name="new", budget=dpi.Ledger(quota="0.25"))


def test_the_chain_says_that_it_ended_and_a_release_after_that_is_found(tmp_path):
    """Whoever reads the chain sees where it ended; neither a release nor other options can come after it."""
    with dpi.open_store(tmp_path / "visits.db") as store:
        stream = dpi.Stream(**HOURS, store=store, name="visits")
        list(stream.advance("2026-01-01T02:00"))
        released = json.loads(list(store.links())[-1].text)
        stream.stop()
        texts = [json.loads(link.text) for link in store.links()]
        ended = texts[-1]
        assert (ended["from"], ended["options"]["end"]) == (FIRST + 2, FIRST + 2)
        read = Streams()
        assert [wrong for text in texts for wrong in read.read(text)] == []
        after = released | {"slot": FIRST + 2}
        assert "releases a slot after the stream was stopped" in list(read.read(after))
        before = texts[0] | {"from": FIRST + 5}
        assert "changes a stream that was stopped" in list(read.read(before))
    with dpi.open_store(tmp_path / "visits.db", read_only=True) as store:
        assert verify(store).intact
