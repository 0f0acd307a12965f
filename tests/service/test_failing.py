"""A stream whose slots cannot be closed is seen to fail, and others go on."""

import io
import json
import threading
import time

import pytest
from rich.console import Console

import dpi
from dpi.cli.commands.top import picture
from serving import BEGIN, FIRST, MOMENT, SECOND, running, settings

OTHER = settings(name="other", quota="0.5")


@pytest.fixture
def failing(monkeypatch):
    """Closing a slot of `visits` fails, with a text that nobody must see, until it is mended."""
    from dpi.stream.slot_closer import SlotCloser

    close, broken = SlotCloser.close, [True]

    def fails(self, number, rows):
        if self.newest.name == "visits" and broken:
            raise ArithmeticError("ada was here")
        return close(self, number, rows)

    monkeypatch.setattr(SlotCloser, "close", fails)
    return broken


def wait(condition):
    """Until something is so."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_one_that_fails_holds_back_no_other(tmp_path, failing, caplog):
    """It is told apart in the log, in metrics and to curators; the service is ready, and nothing is skipped."""
    with running(tmp_path, settings(quota="0.25"), OTHER) as found:
        store, curator = found.service.store, found.client("curator")
        for moment in (10, 20, 30):
            found.clock.now = MOMENT + moment * SECOND
            wait(lambda moment=moment: (store.reached("other") or [0])[0] == FIRST + moment // 10 - 1)
        assert store.reached("visits") is None
        wait(lambda: found.service.closing.failing)
        assert found.service.closing.failing == {"visits": "ArithmeticError"}
        assert found.client().get("/v1/ready").status_code == 200
        told = curator.get("/v1/operations").json()
        assert told["failing"] is None
        assert {each["stream"]: each["failing"] for each in told["streams"]} == {
            "visits": "ArithmeticError", "other": None,
        }  # fmt: skip
        console = Console(width=200, record=True, file=io.StringIO())
        console.print(picture(told))
        assert "Slots of visits cannot be closed at the moment (ArithmeticError)." in console.export_text()
        metrics = curator.get("/v1/metrics").text
        assert 'dpi_failing{stream="visits"} 1.0' in metrics
        assert 'dpi_failures_total{kind="ArithmeticError"}' in metrics
        lines = [record.fields for record in caplog.records if record.message == "a slot cannot be closed"]
        assert [(line["stream"], line["kind"]) for line in lines] == [("visits", "ArithmeticError")]
        assert "ada" not in str(lines) + metrics + str(told)
        failing.clear()
        found.set(30)
        assert store.reached("visits")[0] == FIRST + 2
        assert found.service.closing.failing == {}
        assert 'dpi_failing{stream="visits"} 0.0' in curator.get("/v1/metrics").text


class Panic(BaseException):
    """What polars raises when it panics: no `Exception`."""


def test_a_panic_ends_no_thread(tmp_path, monkeypatch):
    """A stream whose slot makes a library panic fails like any other, and goes on when it is mended."""
    from dpi.stream.slot_closer import SlotCloser

    close, broken = SlotCloser.close, [True]

    def panics(self, number, rows):
        if self.newest.name == "visits" and broken:
            raise Panic
        return close(self, number, rows)

    monkeypatch.setattr(SlotCloser, "close", panics)
    with running(tmp_path, settings(quota="0.25"), OTHER) as found:
        found.clock.now = MOMENT + 10 * SECOND
        wait(lambda: found.service.store.reached("other"))
        wait(lambda: found.service.closing.failing == {"visits": "Panic"})
        broken.clear()
        found.closed()
        assert found.service.store.reached("visits")[0] == FIRST


def test_streams_of_the_same_accounts_keep_their_order(tmp_path, failing):
    """What one takes the other cannot: a later slot waits, until the earlier is closed or its stream is stopped."""
    with running(tmp_path, settings(), settings(name="other"), settings(name="apart", separate=True)) as found:
        store = found.service.store
        found.clock.now = MOMENT + 20 * SECOND
        wait(lambda: (store.reached("apart") or [0])[0] == FIRST + 1)
        # "other" is before "visits" by its name where both close at the same moment; its second slot is after.
        wait(lambda: store.reached("other") is not None)
        time.sleep(0.2)
        assert store.reached("other")[0] == FIRST
        assert found.client("admin").delete("/v1/streams/visits").status_code == 200
        wait(lambda: store.reached("other")[0] == FIRST + 1)
        assert found.service.closing.failing == {}


def test_a_slot_that_waits_for_a_batch_keeps_its_place(tmp_path, monkeypatch):
    """For half of the delay, in which the order of the chain is that of the clock; after that others go on."""
    from dpi.service import _decoding as decoding

    held, go_on, decoded = threading.Event(), threading.Event(), decoding.read_batch

    def slow(*given):
        held.set()
        assert go_on.wait(60)
        return decoded(*given)

    monkeypatch.setattr(decoding, "read_batch", slow)
    later = settings(name="zoo", quota="0.5")
    for late, order in ((0.499, ["visits", "zoo"]), (0.5, ["zoo", "visits"])):
        held.clear(), go_on.clear()
        folder = tmp_path / str(late)
        folder.mkdir()
        with running(folder, settings(quota="0.25"), later) as found:
            store, looked = found.service.store, found.service.closing.call
            found.clock.now = MOMENT + 5 * SECOND
            sending = threading.Thread(target=lambda found=found: found.send([("ada", 1.0, "home")], 0))
            sending.start()
            assert held.wait(30)
            found.clock.now = MOMENT + round((10 + late) * SECOND)
            if order[0] == "zoo":
                wait(lambda store=store: store.reached("zoo") is not None)
            for _ in range(10):
                time.sleep(0.03)
                looked(lambda: None).result(30)
            assert (store.reached("zoo") is not None) == (order[0] == "zoo")
            go_on.set()
            sending.join(30)
            found.closed()
            chain = [json.loads(link.text) for link in store.links()]
            assert [entry["stream"] for entry in chain if entry["kind"] == "release"] == order


def test_when_all_fail_the_service_is_not_ready(tmp_path, failing):
    """Then no slot can be closed, whichever it is."""
    with running(tmp_path) as found:
        found.clock.now = MOMENT + 10 * SECOND
        wait(lambda: found.service.closing.failing)
        assert found.client().get("/v1/ready").status_code == 503
        assert found.client("curator").get("/v1/operations").json()["failing"] == "ArithmeticError"


def test_a_discovery_in_the_store_is_not_served_and_stops_nobody(tmp_path):
    """It needs the texts of events, which a store does not keep: no slot of any stream was closed beside it."""
    with dpi.open_store(tmp_path / "visits.db") as store:
        discovery = dpi.Discovery(
            texts=dpi.Texts(8), epsilon=1, quota="0.25", store=store, slot="10s", start=BEGIN, name="discovery"
        )
        discovery.release([f"user {n}" for n in range(400)], ["home"] * 400, slot=FIRST)
    with running(tmp_path) as found:
        found.set(30)
        assert found.service.store.reached("visits")[0] == FIRST + 2
        assert found.service.closing.failing == {}
        assert [each["name"] for each in found.client("analyst").get("/v1/streams").json()["streams"]] == ["visits"]
        assert found.client("analyst").get("/v1/streams/discovery").status_code == 404
        found.clock.now += 2 * SECOND
        with found.connect("analyst") as service:
            assert service.verify().intact
    with dpi.open_store(tmp_path / "visits.db", read_only=True) as store:
        assert store.reached("discovery")[0] == FIRST


def test_a_stream_with_a_long_past_delays_no_other(tmp_path):
    """Slots that should have been seen long ago come after those that can be seen in time, and streams take turns."""
    closed = []
    with running(tmp_path, settings(quota="0.25"), OTHER, now=MOMENT) as found:
        ready = found.service.publication.ready

        def noting(stream, slot, *given, **named):
            closed.append(stream)
            return ready(stream, slot, *given, **named)

        found.service.publication.ready = noting
        found.clock.now = MOMENT + 120 * SECOND
        wait(lambda: len(closed) >= 20)
        assert abs(closed[:20].count("visits") - 10) <= 1
        found.closed()
        closed.clear()
        new = {"name": "past", "domain": ["home"], "epsilon": 1, "slot": "1s", "from": BEGIN, "quota": "0.25"}
        assert found.client("admin").post("/v1/streams", json=new).status_code == 201
        found.clock.now = MOMENT + 130 * SECOND
        wait(lambda: "visits" in closed and "other" in closed)
        assert closed.count("past") < 100
        found.closed()
        assert closed.count("past") == 130
