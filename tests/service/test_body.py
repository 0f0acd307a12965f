"""Bodies: each is taken as it comes, in its own time; what is too slow, too large or too many is refused, and seen."""

import gzip
import json
import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from types import SimpleNamespace

import httpx
import pytest

import dpi
from dpi.service import _body
from dpi.service._arrivals import NOTED
from dpi.service._batch_reader import COLUMNS, read_batch
from dpi.service._decoding import Decoders
from dpi.service.tokens import Caller
from dpi.stream.input_positions import system_clock
from service.receivers import until
from serving import FIRST, MOMENT, SECOND, held, kept, read_answer, running, settings


def raw(found, head, body=b"", token=None):
    """A connection by hand."""
    host, port = found.url.removeprefix("http://").split(":")
    made = socket.create_connection((host, int(port)), timeout=30)
    token = token or found.tokens["curator"]
    made.sendall(f"{head} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n".encode() + body)
    return made


POST = "POST /v1/streams/visits/events?producer=slow&sequence=0"
HEAD = b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"


def test_a_body_that_does_not_come_is_left_and_holds_up_nobody(tmp_path):
    """A slot waits for a body whose head came before it closed until it is refused; others are served meanwhile."""
    with running(tmp_path, patience=2.0) as found:
        stalled = [raw(found, POST, HEAD + b'{"user":') for _ in range(40)]
        found.taken(40)
        found.clock.now = MOMENT + 5 * SECOND
        began = time.monotonic()
        assert found.send([("ada", 1.0, "home")], 0).json() == kept(FIRST)
        assert time.monotonic() - began < 2.0
        found.clock.now = MOMENT + 10 * SECOND
        assert found.service.store.reached("visits") is None
        found.closed()
        assert found.service.store.reached("visits")[0] == FIRST
        assert time.monotonic() - began >= 1.0
        for each in stalled:
            answer = each.recv(1000)
            assert answer.startswith(b"HTTP/1.1 408")
            each.close()


@pytest.mark.skipif(NOTED is None, reason="only Linux tells when bytes came")
def test_a_batch_is_of_the_slot_in_which_the_kernel_got_it_however_late_it_is_read(tmp_path):
    """The clock passes the end of a slot while nothing is read; what had come before is in that slot.

    What was of the future when its last byte came is so still.
    """
    begin = datetime.now(UTC).replace(microsecond=0)
    with running(tmp_path, settings(slot="5s", begin=begin.isoformat(), origin=begin.isoformat()), clock=system_clock,
                 delay="1s") as found:  # fmt: skip
        slots = found.service.closing.streams["visits"].slots
        found.client("curator").get("/v1/streams")  # its connection is there
        number = slots.first_open(system_clock()) + 1
        time.sleep(max(0.0, slots.begin(number) / 1e6 + 0.2 - time.time()))
        times = [slots.begin(number), slots.begin(number + 1) + SECOND // 2]
        body = json.dumps({"user": ["ada", "eve"], "time": times, "value": ["home"] * 2}).encode()
        kind = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        with held(found, 6):  # to a second after its end
            made = raw(found, f"{POST}&unit=us", kind + body)
            assert system_clock() < slots.closing(number)
            assert read_answer(made) == (200, kept(number) | {"in_time": "most"})
        assert found.service.store.events("visits", number + 1).counts.tolist() == []
        made.close()


def test_what_is_of_the_future_is_decided_by_no_other_stream_and_no_wait(tmp_path):
    """The last byte came before a closing time: that another slot closes before the batch is read is no matter."""
    with running(tmp_path, now=MOMENT + 5 * SECOND) as found:
        check, go_on = found.service.tokens.check, threading.Event()

        def waits(token):
            go_on.wait(30)
            return check(token)

        found.service.tokens.check = waits
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(found.send, [("ada", 6.0, "home"), ("eve", 10.5, "home")], 0)
            assert until(lambda: found.service.receipts._open)
            found.clock.now = MOMENT + 7 * SECOND
            found.service.receipts.look_by(None)
            assert not found.service.receipts.settled("other", MOMENT + 10 * SECOND)
            go_on.set()
            assert sent.result(30).json() == kept(FIRST) | {"in_time": "most"}
        assert found.service.store.events("visits", FIRST).counts.tolist() == [1]
        assert found.service.store.events("visits", FIRST + 1).counts.tolist() == []


def test_a_body_that_came_in_time_is_taken_by_a_loop_that_is_late(tmp_path, monkeypatch):
    """Its bytes wait to be read when its time is over: they are read first."""
    monkeypatch.setattr(_body, "GRACE", 3.0)
    with running(tmp_path, now=MOMENT + 5 * SECOND) as found:
        made = raw(found, POST, HEAD)
        found.taken(1)
        with held(found, 4.0):
            made.sendall(b"{" + b" " * 98 + b"}")
            assert read_answer(made)[0] == 422  # it was heard to its end, and is no batch
        made.close()


def test_options_change_when_what_was_read_by_the_old_ones_is_stored(tmp_path):
    """A change waits for a batch that is on its way, so that its bins are recoded with all others."""
    with running(tmp_path, now=MOMENT + 5 * SECOND) as found:
        stream = found.service.closing.streams["visits"]
        other = settings(domain=dpi.Categories(["search", "home"]))
        with found.service.admissions.use("visits"):
            changed = found.service.declare(other, change="2026-01-01T00:00:10")
            time.sleep(0.3)
            assert not changed.done()
            assert found.service.closing.streams["visits"] is stream
        changed.result(30)
        assert found.send([("ada", 6.0, "home")], 0).json() == kept(FIRST)


def test_packed_bodies_are_read_by_another_process(tmp_path):
    """A small one may unpack to a large one: the interpreter of the thread that moves bytes is not held by it."""
    columns = {"user": ["ada"], "time": [MOMENT], "value": ["home"]}
    decoders = Decoders()
    try:
        for packing in ("", "gzip"):
            body = json.dumps(columns).encode()
            events = decoders.read(
                gzip.compress(body) if packing else body, COLUMNS, "us", dpi.Categories(["home"]), packing, 1 << 20
            )
            assert len(events.users) == 1
            assert (decoders._pool is None) == (packing == "")
    finally:
        decoders.stop()


def test_places_of_a_broker_are_no_producers(tmp_path):
    """A batch of such a name would have the reader pass over messages."""
    with running(tmp_path, now=MOMENT + 5 * SECOND) as found:
        found.service.closing.feeding["visits"] = SimpleNamespace(settled=lambda _: True, stop=lambda: None)
        rows = [("ada", 1.0, "home")]
        assert found.send(rows, 0, "kafka:visits 0 0").status_code == 422
        assert found.send(rows, 0, "gate").json() == kept(FIRST)


def test_a_body_keeps_up_a_lowest_rate(tmp_path, monkeypatch):
    """One that comes byte by byte is left after the first seconds, long before the patience; a steady one is taken."""
    monkeypatch.setattr(_body, "GRACE", 0.5)
    monkeypatch.setattr(_body, "RATE", 4000)
    with running(tmp_path, now=MOMENT + 5 * SECOND) as found:
        line = b'{"user":"ada","time":%d,"value":"home"}\n' % (MOMENT + SECOND)
        steady, slow = line * 200, line
        kind = b"Content-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n"
        made = [raw(found, f"{POST}&unit=us".replace("slow", name), kind % len(body))
                for name, body in (("steady", steady), ("drip", slow))]  # fmt: skip
        began = time.monotonic()
        while steady:
            made[0].sendall(steady[:800])
            made[1].sendall(slow[:1])
            steady, slow = steady[800:], slow[1:]
            time.sleep(0.1)
        assert made[0].recv(1000).startswith(b"HTTP/1.1 200")
        assert made[1].recv(1000).startswith(b"HTTP/1.1 408")
        assert time.monotonic() - began < 25
        for each in made:
            each.close()


def test_a_body_has_a_longest_time(tmp_path):
    """One that keeps up the rate is refused all the same when patience is over: so long a slot waits at most."""
    with running(tmp_path, patience=1.0) as found:
        made = raw(found, POST, b"Content-Type: application/json\r\nContent-Length: 10000000\r\n\r\n")
        stop = threading.Event()

        def send():
            with suppress(OSError):
                while not stop.wait(0.05):
                    made.sendall(b" " * 20_000)

        thread = threading.Thread(target=send)
        thread.start()
        assert made.recv(12) == b"HTTP/1.1 408"
        stop.set()
        thread.join(30)
        made.close()


def test_a_batch_belongs_to_the_slots_that_are_open_when_its_head_comes(tmp_path):
    """Its body may end after the slot has closed: the slot waits for it, and what it holds of the next slot counts."""
    with running(tmp_path) as found:
        columns = {"user": ["ada", "bob", "eve"], "time": [MOMENT + at * SECOND for at in (1, 12, 29)],
                   "value": ["home"] * 3}  # fmt: skip
        body = json.dumps(columns).encode()
        found.clock.now = MOMENT + 9 * SECOND
        head = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        made = raw(found, f"{POST}&unit=us", head + body[:10])
        found.taken(1)
        found.clock.now = MOMENT + 11 * SECOND
        time.sleep(0.2)
        assert found.service.store.reached("visits") is None
        made.sendall(body[10:])
        assert read_answer(made) == (200, kept(FIRST) | {"in_time": "most"})
        made.close()
        found.closed()
        assert found.service.store.reached("visits")[0] == FIRST
        # Of the next slot bob's event counts, whose time had not come: its closing time was still to come.
        assert int(found.service.store.events("visits", FIRST + 1).counts.sum()) == 1
        # Eve's time lies after the first closing time that followed the last byte.
        assert int(found.service.store.events("visits", FIRST + 2).counts.sum()) == 0


def test_what_is_too_large_is_refused_before_it_is_read(tmp_path):
    """By its declared length, by its bytes where none is declared, and by what it unpacks to."""
    with running(tmp_path, body=2000) as found:
        client = found.client("curator")
        path, given = "/v1/streams/visits/events", {"producer": "p", "sequence": 0}
        kind = {"content-type": "application/x-ndjson"}
        declared = client.post(path, params=given, headers=kind, content=b"x" * 3000)
        chunked = client.post(path, params=given, headers=kind, content=iter([b"x" * 1000] * 50))
        packed = client.post(
            path, params=given, headers=kind | {"content-encoding": "gzip"}, content=gzip.compress(b"x" * 10**6)
        )
        assert [each.status_code for each in (declared, chunked, packed)] == [413, 413, 413]
        assert found.send([("ada", 0.0, "home")], 0).status_code == 200


def test_bodies_that_stand_still_keep_out_nobody(tmp_path, monkeypatch):
    """A token with as many as may be gets another batch through, and so does anybody when there are too many in all."""
    monkeypatch.setattr(_body, "GRACE", 60.0)
    with running(tmp_path, requests=3, of_one_token=2, patience=60.0, now=MOMENT + 5 * SECOND) as found:
        stalled = [raw(found, POST, HEAD + b"{")]
        found.taken(1)
        (mine,) = found.service.arriving._held.values()
        stalled.insert(0, raw(found, POST, HEAD + b"{"))
        found.taken(2)
        first = next(iter(mine))
        stalled[1].sendall(b" ")  # of the one that came first: now nothing has come of the other for longest
        assert until(lambda: next(iter(mine)) is not first)
        assert found.send([("ada", 1.0, "home")], 0, "third").status_code == 200
        assert read_answer(stalled[0])[0] == 429  # it was the first
        others = [found.service.tokens.create("curator") for _ in range(2)]
        stalled += [raw(found, POST, HEAD + b"{", token=token) for token in (found.tokens["curator"], others[0])]
        found.taken(3)
        full = httpx.post(
            f"{found.url}/v1/streams/visits/events?producer=x&sequence=0",
            headers={"authorization": f"Bearer {others[1]}", "content-type": "application/json"}, content=b"{}",
        )  # fmt: skip
        assert full.status_code == 422  # it was heard to its end, and is no batch
        assert read_answer(stalled[1])[0] == 429  # the longest of the token that has most
        assert found.service.arriving.number == 2
        for each in stalled:
            each.close()


def test_batches_that_wait_for_an_answer_are_counted(tmp_path):
    """A token with too many is told so at once, and so is everybody when there are too many in all; none waits."""
    with running(tmp_path, requests=3, of_one_token=2, now=MOMENT + 5 * SECOND) as found, ThreadPoolExecutor(3) as pool:
        rows, tokens = [("ada", 1.0, "home")], [found.service.tokens.create("curator") for _ in range(2)]

        def post(token, producer):
            body = {"user": ["ada"], "time": [MOMENT + SECOND], "value": ["home"]}
            return httpx.post(
                f"{found.url}/v1/streams/visits/events?producer={producer}&sequence=0&unit=us",
                headers={"authorization": f"Bearer {token}"}, json=body, timeout=30,
            )  # fmt: skip

        with found.service.admissions.replace("visits"):  # nothing is read meanwhile
            waiting = [pool.submit(found.send, rows, 0, name) for name in ("first", "second")]
            assert until(lambda: found.service.batches._held.total() == 2)
            refused = found.send(rows, 0, "third")
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
            waiting.append(pool.submit(post, tokens[0], "fourth"))
            assert until(lambda: found.service.batches._held.total() == 3)
            full = post(tokens[1], "fifth")
            assert (full.status_code, full.headers["retry-after"]) == (503, "1")
        assert [each.result(30).status_code for each in waiting] == [200] * 3
        assert found.send(rows, 0, "third").status_code == 200
        assert found.service.room._left == _body.MEMORY


def test_a_large_body_lies_on_the_disk_unreadable(tmp_path, monkeypatch):
    """Of a body for which memory has no room the file holds no byte as it was sent; it is read back whole."""
    made = []

    def keep(**given):
        made.append((tmp_path / f"body {len(made)}").open("w+b", buffering=0))
        return made[-1]

    monkeypatch.setattr(_body.tempfile, "TemporaryFile", keep)
    room, sent = _body.Room(250_000), [os.urandom(100_000) for _ in range(7)]
    body = _body.Body(room)
    for part in sent:
        body.add(part)
    held = (tmp_path / "body 0").read_bytes()
    assert len(held) == body.size == 700_000
    assert all(part[:16] not in held for part in sent)
    assert body.take() == b"".join(sent)
    assert made[0].closed
    assert room.take(250_000)  # what was in memory first was given back


def test_memory_is_given_back(tmp_path):
    """By bodies that are kept, refused or cut off: the room is what it was."""
    with running(tmp_path, now=MOMENT + 5 * SECOND, body=10_000) as found:
        assert found.send([("ada", 1.0, "home")], 0).status_code == 200
        assert found.send([("ada" * 1000, 1.0, "home")] * 10, 1).status_code == 413
        made = raw(found, POST, HEAD + b'{"user":')
        found.taken(1)
        made.close()
        deadline = time.monotonic() + 30
        while not found.service.room.take(_body.MEMORY):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_connection_that_ends_in_the_midst_holds_no_slot(tmp_path):
    """Its batch is not kept, and no slot waits for the rest of it."""
    with running(tmp_path, now=MOMENT + 5 * SECOND) as found:
        made = raw(found, POST, HEAD + b'{"user":')
        found.taken(1)
        assert not found.service.receipts.settled("visits", MOMENT + 6 * SECOND)
        made.close()
        found.set(10)
        assert found.service.store.reached("visits")[0] == FIRST


def test_a_slot_waits_while_a_token_is_checked(tmp_path, monkeypatch):
    """The head is noted before that: how long an issuer takes to answer moves no batch to another slot."""
    asked, go_on = threading.Event(), threading.Event()

    def check(token):
        asked.set()
        assert go_on.wait(30)
        return Caller("somebody", frozenset({"curator"}))

    with running(tmp_path, now=MOMENT + 5 * SECOND) as found:
        monkeypatch.setattr(found.service, "issued", SimpleNamespace(check=check))
        body = b'{"user":["ada"],"time":[%d],"value":["home"]}' % (MOMENT + SECOND)
        kind = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        made = raw(found, f"{POST}&unit=us", kind + body, "an.issuers.token")
        assert asked.wait(30)
        found.clock.now = MOMENT + 11 * SECOND
        time.sleep(0.2)
        assert found.service.store.reached("visits") is None
        go_on.set()
        assert read_answer(made) == (200, kept(FIRST))
        made.close()
        found.closed()


def test_a_batch_that_ends_its_process_refuses_no_other(tmp_path, monkeypatch):
    """Batches that were in the same pool are decoded once more, each alone; whoever sent the one to blame is told."""
    with running(tmp_path, now=MOMENT + 5 * SECOND) as found:
        rows = [(f"user {number}", 1.0, "home") for number in range(5000)]
        assert found.send(rows, 0).json() == kept(FIRST)
        for process in list(found.service._decoders._pool._processes):
            os.kill(process, signal.SIGKILL)
        assert found.send(rows, 1).json() == kept(FIRST)
        monkeypatch.setattr("dpi.service._decoding.read_batch", end_by_poison)
        poison = [("poison", 1.0, "home"), *rows]
        with ThreadPoolExecutor(2) as senders:
            bad = senders.submit(found.send, poison, 2, producer="other")
            good = [found.send(rows, number).json() for number in range(2, 5)]
            refused = bad.result()
        assert good == [kept(FIRST)] * 3
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert int(found.service.store.events("visits", FIRST).counts.sum()) == 25_000
        found.set(10)


def end_by_poison(body, *given):
    """Read a batch, or end the process that does."""
    if b"poison" in body:
        os.kill(os.getpid(), signal.SIGKILL)
    return read_batch(body, *given)


def test_an_error_of_another_process_tells_nothing(tmp_path, monkeypatch, logged):
    """What is wrong with a large body is said as of a small one, and a fault says nothing of what it saw."""
    with running(tmp_path, now=MOMENT + 5 * SECOND) as found:
        body = b'{"user":["' + b"poison" * 20_000 + b'"],"time":[],"value":["home"]}'
        given, kind = {"producer": "p", "sequence": 0}, {"content-type": "application/json"}
        refused = found.client("curator").post("/v1/streams/visits/events", params=given, content=body, headers=kind)
        assert refused.status_code == 422
        assert refused.json()["detail"].startswith("columns in JSON")
        monkeypatch.setattr("dpi.service._decoding.read_batch", fail)
        failed = found.client("curator").post("/v1/streams/visits/events", params=given, content=body, headers=kind)
        assert failed.status_code == 500
        assert "poison" not in refused.text + failed.text + logged.getvalue()
        assert "KeyError" in logged.getvalue()


def fail(body, *given):
    """A fault that has a row in its words."""
    raise KeyError(body[10:100])
