from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import pytest

import dpi
from broker_feeds import Redis
from dpi.service import logs
from dpi.service._feeding import Feeding
from dpi.service.config import read_streams
from dpi.sources.brokers._redis import RedisStream
from dpi.sources.brokers.log import End
from serving import running, settings


@pytest.fixture
def feed() -> Iterator[Redis]:
    """A Redis stream."""
    feed = Redis()
    yield feed
    feed.close()


def event(number: int, page: str = "home") -> bytes:
    """One event of now."""
    return json.dumps({"user": number, "time": datetime.now(UTC).isoformat(), "value": page}).encode()


def totals(folder: Path) -> list[int]:
    """Users that were counted in each slot, where noise is as good as none."""
    with dpi.open_store(str(folder / "visits.db"), read_only=True) as store:
        return [round(sum(memoryview(paid.values).cast("q")) / 2**24) for paid in store.measurements("visits")]


def test_a_stream_is_fed_by_a_broker(feed: Redis, tmp_path: Path) -> None:
    """Each event counts once, in a slot that waited for it; a second start goes on where the first stopped."""
    begin = datetime.now(UTC).replace(microsecond=0)
    options = {"slot": "1s", "begin": begin.isoformat(), "epsilon": "1024", "per_slot": "50", "lateness": "2s"}
    sources = {"visits": dpi.broker(feed.address)}
    sent = 0
    for _ in range(2):
        with running(tmp_path, settings(**options), now=None, sources=sources) as found:
            before = found.service.silence._streams["visits"][1]
            deadline = time.monotonic() + 30
            while found.service.silence._streams["visits"][1] <= before:  # what a broker brings ends silence
                assert time.monotonic() < deadline
                feed.send_messages([event(sent), b"broken"])
                sent += 1
                time.sleep(0.2)
            time.sleep(1.2)  # a look at the broker
    with running(tmp_path, settings(**options), now=None, sources=sources):
        deadline = time.monotonic() + 30
        while sum(totals(tmp_path)) < sent and time.monotonic() < deadline:
            time.sleep(0.2)
    assert sum(totals(tmp_path)) == sent


def test_an_event_that_comes_after_the_mark_of_its_slot_is_late(tmp_path: Path) -> None:
    """Also while the slot is not closed yet: how long that takes is a matter of what others have sent."""
    store, now, path = dpi.MemoryStore(), [0], tmp_path / "log.ndjson"
    stream = dpi.Stream(
        domain=dpi.Categories(["home"]), epsilon=1, slot="1s", start="1970-01-01", store=store, name="visits"
    )
    slots = stream.slots
    assert slots is not None
    path.touch()
    feeding = Feeding(
        "visits",
        dpi.read(path),
        store,
        lambda: nullcontext(stream.driver.admission(slots)),
        lambda: now[0],
        lambda *_: None,
    )
    feeding.start()
    for second, users in enumerate(["ada", "bob", "eve"]):
        with path.open("a") as file:
            file.write(json.dumps({"user": users, "time": "1970-01-01T00:00:00.5", "value": "home"}) + "\n")
        now[0] = (second + 1) * 1_000_000
        deadline = time.monotonic() + 30
        while not feeding.settled(now[0]) and time.monotonic() < deadline:
            time.sleep(0.01)
    feeding.stop()
    assert feeding.settled(now[0])
    assert store.events("visits", 0).counts.tolist() == [1]  # type: ignore[union-attr]


def test_slots_wait_for_a_broker_that_does_not_answer(
    feed: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What had arrived when a slot closed counts, however late the broker says so; the operator is told once."""
    away, ask, said = threading.Event(), RedisStream._ends, list[str]()

    def answer(self: RedisStream, last: Mapping[str, int]) -> dict[str, End]:
        if away.is_set():
            raise ConnectionError
        return ask(self, last)

    monkeypatch.setattr(RedisStream, "_ends", answer)
    monkeypatch.setattr(logs, "tell", lambda event, *_, **__: said.append(event))
    begin = datetime.now(UTC).replace(microsecond=0)
    options = {"slot": "1s", "begin": begin.isoformat(), "epsilon": "1024", "per_slot": "50"}
    with running(tmp_path, settings(**options), now=None, sources={"visits": dpi.broker(feed.address)}):
        deadline = time.monotonic() + 30
        while not totals(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.1)
        away.set()
        feed.send_messages([event(1)])
        time.sleep(2)
        assert sum(totals(tmp_path)) == 0
        away.clear()
        while sum(totals(tmp_path)) == 0 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert sum(totals(tmp_path)) == 1
    assert said.count("a broker does not answer: slots wait") == 1


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ('source = "redis://localhost/x"', "must be a table with the `address`"),
        ('[streams.visits.source]\naddress = "redis://ada:hunter2@localhost/"', "must name the key"),
        ('[streams.visits.source]\naddress = "redis://localhost/x"\nadress = "y"', "did you mean `address`"),
        ('[streams.visits.source]\naddress = "redis://localhost/x"\nuser = 5', "must be a text"),
    ],
)
def test_a_source_that_is_wrong_is_refused(source: str, said: str, tmp_path: Path) -> None:
    """With the name of its stream, and without a password."""
    (tmp_path / "pages.txt").write_text("home\n")
    stream = '[streams.visits]\ndomain = "pages.txt"\nepsilon = 1\nslot = "1h"\nfrom = "2026-01-01"\n'
    (tmp_path / "dpi.toml").write_text(stream + source + "\n")
    with pytest.raises(dpi.OptionError, match=r"\[streams.visits\]") as refused:
        read_streams(tmp_path / "dpi.toml")
    assert said in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_source_of_mqtt_is_warned_of(tmp_path: Path) -> None:
    """When the file is read, before a service writes its log."""
    pytest.importorskip("paho.mqtt", reason="needs pip install -e '.[brokers]'")
    (tmp_path / "pages.txt").write_text("home\n")
    stream = '[streams.visits]\ndomain = "pages.txt"\nepsilon = 1\nslot = "1h"\nfrom = "2026-01-01"\n'
    (tmp_path / "dpi.toml").write_text(stream + '[streams.visits.source]\naddress = "mqtt://localhost:1/visits"\n')
    with pytest.warns(dpi.errors.WeakPromise, match="an exception to the promise: one user's flood"):
        read_streams(tmp_path / "dpi.toml")
