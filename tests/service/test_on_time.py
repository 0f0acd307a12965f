"""One stream releases on time, whatever a batch, another stream or a feed does beside it.

**On time** is at the first tick: a slot that closes at c is seen at c + delay, and at no later whole number of delays.
So a release may be ready up to a delay after its slot has closed, and is seen not a moment later for it. The delay is
five seconds here. For half of it a slot waits for others that close at the same moment: the order tells nothing then.
In the other half it has to be closed, beside threads that read costly batches in the same interpreter, and beside the
clients that send them from it, on a machine whose cores other tests use too. Before there were limits, the same bodies
took 17 to 102 seconds, in which nothing was released.

The streams have quotas, so that each pays from accounts of its own. Streams that pay from the same accounts wait for
each other, whatever happens (`tests/service/test_failing.py`).
"""

import gzip
import os
import threading
import time
from collections import defaultdict
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta

import httpx
import pyarrow as pa
import pytest
import zstandard

import dpi
from dpi.service import _batch_reader as ingest
from service.batches import arrow
from serving import SECOND, running, settings

SLOW = bool(os.environ.get("DPI_SLOW"))
DELAY = 5
SLOTS = 7
"""Slots of a second for which others are attacked: the first of them are seen meanwhile."""
TRIES = 3
"""Times that slots are watched, if some are late."""
CLIENTS = 2
"""As many as the batches of a stream that are read at a time."""
LINES, COLUMNS, ARROW = ({"content-type": kind} for kind in ingest.KINDS[::-1])
MANY = (8 << 20) - 99
BODIES = {
    "empty members": (413, LINES | {"content-encoding": "gzip"}, gzip.compress(b"") * 52_000),
    "empty frames": (413, LINES | {"content-encoding": "zstd"}, zstandard.ZstdCompressor().compress(b"") * 116_000),
    "rows of nothing": (413, ARROW, arrow(dict.fromkeys(ingest.NAMES, pa.nulls(10**9)))),
    "lines of nothing": (413, LINES, b"{}\n" * (5 << 20)),
    "lines that are slow to read": (200, LINES, b'{"user":{},"time":[],"value":{}}\n' * ingest.MOST_ROWS),
    "long lines of lists": (200, LINES, (b'{"x":[' + b"[]," * 5_450 + b'1],"user":1}\n') * 1000),
    "a line that is too long": (200, LINES, b'{"x":[' + b"[]," * 5_000_000 + b'1],"user":1}\n'),
    "cells of lists": (413, COLUMNS, b'{"user":[' + b"[]," * 5_000_000 + b'1],"time":[1],"value":[1]}'),
    "one deep cell": (200, COLUMNS, b'{"user":[' + b"[" * MANY + b"]" * MANY + b'],"time":[1],"value":[1]}'),
}  # fmt: skip


def options(name, quota="0.25", **more):
    """A stream of seconds with accounts of its own that begins now."""
    begin = datetime.now(UTC).replace(microsecond=0).isoformat()
    return settings(name=name, slot="1s", begin=begin, quota=quota, **more)


@contextmanager
def serving(folder, *others, **more):
    """A service on the system's clock with a stream that is watched."""
    with running(folder, options("watched"), *others, now=None, delay=f"{DELAY}s", **more) as found:
        found.ready = []
        ready = found.service.publication.ready

        def noting(stream, slot, entry, closing, at):
            seen = ready(stream, slot, entry, closing, at)
            found.ready.append((stream, slot, closing, at, seen.due))
            return seen

        found.service.publication.ready = noting
        yield found


def check_on_time(found, slots=SLOTS):
    """So many slots of the stream that is watched close from now on, and each is seen at its first tick.

    A machine whose cores and disk others use can stand still for some seconds. So a release may be late, if those that
    follow are not: what is wrong with others is wrong as long as it lasts.
    """
    late = close_slots(found, slots)
    for _ in range(TRIES - 1):
        late = late and close_slots(found, slots)
    assert late == [], "seconds after which releases were ready that have missed their tick"
    asked = found.clock()
    newest = found.client("analyst").get("/v1/streams/watched").json()["newest"]
    assert newest is not None  # and closed a delay before that was asked, at least
    assert newest >= (asked - DELAY * SECOND) // SECOND - 1


def close_slots(found, slots):
    """Have so many slots close from now on; after how many seconds those were ready that missed their tick."""
    began = found.clock()
    deadline = time.monotonic() + slots + 30
    while len(watched := [each for each in found.ready if each[0] == "watched" and each[2] > began]) < slots:
        assert time.monotonic() < deadline, "slots were not closed"
        time.sleep(0.05)
    numbers = [slot for _, slot, *_ in watched]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    return [(at - closing) / SECOND for _, _, closing, at, due in watched if due != closing + DELAY * SECOND]


def attack(found, kinds):
    """Send bodies of these kinds to another stream, again and again, while slots of the one that is watched close."""
    stop, answers = threading.Event(), defaultdict(set)

    def send(number):
        given = {"authorization": f"Bearer {found.tokens['curator']}"}
        with httpx.Client(base_url=found.url, headers=given, timeout=60.0) as client:
            sequence, turn = 0, 0
            while not stop.is_set() or turn < len(kinds):
                kind = kinds[(turn + number * len(kinds) // CLIENTS) % len(kinds)]
                _, headers, body = BODIES[kind]
                place = {"producer": f"p{number}", "sequence": sequence, "unit": "s"}
                answer = client.post("/v1/streams/other/events", params=place, content=body, headers=headers)
                answers[kind].add(answer.status_code)
                sequence, turn = sequence + (answer.status_code == 200), turn + 1

    threads = [threading.Thread(target=send, args=(number,)) for number in range(CLIENTS)]
    with ExitStack() as ending:
        for thread in threads:
            thread.start()
            ending.callback(thread.join)
        ending.callback(stop.set)
        check_on_time(found)
    check_on_time(found, 1)  # those that closed while the last bodies were read
    assert answers == {kind: {BODIES[kind][0]} for kind in kinds}


@pytest.mark.parametrize("kinds", [[kind] for kind in BODIES] if SLOW else [[*BODIES]], ids=", ".join)
def test_a_batch_delays_no_other_stream(tmp_path, kinds):
    """Clients send the costliest bodies there are to another stream, as fast as they are answered.

    One after the other to one service or, with DPI_SLOW, each kind alone.
    """
    with serving(tmp_path, options("other")) as found:
        attack(found, kinds)


class Stuck:
    """A broker that takes up a connection and never answers."""

    arrived = unit = None

    def __init__(self):
        self.asked, self.go_on = threading.Event(), threading.Event()

    def live(self, *_):
        """Wait for it."""
        self.asked.set()
        self.go_on.wait(120)
        raise ConnectionError


def test_nothing_that_is_wrong_with_others_delays_a_stream(tmp_path, monkeypatch):
    """Neither one that fails again and again, nor a discovery in the store, which has slots that no service can close.

    Nor a feed that is stuck, or that cannot be reached: the slots of its own stream wait for it, and no other's.
    """
    from dpi.stream.slot_closer import SlotCloser

    close, stuck, away = SlotCloser.close, Stuck(), Stuck()
    away.go_on.set()

    def fails(self, number, rows):
        if self.newest.name == "failing":
            raise ArithmeticError
        return close(self, number, rows)

    monkeypatch.setattr(SlotCloser, "close", fails)
    begin = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=5)
    with dpi.open_store(tmp_path / "visits.db") as store:
        dpi.Discovery(texts=dpi.Texts(8), epsilon=1, quota="0.1", store=store, slot="1s", start=begin)
    others = [options(name, quota="0.1") for name in ("failing", "fed", "away")]
    with serving(tmp_path, *others, sources={"fed": stuck, "away": away}) as found:
        try:
            assert stuck.asked.wait(30)
            check_on_time(found)
            assert found.service.closing.failing == {"failing": "ArithmeticError"}
            assert {stream for stream, *_ in found.ready} == {"watched"}
        finally:
            stuck.go_on.set()


def test_a_new_stream_delays_no_other(tmp_path):
    """Neither one of milliseconds, which is refused, nor one with nine thousand slots behind it, nor its end."""
    with serving(tmp_path) as found:
        admin = found.client("admin")
        begin = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=9000)
        new = {"name": "other", "domain": ["a"], "epsilon": 1, "from": begin.isoformat(), "quota": "0.25"}
        assert admin.post("/v1/streams", json={**new, "slot": "1ms"}).status_code == 422
        assert admin.post("/v1/streams", json={**new, "slot": "1s"}).status_code == 201
        check_on_time(found)
        assert len({stream for stream, *_ in found.ready}) == 2
        assert found.service.closing.streams["other"].upcoming[0] < found.clock() - SECOND, "it has caught up"
        assert admin.delete("/v1/streams/other").status_code == 200
        check_on_time(found, 2)
