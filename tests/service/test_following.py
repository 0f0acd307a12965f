"""Server-sent events: every release once, in order, at its moment, also over a lost connection; and slow clients."""

import json
import socket
import threading
import time
from contextlib import ExitStack

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


def test_answers_that_nobody_reads_have_a_limit_in_bytes(tmp_path):
    """A token whose answers wait to be read is told to come again; others, and answers of few bytes, are not."""
    wide = dpi.Categories([f"value {number:05d} {'x' * 80}" for number in range(20_000)])
    path = "/v1/streams/visits/releases"
    with running(tmp_path, settings(domain=wide, per_slot="0.001"), patience=60.0) as found:
        found.set(41)
        size = len(found.client("curator").get(path).content)
        found.service.answers.of_one, found.service.answers.most = size + 1, 2 * size + 1
        with found.unread(path, found.tokens["analyst"]):
            refused = found.client("analyst").get(path)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
            assert found.client("analyst").get("/v1/streams/visits").status_code == 200
            with found.unread(path, found.tokens["admin"]):
                assert found.client("curator").get(path).status_code == 503
            assert found.client("auditor").get("/v1/chain").status_code == 200
        deadline = time.monotonic() + 60
        while found.client("analyst").get(path).status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_those_who_follow_leave_room_for_those_who_send(tmp_path):
    """One token has a quarter of the connections at most, all tokens half or all but a hundred; a batch is kept."""
    path = "/v1/streams/visits/follow"
    with running(tmp_path, connections=20, now=MOMENT + 5 * SECOND) as found, ExitStack() as stack:
        tokens = [found.service.tokens.create("analyst") for _ in range(3)]
        for token in (tokens[0],) * 5 + (tokens[1],) * 5:
            assert stack.enter_context(found.unread(path, token)).recv(12).endswith(b"200")
        for token, answer in ((tokens[0], 429), (tokens[2], 503)):
            told = httpx.get(f"{found.url}{path}", headers={"authorization": f"Bearer {token}"})
            assert (told.status_code, told.headers["retry-after"]) == (answer, "1")
        assert found.send([("ada", 1.0, "home")], 0).status_code == 200
        stack.close()
        deadline, told = time.monotonic() + 60, b""
        while not told.endswith(b"200"):
            assert time.monotonic() < deadline
            with found.unread(path, tokens[2]) as follower:
                told = follower.recv(12)
            time.sleep(0.05)
