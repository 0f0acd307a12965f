"""A batch counts once, is answered when it is durable, and the answer tells nothing of accounts and other batches."""

import json
import os
import signal
import subprocess
import threading
import time
from datetime import UTC, datetime

import httpx
import pytest

import dpi
from cli_files import ENVIRONMENT, PROGRAM
from dpi.service.tokens import Tokens
from dpi.store import open_store
from serving import FIRST, MOMENT, SECOND, kept, running, settings


def open_events(store, slot, stream="visits"):
    """How many events a store keeps for an open slot."""
    return int(store.events(stream, slot).counts.sum())


def test_a_batch_that_is_sent_again_counts_once(tmp_path):
    """By (producer, sequence), also after a restart; the answers are the same."""
    rows = [("ada", 1.0, "home"), ("bob", 1.0, "search")]
    with running(tmp_path, now=MOMENT + 5 * SECOND) as found:
        answers = [found.send(rows, 0), found.send(rows, 0), found.send(rows, 0, "other"), found.send(rows, 1)]
        assert open_events(found.service.store, FIRST) == 6
        told = found.client("curator").get("/v1/streams/visits/producers/p").json()
        assert told == {"producer": "p", "sequence": 1}
    with running(tmp_path, now=MOMENT + 5 * SECOND) as found:
        answers.append(found.send(rows, 1))
        assert open_events(found.service.store, FIRST) == 6
        gap = found.send(rows, 3)
        assert gap.status_code == 409
        assert open_events(found.service.store, FIRST) == 6
    new, again = (200, kept(FIRST)), (200, kept(None))
    assert [(each.status_code, each.json()) for each in answers] == [new, again, new, new, again]


def test_the_answer_names_the_first_slot_that_can_count(tmp_path):
    """The one that is open when the batch arrives, or the first of a stream that has not begun."""
    with running(tmp_path, settings(begin="2026-01-01T00:00:20+00:00")) as found:
        slots = []
        for sequence, seconds in enumerate((5, 25, 35)):
            found.clock.now = MOMENT + seconds * SECOND
            slots.append(found.send([("ada", seconds - 1.0, "home")], sequence).json()["slot"])
        assert slots == [FIRST + 2, FIRST + 2, FIRST + 3]


def test_the_answer_is_the_same_whoever_is_in_a_batch(tmp_path):
    """Fresh users and ones whose account is empty, late and early rows: one answer, but for what is in time."""
    with running(tmp_path, settings(per_slot="1")) as found:
        found.clock.now = MOMENT + SECOND
        assert found.send([("empty", 0.5, "home")], 0, "first").status_code == 200
        found.set(10.5)
        batches = [
            [("empty", 10.0, "home")], [("fresh", 10.0, "home")], [("fresh", 10.0, "nowhere")],
            [("late", 1.0, "home")], [("early", 99.0, "home")],
        ]  # fmt: skip
        answers = [found.send(rows, number) for number, rows in enumerate(batches)]
        again = found.send([("fresh", 10.0, "home")], 0)
        assert (again.status_code, again.json()) == (200, kept(None))
        told = [
            (each.status_code, each.content, tuple(h for h in each.headers.items() if h[0] != "date"))
            for each in answers
        ]
        assert [len(set(each)) for each in (told[:3], told[3:])] == [1, 1]
        assert answers[3].json() == answers[0].json() | {"in_time": "none"}


def test_many_batches_are_one_transaction(tmp_path, monkeypatch):
    """What waits while the store is busy is written together, and every one of it is answered."""
    with running(tmp_path, now=MOMENT + 5 * SECOND) as found:
        store, groups = found.service.store, []
        append, busy = store.append_all, threading.Event()

        def slow(arrivals):
            groups.append(len(arrivals))
            if len(groups) == 1:
                assert busy.wait(30)
            return append(arrivals)

        monkeypatch.setattr(store, "append_all", slow)
        answers = []
        threads = [
            threading.Thread(
                target=lambda n=n: answers.append(found.send([(f"user {n}", 1.0, "home")], 0, f"p{n}").status_code)
            )
            for n in range(12)
        ]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 30
        while sum(groups) + found.service.writer._queue.qsize() < 12 and time.monotonic() < deadline:
            time.sleep(0.01)
        busy.set()
        for thread in threads:
            thread.join(30)
        assert answers == [200] * 12
        assert len(groups) == 2
        assert sum(groups) == 12
        assert open_events(store, FIRST) == 12


def test_a_store_that_fails_is_told_and_keeps_nothing(tmp_path, monkeypatch):
    """A full disk: the batch is not acknowledged, the client comes again, and what was kept before is there."""
    with running(tmp_path, now=MOMENT + 5 * SECOND) as found:
        engine = found.service.store.engine
        assert found.send([("ada", 1.0, "home")], 0).status_code == 200
        execute = type(engine).execute

        def full(self, statement, values=()):
            if statement == "COMMIT":
                raise dpi.StoreError("the store cannot be read or written: database or disk is full.")
            execute(self, statement, values)

        monkeypatch.setattr(type(engine), "execute", full)
        refused = found.send([("bob", 1.0, "home")], 1)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert "full" not in refused.text
        monkeypatch.undo()
        assert found.send([("bob", 1.0, "home")], 1).status_code == 200
        assert open_events(found.service.store, FIRST) == 2


def test_slots_close_again_when_a_store_comes_back(tmp_path, monkeypatch):
    """While slots cannot be closed the service says that it is not ready; then all are released, in order, once."""
    with running(tmp_path) as found:
        engine, execute = found.service.store.engine, None
        execute = type(engine).execute

        def gone(self, statement, values=()):
            if statement.startswith("BEGIN IMMEDIATE"):
                raise dpi.StoreError("the store is gone.")
            execute(self, statement, values)

        assert found.client().get("/v1/ready").status_code == 200
        monkeypatch.setattr(type(engine), "execute", gone)
        found.clock.now = MOMENT + 25 * SECOND
        deadline = time.monotonic() + 30
        while found.client().get("/v1/ready").status_code == 200 and time.monotonic() < deadline:
            found.service.closing.call(lambda: None)
            time.sleep(0.02)
        assert found.client().get("/v1/ready").status_code == 503
        assert found.client().get("/v1/health").status_code == 200
        monkeypatch.undo()
        found.closed()
        assert found.client().get("/v1/ready").status_code == 200
        assert [release.slot for release in dpi.open(found.service.store, "visits")] == [FIRST, FIRST + 1]


CONFIG = """
[serve]
store = "visits.db"
port = {port}
[streams.visits]
domain = "pages.txt"
slot = "1d"
epsilon = 1
from = "{day}"
"""


@pytest.mark.skipif(not os.environ.get("DPI_SLOW"), reason="as test_kills.py, with slots that stay open: DPI_SLOW=1")
@pytest.mark.parametrize("round_", range(20))
def test_nothing_that_was_acknowledged_is_lost_by_a_kill(tmp_path, round_):
    """Kill -9 under load: every batch that was answered is in its slot once, and so is one that is sent again."""
    day = datetime.now(UTC).date().isoformat()
    (tmp_path / "pages.txt").write_text("home\nsearch\n")
    port = 18000 + os.getpid() % 2000 + round_
    (tmp_path / "dpi.toml").write_text(CONFIG.format(port=port, day=day))
    token = Tokens(tmp_path / "tokens.json").create("curator")
    acknowledged: dict[str, int] = {}

    def started():
        process = subprocess.Popen(
            [*PROGRAM, "serve", "--config", "dpi.toml"], cwd=tmp_path, env=ENVIRONMENT,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                if httpx.get(f"http://127.0.0.1:{port}/v1/ready").status_code == 200:
                    return process
            except httpx.TransportError:
                time.sleep(0.05)
        raise TimeoutError(process.stderr.read())

    def send(client, producer, sequence):
        now = datetime.now(UTC).isoformat()
        columns = {
            "user": [f"{producer} {sequence} {n}" for n in range(20)],
            "time": [now] * 20,
            "value": ["home"] * 20,
        }
        given = {"producer": producer, "sequence": sequence}
        return client.post("/v1/streams/visits/events", params=given, content=json.dumps(columns),
                           headers={"content-type": "application/json"})  # fmt: skip

    def feed(producer):
        headers = {"authorization": f"Bearer {token}"}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers) as client:
            for sequence in range(10_000):
                try:
                    if send(client, producer, sequence).status_code != 200:
                        return
                except httpx.TransportError:
                    return
                acknowledged[producer] = sequence

    process = started()
    threads = [threading.Thread(target=feed, args=(f"p{n}",)) for n in range(3)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 60
    while sum(acknowledged.values()) < 10 + 5 * round_ and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    for thread in threads:
        thread.join(60)
    assert len(acknowledged) == 3
    process = started()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers={"authorization": f"Bearer {token}"}) as client:
            for producer, last in acknowledged.items():  # the batch that was on its way may have been kept, or not
                assert send(client, producer, last).status_code == 200
                assert send(client, producer, last + 1).status_code == 200
    finally:
        process.terminate()
        process.communicate(timeout=60)
    slot = dpi.Slots("1d").number(day)
    with open_store(tmp_path / "visits.db") as store:
        events = store.events("visits", slot)
    assert int(events.counts.sum()) == sum(20 * (last + 2) for last in acknowledged.values())
    assert events.counts.max() == 1
