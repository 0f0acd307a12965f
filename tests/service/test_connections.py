"""Connections by hand: those that say nothing, too little, too slowly or too much are left, and others are served."""

import asyncio
import socket
import threading
import time
from contextlib import ExitStack, suppress

import pytest
import uvicorn
from uvicorn.server import ServerState

from dpi.service import _connections as connections
from dpi.service._arrivals import Arrivals
from service.receivers import until
from serving import held, read_answer, running

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
            assert read_answer(connection)[0] == 200
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
            assert read_answer(connection)[0] == 200
            time.sleep(0.25)  # longer than the limit in all, never between two
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


HEAD = "POST /v1/streams/visits/events?producer=p&sequence=0 HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def begin_body(found, size=1000):
    """A connection with a request whose body does not come."""
    made = connect(found)
    made.sendall(f"{HEAD}Authorization: Bearer {found.tokens['curator']}\r\nContent-Length: {size}\r\n\r\n{{".encode())
    return made


@pytest.fixture
def narrow(tmp_path):
    """A service with twenty connections, and what is connected to it."""
    with running(tmp_path, connections=20) as made, ExitStack() as held:
        made.hold = lambda connection: held.enter_context(connection)
        yield made


def test_there_is_a_number_of_connections(narrow):
    """With requests on all of them others are told to come again; when some leave there is room."""
    held = [narrow.hold(begin_body(narrow)) for _ in range(20)]
    narrow.taken(20)
    for _ in range(3):
        with connect(narrow) as connection:
            assert ended(connection) == connections.FULL
    for each in held:
        each.close()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with connect(narrow) as connection:
            connection.sendall(ASK + b"Connection: close\r\n\r\n")
            if ended(connection).startswith(b"HTTP/1.1 200"):
                return
    raise AssertionError("there is no room again")


def test_connections_that_ask_for_nothing_take_no_place(narrow):
    """The one that has said nothing for the longest time makes room: others are answered, however many there are."""
    busy = narrow.hold(begin_body(narrow))
    narrow.taken(1)
    silent = [narrow.hold(connect(narrow)) for _ in range(100)]
    silent[-1].sendall(ASK + b"Connection: close\r\n\r\n")
    assert ended(silent[-1]).startswith(b"HTTP/1.1 200")
    assert ended(silent[0]) == b""
    silent[-2].sendall(ASK + b"Connection: close\r\n\r\n")  # it came later than those that made room
    assert ended(silent[-2]).startswith(b"HTTP/1.1 200")
    busy.sendall(b"x" * 999)
    assert ended(busy).startswith(b"HTTP/1.1 4")  # it was heard to its end, and is no batch


def test_a_batch_does_not_wait_behind_another_on_its_connection(found):
    """One that comes before the answer to the request before it is refused: it could wait for others' batches."""
    with connect(found) as connection:
        head = f"{HEAD}Authorization: Bearer {found.tokens['curator']}\r\nContent-Length: 2\r\n\r\n{{}}".encode()
        connection.sendall(head * 2)
        said = ended(connection)
    assert [part[:3] for part in said.split(b"HTTP/1.1 ")[1:]] == [b"422", b"400"]


@pytest.mark.parametrize("token", ["", "dpi_a_b"])
def test_who_has_no_token_holds_no_slot(found, token):
    """A head without a right to come in is refused before its body; no slot waits for it, whatever the client does."""
    with connect(found) as connection:
        connection.sendall(f"{HEAD}Authorization: Bearer {token}\r\nContent-Length: 1000\r\n\r\n".encode())
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 401")
        assert until(lambda: not found.service.receipts._open)


@pytest.mark.parametrize("address", ["http://x:999999/events", "http://[/events", "http://events", "/event%73"])
def test_an_address_that_is_none_holds_no_slot(found, address):
    """It is refused before it is a request, so nothing could settle what was noted of it."""
    with connect(found) as connection:
        head = HEAD.replace("/v1/streams/visits/events?producer=p&sequence=0", address)
        assert address in head
        connection.sendall(f"{head}Content-Length: 1000\r\n\r\n".encode())
        assert connection.recv(1 << 16)
        assert until(lambda: not found.service.receipts._open)


def test_what_follows_a_body_has_a_limit(tmp_path):
    """Trailers are nothing that is asked for: a connection that goes on with them ends, before its time is over."""
    with running(tmp_path, patience=60.0) as found, connect(found) as connection:
        sent, began = 0, time.monotonic()
        with suppress(OSError):
            connection.sendall(ASK.replace(b"Host", b"Transfer-Encoding: chunked\r\nHost") + b"\r\n0\r\n")
            connection.recv(1 << 12)  # it is answered
            while sent < 1 << 26:
                connection.sendall(b"x: y\r\n" * 10_000)
                sent += 60_000
        assert time.monotonic() - began < 9  # connections.HEADERS are ten seconds
        assert sent < 1 << 25  # what the network itself holds


def test_a_body_that_was_not_asked_for_does_not_end_the_next_request(tmp_path):
    """It is refused by its head, and read to its end; what comes with its last bytes is answered."""
    with running(tmp_path, patience=60.0) as found, connect(found) as connection:
        head = ASK.replace(b"/v1/health", b"/v1/streams/visits/events").replace(b"GET", b"POST")
        connection.sendall(head + b"Content-Length: 90000\r\n\r\n")
        assert read_answer(connection)[0] == 401
        with held(found, 0.5):  # so that one read has both
            connection.sendall(b"x" * 90_000 + ASK + b"\r\n")
        assert read_answer(connection)[0] == 200


def test_who_does_not_read_holds_no_slot(tmp_path):
    """An answer that is not taken waits; the slots do not wait with it, for whoever has no token least of all."""
    with running(tmp_path, connections=20) as found, socket.socket() as connection:
        host, port = found.url.removeprefix("http://").split(":")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect((host, int(port)))
        for _ in range(40):  # more than the network itself holds
            connection.sendall(b"GET /v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n")
            time.sleep(0.05)
        connection.sendall(f"{HEAD}Content-Length: 10\r\n\r\n".encode())
        assert until(lambda: not found.service.receipts._open)


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


class Silent:
    """The transport of a connection that says nothing; aborted, it is lost a little later."""

    aborted = False

    def abort(self):
        """Be lost soon."""
        self.aborted = True

    def get_extra_info(self, name, default=None):
        """Tell nothing."""
        return default


def test_connections_that_come_at_once_each_take_the_place_of_another_one():
    """Of seven, with room for three, the first four are closed, before the loop has noted that any is lost."""

    async def come():
        connection = connections.make_connection_class(lambda: 60.0, lambda _: None, Arrivals(3))
        config, state = uvicorn.Config(lambda *_: None), ServerState()
        config.load()
        made = [Silent() for _ in range(7)]
        for transport in made:
            connection(config, state, {}).connection_made(transport)
        return [transport.aborted for transport in made]

    assert asyncio.run(come()) == [True] * 4 + [False] * 3


def test_connections_that_are_not_yet_made_have_a_limit():
    """In a handshake of TLS nobody counts a connection but who accepted it: the oldest ones end."""
    listening, *others = Arrivals(2).listen("127.0.0.1", 0)
    listening.listen()
    with ExitStack() as stack:
        made = [stack.enter_context(socket.create_connection(listening.getsockname(), timeout=5)) for _ in range(5)]
        accepted = [stack.enter_context(listening.accept()[0]) for _ in range(5)]
        assert [connection.recv(1) for connection in made[:3]] == [b""] * 3
        for connection, other in zip(made[3:], accepted[3:], strict=True):
            other.sendall(b"x")
            assert connection.recv(1) == b"x"
    for each in (listening, *others):
        each.close()
