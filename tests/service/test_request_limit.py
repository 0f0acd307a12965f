"""Connections by hand: those that say nothing, too little, too slowly or too much are left, and others are served."""

import socket
import threading
import time

import pytest

from dpi.service import _request_limit as connections
from serving import running

ASK = b"GET /v1/health HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """A service that waits a second for anything."""
    with running(tmp_path_factory.mktemp("limits"), patience=1.0, connections=20, body=100_000) as made:
        yield made


def connect(found):
    """A connection."""
    host, port = found.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=30)


def ended(connection, seconds=15.0):
    """What is said until the other side closes; it must."""
    said, deadline = b"", time.monotonic() + seconds
    connection.settimeout(seconds)
    try:
        while part := connection.recv(1 << 16):
            said += part
            assert time.monotonic() < deadline
    except ConnectionError:
        pass
    return said


def dripping(connection, piece, stop):
    """Send a piece again and again until the other side has had enough."""

    def drip():
        try:
            while not stop.wait(0.05):
                connection.sendall(piece)
        except OSError:
            pass

    thread = threading.Thread(target=drip)
    thread.start()
    return thread


def test_a_connection_that_says_nothing_is_closed(found):
    """Also one that begins a request and then stops."""
    for said in (b"", b"GET", ASK):
        with connect(found) as connection:
            began = time.monotonic()
            connection.sendall(said)
            assert ended(connection) == b""
            assert time.monotonic() - began > 0.9


@pytest.mark.parametrize("begin", [b"", ASK + b"\r\n"], ids=["first", "after an answer"])
def test_headers_that_come_byte_by_byte_are_not_waited_for(found, begin):
    """Every byte comes soon after the last one, and the whole of it never."""
    stop = threading.Event()
    with connect(found) as connection:
        if begin:
            connection.sendall(begin)
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
        connection.sendall(ASK + b"X-Slow: ")
        thread = dripping(connection, b"a", stop)
        assert ended(connection) == b""
        stop.set()
        thread.join(30)


def test_a_connection_is_kept_for_a_while_after_an_answer(found):
    """For as many requests as come in time; then it is closed."""
    with connect(found) as connection:
        for _ in range(5):
            connection.sendall(ASK + b"\r\n")
            answer = connection.recv(1 << 16)
            while not answer.endswith(b"}"):  # head and body may come one after the other
                answer += connection.recv(1 << 16)
            assert answer.startswith(b"HTTP/1.1 200")
            time.sleep(0.4)  # longer than the limit in all, never between two
        assert ended(connection) == b""


def test_what_was_refused_is_not_listened_to_for_ever(found):
    """A body that goes on after its answer, with a length that is never reached or with none."""
    head = (
        "POST /v1/streams/visits/events?producer=p&sequence=0 HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {found.tokens['curator']}\r\n"
    )
    for more, piece in (
        ("Content-Length: 99999999999\r\n\r\n", b"x"),
        ("Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    ):
        stop = threading.Event()
        with connect(found) as connection:
            connection.sendall((head + more).encode())
            thread = dripping(connection, piece, stop)
            said = ended(connection)
            assert said.startswith((b"HTTP/1.1 413", b"HTTP/1.1 408"))
            stop.set()
            thread.join(30)


def test_headers_have_a_size(found):
    """Many, or one that does not end, at any speed."""
    for piece in (b"X-Many: 1\r\n", b"x"):
        with connect(found) as connection:
            connection.sendall(ASK + b"X-Long: ")
            try:
                for _ in range(100):
                    connection.sendall(piece * (20_000 // len(piece)))
            except OSError:
                pass
            assert ended(connection)[:12] in (b"HTTP/1.1 400", b"")


def test_there_is_a_number_of_connections(found):
    """Too many are told to come again; when others leave there is room."""
    held = [connect(found) for _ in range(20)]
    try:
        for _ in range(3):
            with connect(found) as connection:
                assert ended(connection) == connections.FULL
    finally:
        for each in held:
            each.close()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with connect(found) as connection:
            connection.sendall(ASK + b"Connection: close\r\n\r\n")
            if ended(connection).startswith(b"HTTP/1.1 200"):
                return
    raise AssertionError("there is no room again")


def test_requests_that_come_at_once_are_answered_one_after_the_other(found):
    """Whoever does not wait for answers gets all of them, in order; and then the end."""
    with connect(found) as connection:
        connection.sendall((ASK + b"\r\n") * 5 + ASK.replace(b"health", b"nowhere") + b"\r\n")
        said = ended(connection)
    assert [part[:3] for part in said.split(b"HTTP/1.1 ")[1:]] == [b"200"] * 5 + [b"404"]


def test_nobody_is_kept_from_being_served(found):
    """With slow connections on most places, one that knows what it wants is answered at once."""
    stop = threading.Event()
    slow = [connect(found) for _ in range(15)]
    threads = []
    for each in slow:
        each.sendall(ASK)
        threads.append(dripping(each, b"X: y\r\n", stop))
    for _ in range(10):
        assert found.client().get("/v1/health").status_code == 200
    stop.set()
    for thread, each in zip(threads, slow, strict=True):
        thread.join(30)
        each.close()


def test_an_upgrade_is_no_way_in(found):
    """WebSockets are not spoken: the request is answered like any other."""
    with connect(found) as connection:
        connection.sendall(ASK + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                           b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")  # fmt: skip
        assert ended(connection).startswith(b"HTTP/1.1 200")
