"""Two neighbouring streams with equal releases: every other byte that an analyst can reach is equal as well."""

import threading
import time

import pytest

from dpi.service._routes import ENDPOINTS
from equal_releases import force_equal_releases
from serving import FIRST, MOMENT, SECOND, running, settings

SLOTS = 3
FLOOD = 3000
OTHERS = [(f"user {number}", ("home", "search")[number % 2]) for number in range(20)]


@pytest.fixture
def equal_releases(monkeypatch):
    """Measurements that are made of nothing."""
    force_equal_releases(monkeypatch)


def reached(found):
    """What every route says to an analyst, whether it gives something or not: statuses, headers and bodies."""
    said = {}
    client = found.client("analyst")
    seen = found.service.publication.upto("visits")
    events = 0 if seen is None else seen - FIRST + 1
    places = {
        "stream": ["visits", "nobody"],
        "slot": [*range(FIRST - 1, FIRST + SLOTS + 1), "newest"],
        "question": ["top", "total", "probability", "count", "l1", "kl", "join-size", "why"],
        "producer": ["p", "q", "eve 0"],
        "digest": [client.get("/v1/streams/visits").json()["domain"], "none"],
    }
    beside = {"beside": FIRST}
    given = {"top": {"k": 2}, "probability": {"value": "home"}, "l1": beside, "kl": beside, "join-size": beside,
             "picture": {"search": "e"}, "series": {"code": [0, 1], "columns": 2}}  # fmt: skip
    for endpoint in ENDPOINTS:
        paths = [endpoint.path]
        for name, options in places.items():
            paths = [
                path.replace(f"{{{name}}}", str(each)) for path in paths for each in (options if name in path else [""])
            ]
        for path in paths:
            more = given.get(path.rpartition("/")[2], {})
            if endpoint.path.endswith("/follow"):
                more = {"since": FIRST - 1}
            with client.stream(endpoint.method, path, params=more) as answer:
                if endpoint.path.endswith("/follow") and answer.status_code == 200:
                    lines = 2 + 4 * events  # what is there before it waits
                    body = b"".join(line.encode() for _, line in zip(range(lines), answer.iter_lines(), strict=False))
                else:
                    body = answer.read()
                headers = sorted(item for item in answer.headers.items() if item[0] != "date")
                said[f"{endpoint.method} {path}"] = (answer.status_code, headers, body)
    for path, more in MORE:
        answer = client.get(path, headers=more)
        headers = sorted(item for item in answer.headers.items() if item[0] != "date")
        said[f"{path} {more}"] = (answer.status_code, headers, answer.content)
    return said


MORE = [
    ("/v1/streams/visits/releases", {"accept": "application/x-ndjson"}),
    (f"/v1/streams/visits/releases?since={FIRST}&limit=1", {}),
    (f"/v1/streams/visits/releases?first={FIRST + 1}&end={FIRST + 2}", {}),
    (f"/v1/streams/visits?first={FIRST + 1}", {}),
    (f"/v1/streams/visits/picture?beside={FIRST}", {}),
    ("/v1/streams/visits/releases", {"accept": "application/vnd.apache.parquet"}),
    ("/v1/streams/visits/releases", {"accept": "application/vnd.apache.arrow.stream"}),
    (f"/v1/streams/visits/answers/top?k=1&first={FIRST}&end={FIRST + SLOTS}&level=0.5", {}),
    ("/v1/chain?after=0&limit=2", {}),
    ("/v1/nowhere", {}),
    ("/v1/health", {"authorization": "Bearer x"}),
]
"""Requests with parameters."""


def slow_down(service, monkeypatch):
    """Have every slot take as long as a flood would make it."""
    close = service.closing.step

    def slower():
        before = service.store.reached("visits")
        pause = close()
        if service.store.reached("visits") != before:
            time.sleep(0.05)
        return pause

    ready = service.publication.ready
    monkeypatch.setattr(service.closing, "step", slower)
    monkeypatch.setattr(service.publication, "ready", lambda *said, at: ready(*said, at=at + 3 * SECOND // 2))


def seen(folder, with_eve, monkeypatch):
    """All that an analyst reaches of a stream with, or without, one user who does whatever they can, and when."""
    folder.mkdir()
    moments, views = [], []
    with running(folder, settings(per_slot="0.4"), delay="2s", sign=folder.with_name("signing.pem")) as found:
        if with_eve:
            slow_down(found.service, monkeypatch)
        for slot in range(SLOTS):
            begin = 10 * slot
            found.clock.now = MOMENT + (begin + 5) * SECOND
            assert found.send([(user, begin + 1.0, value) for user, value in OTHERS], slot).status_code == 200
            if with_eve:
                found.send([("eve", begin + 2.0, "home")] * FLOOD, slot, "q")
                found.send([("eve", 1e9, "home"), ("eve", begin, "\0"), ("", begin, "home")] * 10, 0, f"eve {slot}")
                assert found.client("curator").post(
                    "/v1/streams/visits/events", params={"producer": "q", "sequence": 99}, content=b"eve"
                ).status_code == 415  # fmt: skip
            if slot == 1:
                views.append(reached(found))  # while the slot is open, and holds what it holds
            found.set(begin + 10)
            if slot == 1:
                views.append(reached(found))  # when it is closed, and not yet to be seen
            for tenth in range(30):
                found.clock.now = MOMENT + (begin + 10) * SECOND + tenth * SECOND // 10
                moments.append((tenth, found.service.publication.upto("visits"), found.service.publication.entry))
            views.append(found.client("analyst").get("/v1/streams/visits").content)
        said = reached(found)
    return said, moments, views


def test_whatever_else_an_analyst_reaches_is_equal(tmp_path, equal_releases, monkeypatch):
    """With and without one user who floods, comes late, sends rubbish and is refused: bytes and moments are equal."""
    without, with_eve = (seen(tmp_path / name, name == "with", monkeypatch) for name in ("without", "with"))
    assert without[1] == with_eve[1]
    assert without[2] == with_eve[2]
    for name, said in without[0].items():
        assert said == with_eve[0][name], name
    statuses = {name: said[0] for name, said in without[0].items()}
    assert statuses[f"GET /v1/streams/visits/releases/{FIRST + 1}"] == 200
    assert statuses["GET /v1/export"] == 200
    for name in ("picture", "series", "alerts"):
        assert statuses[f"GET /v1/streams/visits/{name}"] == 200
    assert statuses["POST /v1/streams/visits/events"] == 403
    assert threading.active_count() < 60
