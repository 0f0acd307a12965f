"""What nobody should send: each is refused with a sentence or read as it is, and the service goes on."""

import json
import socket

import pytest

from serving import BEGIN, FIRST, MOMENT, SECOND, running

EVENTS = "/v1/streams/visits/events"


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """A service with one open slot."""
    with running(tmp_path_factory.mktemp("bad"), now=MOMENT + 5 * SECOND, body=1 << 20) as made:
        yield made
        assert made.client().get("/v1/ready").status_code == 200


def by_hand(found, request, ends=True):
    """The answer to bytes that no client would send, after which the connection `ends`, or waits for the answer."""
    host, port = found.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as made:
        made.sendall(request)
        if ends:
            made.shutdown(socket.SHUT_WR)
        said = b""
        while part := made.recv(1 << 16):
            said += part
    return said


@pytest.mark.parametrize(
    "path",
    [
        "/v1/streams/../../etc/passwd", "/v1/streams/%2e%2e/%2e%2e/etc/passwd", "/v1/streams/..%2f..%2fvisits.db",
        "/v1/streams/visits%00/releases", "/v1/streams/visits%0d%0aX:%20y/releases", "//v1//streams//visits",
        "/v1/streams/visits/releases/..", "/v1/streams/%c0%af/releases", "/v1/streams/%ff/releases", "/v1/domains/../x",
        "/v1/streams/<script>/releases", "/v1/streams/visits/producers/%2e%2e%2f%2e%2e", "/v1/export/../../x",
        "/v1/streams/" + "x" * 5000, "/v1/streams/visits/releases/" + "9" * 400, "/v1/streams/visits/answers/%3Cb%3E",
        "http://elsewhere.example/v1/streams/none", "/v1/streams/visits/releases/1e400",
        "/v1/streams/visits/releases/NaN",
    ],
)  # fmt: skip
def test_path_tricks_lead_nowhere(found, path):
    """A path names a route and a stream, or nothing; it is never repeated in an answer."""
    head = f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    said = by_hand(found, f"{head}Authorization: Bearer {found.tokens['admin']}\r\n\r\n".encode(), ends=False)
    status = int(said.split()[1])
    assert 400 <= status < 500, said[:200]
    assert b"root:" not in said
    assert b"X: y" not in said
    assert b"<script>" not in said


NEW = {"name": "other", "domain": ["a"], "epsilon": 1, "slot": "1h", "from": BEGIN}


@pytest.mark.parametrize(
    "odd",
    [
        {"epsilon": 10**400}, {"epsilon": -1}, {"epsilon": 0}, {"epsilon": "1e999999999"}, {"epsilon": "NaN"},
        {"slot": "9" * 400 + "s"}, {"slot": "0s"}, {"slot": -5}, {"period": 10**30}, {"period": 0}, {"period": -1},
        {"slots": 10**30}, {"season": 10**30}, {"every": 10**30}, {"per-slot": 10**400}, {"quota": "2"},
        {"from": "9999-12-31T23:00:00+00:00"}, {"from": "0001-01-01T00:00:00+00:00"}, {"from": 10**30},
        {"domain": []}, {"domain": {"kind": "bins", "edges": [1, 1]}},
        {"domain": {"kind": "bins", "edges": [0, 10**400]}}, {"domain": {"kind": "file", "path": "/etc/passwd"}},
        {"domain": "/etc/passwd"}, {"domain": ["a", "a"]}, {"zone": "../../etc/passwd"}, {"zone": "/etc/localtime"},
        {"name": ""}, {"name": "x" * 101}, {"name": "a b"}, {"name": "<img src=x>"}, {"name": "ä"}, {"name": ".."},
        {"name": None}, {"name": ["x"]}, {"draw": "rba:1e400"}, {"converging": "zeta:1e400"},
        {"compression": "x" * 10_000}, {"lateness": "-1s"}, {"lateness": "9" * 50 + "d"},
    ],
    ids=lambda odd: json.dumps(odd)[:40],
)  # fmt: skip
def test_odd_options_open_no_stream(found, odd):
    """Huge, negative and empty numbers, odd names, files of the machine: refused with a sentence; nothing is there."""
    before = found.client("admin").get("/v1/streams").json()
    body = json.dumps(NEW | {"name": f"n{abs(hash(str(odd)))}"} | odd).encode()
    answer = found.client("admin").post("/v1/streams", content=body, headers={"content-type": "application/json"})
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.json()["detail"]
    assert "root:" not in answer.text
    assert found.client("admin").get("/v1/streams").json() == before


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 200_000, b'{"a":' * 100_000, b'{"name":' + b"9" * 100_000 + b"}", json.dumps(NEW).encode("utf-16"),
        json.dumps(NEW).encode("utf-32"), b"\xff\xfe\x00", b'{"name":"\xff"}', b"\x00" * 1000, b'{"name":"\\ud800"}',
        b"null", b"1", b'"x"', b"", b"{}", b'{"name":1e999}',
    ],
    ids=lambda body: repr(body[:16]),
)  # fmt: skip
@pytest.mark.parametrize("where", ["/v1/streams", EVENTS + "?producer=odd&sequence=0"])
def test_odd_documents_are_refused(found, where, body):
    """Deep, huge, in another encoding, or none: by their form, and the answer shows nothing of it."""
    role = "admin" if where == "/v1/streams" else "curator"
    answer = found.client(role).post(where, content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"


def test_rows_with_odd_numbers_and_texts_change_no_other(found):
    """Each is kept, and its producer is told of columns alone; of each batch the good row counts."""
    odd = [10**400, -(10**400), 1e308, "9" * 10_000, "\u0000", "\ud800", "x" * 100_000, None, True, [1], {"a": 1}, ""]
    before = int(found.service.store.events("visits", FIRST).counts.sum())
    for number, one in enumerate(odd):
        good = {"user": f"good {number}", "time": MOMENT + SECOND, "value": "home"}
        rows = [good, *({**good, "user": "bad", name: one} for name in ("user", "time"))]
        body = "\n".join(json.dumps(row) for row in rows).encode()
        given = {"producer": "numbers", "sequence": number, "unit": "us"}
        kind = {"content-type": "application/x-ndjson"}
        answer = found.client("curator").post(EVENTS, params=given, content=body, headers=kind)
        assert answer.status_code == 200, one
        said = answer.json()
        assert (said["kept"], said["slot"]) == (True, FIRST)
        assert said["understood"] in (("most", "few") if said["missing"] else ("all",))
    events = found.service.store.events("visits", FIRST)
    assert int(events.counts.sum()) - before >= len(odd)


def test_a_body_that_is_cut_off_is_not_kept(found):
    """A connection that ends before its last byte: no batch; the same number can be sent again."""
    whole = json.dumps({"user": ["cut"], "time": [MOMENT], "value": ["home"]}).encode()
    head = (
        f"POST {EVENTS}?producer=cut&sequence=0&unit=us HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {found.tokens['curator']}\r\n"
    )
    for framing, body in (
        (f"Content-Length: {len(whole)}\r\n\r\n", whole[:-1]),
        ("Transfer-Encoding: chunked\r\n\r\n", b"%x\r\n%b\r\n" % (len(whole), whole)),
        (f"Content-Length: {len(whole)}\r\nTransfer-Encoding: chunked\r\n\r\n", whole),
        ("Content-Length: -1\r\n\r\n", whole),
        ("Content-Length: 1\r\nContent-Length: 2\r\n\r\n", whole),
        ("Content-Length: 99999999999999999999999\r\n\r\n", whole),
    ):
        assert b" 200 " not in by_hand(found, (head + framing).encode() + body).partition(b"\r\n")[0]
    assert found.service.store.sequence("visits", "cut") == -1
    framing = f"Connection: close\r\nContent-Length: {len(whole)}\r\n\r\n"
    assert b" 200 " in by_hand(found, (head + framing).encode() + whole, ends=False)
    assert found.service.store.sequence("visits", "cut") == 0


@pytest.mark.parametrize(
    "given",
    [
        {"producer": "", "sequence": "0"}, {"producer": "x" * 201, "sequence": "0"}, {"producer": "p"},
        {"producer": "a\nb", "sequence": "0"}, {"producer": "p", "sequence": "-1"}, {"sequence": "0"},
        {"producer": "p", "sequence": "9" * 30}, {"producer": "p", "sequence": "1.5"},
        {"producer": "p", "sequence": "٣"}, {"producer": "p", "sequence": "0", "unit": "y"},
        {"producer": "p", "sequence": "0", "x": "y"},
    ],
    ids=str,
)  # fmt: skip
def test_odd_parameters_keep_nothing(found, given):
    """Producers and numbers that are none."""
    answer = found.client("curator").post(EVENTS, params=given, json={"user": [], "time": [], "value": []})
    assert answer.status_code == 422
