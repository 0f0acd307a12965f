"""Slots that are too short to be served are refused, and a stream can be stopped for good, by itself."""

import threading

import pytest

import dpi
from dpi.errors import OptionError
from dpi.service.config import Config
from serving import BEGIN, FIRST, MOMENT, SECOND, running, settings

EVENTS = "/v1/streams/visits/events"
NEW = {"domain": ["home"], "epsilon": 1, "from": BEGIN}


@pytest.mark.parametrize(("slot", "status"), [("1ms", 422), ("999ms", 422), ("1us", 422), ("1s", 201), ("day", 201)])
def test_a_slot_is_at_least_a_second(tmp_path, slot, status):
    """Over HTTP and in a configuration, when a stream is made."""
    with running(tmp_path, settings(quota="0.5")) as found:
        answer = found.client("admin").post("/v1/streams", json={**NEW, "name": "short", "slot": slot, "quota": "0.25"})
        assert answer.status_code == status
        if status == 422:
            assert answer.json()["detail"] == "`slot` of a stream that is served must be at least 1s."
    if status == 422:
        with pytest.raises(OptionError, match="`slot` of a stream that is served must be at least 1s"):
            Config(store="x", tokens=tmp_path / "t", streams={"short": settings(name="short", slot=slot)})


def test_a_store_with_a_slot_that_is_too_short_is_not_served(tmp_path):
    """A stream of milliseconds that a program has begun would close a thousand slots a second."""
    options = {"domain": dpi.Categories(["home"]), "epsilon": 1, "slot": "1ms", "start": BEGIN, "name": "short"}
    with dpi.open_store(tmp_path / "visits.db") as store:
        dpi.Stream(**options, store=store)
    with pytest.raises(OptionError, match="at least 1s"), running(tmp_path):
        pass


def test_a_stopped_stream_stays_stopped(tmp_path):
    """Its releases stay; it takes no batch and closes no slot, also after a restart with the same configuration."""
    other = settings(name="other")
    with running(tmp_path, settings(), other) as found:
        admin, analyst = found.client("admin"), found.client("analyst")
        found.clock.now = MOMENT + 5 * SECOND
        assert found.send([("ada", 1.0, "home")], 0).status_code == 200
        found.set(10)
        assert found.send([("ada", 10.0, "home")], 1).status_code == 200
        for _ in range(2):
            assert admin.delete("/v1/streams/visits").json() == {"name": "visits"}
        refused = found.send([("bob", 10.0, "home")], 2)
        assert (refused.status_code, refused.json()["detail"]) == (
            410, "the stream was stopped: it takes no more events.",
        )  # fmt: skip
        assert admin.put("/v1/streams/visits", json={**NEW, "slot": "10s"}).status_code == 409
        assert admin.post("/v1/streams", json={**NEW, "name": "visits", "slot": "10s"}).status_code == 409
        assert [each["act"] for each in admin.get("/v1/acts").json()["acts"]].count("stream stopped") == 1
        found.set(42)
        operations = found.client("curator").get("/v1/operations").json()["streams"]
        stopped = {each["stream"]: each["silent"] for each in operations}
        assert stopped == {"other": True, "visits": False}
        told = analyst.get("/v1/streams/visits").json()
        assert (told["newest"], told["clock"], told["options"]["end"]) == (FIRST, None, FIRST + 1)
        assert analyst.get("/v1/streams/other").json()["newest"] == FIRST + 3
        assert found.service.store.events("visits", FIRST + 1).counts.size == 0
        shown = {each["stream"]: each for each in found.client("curator").get("/v1/operations").json()["streams"]}
        assert (shown["visits"]["next"], shown["visits"]["lag"]) == (None, None)
        with found.connect("analyst") as service:
            assert service.verify().intact
    with running(tmp_path, settings(), other, now=MOMENT + 60 * SECOND) as found:
        found.closed()
        found.clock.now += 2 * SECOND
        analyst = found.client("analyst")
        told = analyst.get("/v1/streams/visits").json()
        assert (told["number"], told["first"], told["newest"]) == (1, FIRST, FIRST)
        assert analyst.get(f"/v1/streams/visits/releases/{FIRST}").status_code == 200
        assert analyst.get("/v1/streams/other").json()["newest"] == FIRST + 5
        assert found.send([("bob", 60.0, "home")], 2).status_code == 410
        assert found.client("curator").get("/v1/streams/visits/producers/p").json()["sequence"] == 1


def test_no_batch_is_kept_after_the_end_however_long_it_took_to_read(tmp_path, monkeypatch):
    """What was stored is erased, and what is on its way finds the stream stopped."""
    from dpi.service import _decoding as decoding

    held, go_on, decoded = threading.Event(), threading.Event(), decoding.read_batch

    def slow(*given):
        held.set()
        assert go_on.wait(30)
        return decoded(*given)

    monkeypatch.setattr(decoding, "read_batch", slow)
    with running(tmp_path) as found:
        found.clock.now = MOMENT + 5 * SECOND
        answers = []
        sending = threading.Thread(target=lambda: answers.append(found.send([("ada", 1.0, "home")], 0).status_code))
        sending.start()
        assert held.wait(30)
        assert found.client("admin").delete("/v1/streams/visits").status_code == 200
        go_on.set()
        sending.join(30)
        assert answers == [410]
        assert found.service.store.events("visits", FIRST).counts.size == 0
        assert found.service.store.sequence("visits", "p") == -1


def test_a_stop_that_the_store_refuses_changes_nothing(tmp_path, monkeypatch):
    """Batches are taken and slots are closed as before, and it can be tried again."""
    with running(tmp_path) as found:
        kind = type(found.service.store)

        def fails(*_, **__):
            raise dpi.StoreError("the store is gone.")

        with monkeypatch.context() as broken:
            broken.setattr(kind, "declare", fails)
            assert found.client("admin").delete("/v1/streams/visits").status_code == 503
        found.clock.now = MOMENT + 5 * SECOND
        assert found.send([("ada", 1.0, "home")], 0).status_code == 200
        found.set(10)
        assert found.service.store.reached("visits")[0] == FIRST
        assert found.client("admin").delete("/v1/streams/visits").status_code == 200
        found.set(30)
        assert found.service.store.reached("visits")[0] == FIRST
