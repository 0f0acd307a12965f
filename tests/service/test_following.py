"""Server-sent events: every release once, in order, at its moment, also over a lost connection; and slow clients."""

import gzip
import json
import socket
import threading
import time

import httpx

import dpi
from serving import FIRST, MOMENT, SECOND, running, settings


def events(lines, number):
    """So many events: (id, data)."""
    found, identity = [], None
    for line in lines:
        if line.startswith("id: "):
            identity = int(line[4:])
        if line.startswith("data: "):
            found.append((identity, json.loads(line[6:])))
            if len(found) == number:
                return found
    return found


def test_a_reader_hears_of_every_release_and_goes_on_after_the_last(tmp_path):
    """From the beginning, from `since`, after `Last-Event-ID`; whoever says nothing hears what is new."""
    path = "/v1/streams/visits/follow"
    with running(tmp_path) as found:
        client = found.client("analyst")
        found.set(21)
        with client.stream("GET", path, params={"since": 0}) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            lines = answer.iter_lines()
            assert [identity for identity, _ in events(lines, 2)] == [FIRST, FIRST + 1]
            found.set(30)
            found.clock.now = MOMENT + 31 * SECOND
            found.service.closing.call(lambda: None)
            found.set(41)  # the next slot wakes whoever waits
            assert [identity for identity, _ in events(lines, 2)] == [FIRST + 2, FIRST + 3]
        with client.stream("GET", path, headers={"last-event-id": str(FIRST + 1)}) as answer:
            (_, first), (_, second) = events(answer.iter_lines(), 2)
            assert (first["slot"], second["slot"]) == (FIRST + 2, FIRST + 3)
            assert first["start"] == "2026-01-01T00:00:20+00:00"
        for wrong in ({"since": "x"}, {"since": ""}):
            assert client.get(path, params=wrong).status_code == 422


def test_a_release_is_told_at_its_moment(tmp_path):
    """By the system's clock: not before the delay is over, and then without being asked for again."""
    with running(tmp_path, now=None, streams={}) as found:
        now = time.time()
        begin = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        new = {"name": "visits", "domain": ["home"], "epsilon": 1, "slot": "1s", "from": begin}
        assert found.client("admin").post("/v1/streams", json=new).status_code == 201
        with found.client("analyst").stream("GET", "/v1/streams/visits/follow", params={"since": 0}) as answer:
            for identity, _ in events(answer.iter_lines(), 2):
                assert time.time() >= identity + 2  # it closes after a second, and is seen another one later
        told = []
        with found.client("analyst").stream("GET", "/v1/streams/visits/follow") as answer:
            lines = answer.iter_lines()
            for _ in range(2):
                ((identity, _),) = events(lines, 1)
                told.append(time.time() - identity - 2)
    assert all(late >= 0 for late in told)  # a busy machine may be late, and never early


def test_readers_are_let_go_when_the_service_stops(tmp_path):
    """A connection that would last for ever does not keep the service from ending."""
    with running(tmp_path) as found:
        found.set(11)
        follows, ended = threading.Event(), threading.Event()

        def read():
            headers = {"authorization": f"Bearer {found.tokens['analyst']}"}
            with httpx.stream("GET", f"{found.url}/v1/streams/visits/follow", headers=headers, timeout=60) as answer:
                for _ in answer.iter_lines():
                    follows.set()
            ended.set()

        thread = threading.Thread(target=read)
        thread.start()
        assert follows.wait(60)
    # the service has ended, within the time that `running` gives it, and says so to its reader
    thread.join(60)
    assert ended.is_set()


def raw(found, head, body=b""):
    """A connection by hand."""
    host, port = found.url.removeprefix("http://").split(":")
    made = socket.create_connection((host, int(port)), timeout=30)
    token = found.tokens["curator"]
    made.sendall(f"{head} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n".encode() + body)
    return made


POST = "POST /v1/streams/visits/events?producer=slow&sequence=0"
HEAD = b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"


def test_a_body_that_does_not_come_is_left_and_holds_up_nobody(tmp_path):
    """Stalled senders take a place for a while; slots close without them, and others are served."""
    with running(tmp_path, patience=1.0, requests=4) as found:
        stalled = [raw(found, POST, HEAD + b'{"user":') for _ in range(3)]
        found.clock.now = MOMENT + 5 * SECOND
        assert found.send([("ada", 1.0, "home")], 0).status_code == 200
        found.set(10)  # what has no last byte has no stamp
        assert found.service.store.reached("visits")[0] == FIRST
        for each in stalled:
            answer = each.recv(1000)
            assert answer.startswith(b"HTTP/1.1 408")
            each.close()


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


def taken(found, number):
    """Wait until so many requests are here."""
    deadline = time.monotonic() + 30
    while found.service.limit._here.total() < number:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_places_are_counted_by_requests(tmp_path, monkeypatch):
    """With all places taken others wait; a token with too many is told so, and so is everybody when too many wait."""
    with running(tmp_path, requests=1, of_one_token=2, now=MOMENT + 5 * SECOND, patience=20.0) as found:
        held = raw(found, POST, HEAD + b"{")
        taken(found, 1)
        waiting = threading.Thread(target=lambda: found.send([("ada", 1.0, "home")], 0))
        waiting.start()
        taken(found, 2)
        refused = found.send([("ada", 1.0, "home")], 0, "third")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        monkeypatch.setattr(found.service.limit, "_most", 2)
        other = found.service.tokens.create("curator")
        full = httpx.post(
            f"{found.url}/v1/streams/visits/events?producer=x&sequence=0",
            headers={"authorization": f"Bearer {other}", "content-type": "application/json"}, content=b"{}",
        )  # fmt: skip
        assert (full.status_code, full.headers["retry-after"]) == (503, "1")
        held.close()
        waiting.join(30)
        assert found.service.store.sequence("visits", "p") == 0


def _open(found):
    """How many requests are being answered."""
    return sum(
        each.cycle is not None and not each.cycle.response_complete for each in found.server.server_state.connections
    )


def test_a_reader_who_does_not_read_is_left(tmp_path):
    """What is not taken in time is dropped with its connection, and the service goes on."""
    wide = dpi.Categories([f"value {number:05d} {'x' * 80}" for number in range(20_000)])
    with running(tmp_path, settings(domain=wide), patience=1.0) as found:
        found.set(31)
        host, port = found.url.removeprefix("http://").split(":")
        stalled = socket.socket()
        stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stalled.connect((host, int(port)))
        stalled.settimeout(60)
        head = "GET /v1/streams/visits/releases HTTP/1.1\r\nHost: x\r\n"
        stalled.sendall(f"{head}Authorization: Bearer {found.tokens['analyst']}\r\n\r\n".encode())
        stalled.recv(1, socket.MSG_PEEK)  # from now on the service waits
        deadline = time.monotonic() + 60
        while _open(found):  # until it has waited long enough
            assert time.monotonic() < deadline
            assert found.client().get("/v1/health").status_code == 200
            time.sleep(0.05)
        size = 0
        try:
            while part := stalled.recv(1 << 16):
                size += len(part)
        except (TimeoutError, ConnectionError):
            pass
        stalled.close()
        whole = len(found.client("analyst").get("/v1/streams/visits/releases").content)
    assert size < whole  # as much as the network itself holds
