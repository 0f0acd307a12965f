"""The export of a running service: what is seen at its moment and nothing else, also where slots never stop coming."""

import threading
import time
from datetime import UTC, datetime

import pytest

import dpi
from dpi.store import open_store
from dpi.store.export import export
from dpi.verification import verify
from serving import FIRST, MOMENT, SECOND, running, settings


def got(found, path, role="auditor"):
    """The export as a file."""
    answer = found.client(role).get("/v1/export")
    assert answer.status_code == 200, answer.text
    path.write_bytes(answer.content)
    return path


@pytest.mark.parametrize(
    "options",
    [{"per_slot": "0.01"}, {}, {"per_slot": "0.01", "accumulate": "tree:0.01"}, {"converging": "zeta:2"}],
    ids=["ledger", "by class", "tree", "converging"],
)
def test_an_export_ends_with_what_is_seen(tmp_path, options):
    """With releases that wait for their moment: the bytes are those of the export before they were made."""
    with running(tmp_path, settings(**options), delay="20s") as found:
        store = found.service.store
        for slot in range(6):
            found.clock.now = MOMENT + (10 * slot + 5) * SECOND
            assert found.send([(f"user {n}", 10 * slot + 1, "home") for n in range(5)], slot).status_code == 200
            found.set(10 * slot + 10)
            export(store, tmp_path / f"{slot}.db")
            seen = found.service.publication.upto("visits")
            assert seen == (None if slot < 2 else FIRST + slot - 2)
            public = got(found, tmp_path / f"public {slot}.db")
            if seen is not None:
                assert public.read_bytes() == (tmp_path / f"{seen - FIRST}.db").read_bytes()
            with open_store(public, read_only=True) as opened:
                assert verify(opened).problems == ()
                assert [release.slot for release in dpi.open(opened)] == [FIRST + n for n in range(slot - 1)]


def test_options_that_are_declared_behind_a_release_come_with_it(tmp_path):
    """A stream that is opened, or changed, while a release waits: the export is whole before and after."""
    with running(tmp_path, settings(per_slot="0.1"), delay="5s") as found:
        admin = found.client("admin")
        new = {"domain": ["a"], "epsilon": 1, "slot": "10s", "per-slot": 0.1}
        begin = "2026-01-01T00:00:00+00:00"
        early = {"name": "early", "from": begin, **new}
        assert admin.post("/v1/streams", json=early).status_code == 201
        found.set(10)
        changed = {**new, "domain": ["home", "shop"], "change": "2026-01-01T00:01:00+00:00"}
        assert admin.put("/v1/streams/visits", json=changed).status_code == 200
        assert admin.post("/v1/streams", json={"name": "late", "from": begin, **new}).status_code == 201
        for seconds, names in ((11, ["early", "visits"]), (16, ["early", "late", "visits"])):
            found.clock.now = MOMENT + seconds * SECOND
            with open_store(got(found, tmp_path / f"{seconds}.db"), read_only=True) as opened:
                assert verify(opened).problems == ()
                assert sorted(opened.streams()) == names
                assert len(opened.options("visits").entries) == (1 if seconds == 11 else 2)


def test_an_export_is_there_while_slots_of_a_second_are_late_by_one(tmp_path):
    """By the system's clock and under load: a slot is always on its way, and every export is whole and of its time."""
    begin = datetime.now(UTC).replace(microsecond=0).isoformat()
    with running(tmp_path, settings(slot="1s", begin=begin, per_slot="0.001"), now=None, delay="1s") as found:
        stop = threading.Event()

        def load():
            sequence = 0
            with dpi.connect(found.url, found.tokens["curator"]) as service:
                stream = service.stream("visits", producer="load")
                while not stop.wait(0.01):
                    now = datetime.now(UTC)
                    stream.append([f"user {n}" for n in range(200)], [now] * 200, ["home"] * 200)
                    sequence += 1

        sending = threading.Thread(target=load)
        sending.start()
        try:
            numbers, deadline = [], time.monotonic() + 60
            while len(set(numbers)) < 4:
                assert time.monotonic() < deadline
                before = found.service.publication.entry
                public = got(found, tmp_path / "public.db")
                after = found.service.publication.entry
                with open_store(public, read_only=True) as opened:
                    assert verify(opened).problems == ()
                    assert before <= opened.head().sequence <= after
                    numbers.append(len(dpi.open(opened)))
                time.sleep(0.2)
        finally:
            stop.set()
            sending.join(60)
    assert numbers == sorted(numbers)
