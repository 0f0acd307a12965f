from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import dpi
from broker_feeds import Redis
from dpi.service.config import read_streams
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
