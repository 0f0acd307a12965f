"""The export of a running service: what is seen at its moment and nothing else, also where slots never stop coming."""

import os
import socket
import sys
import threading
import time
from contextlib import ExitStack
from datetime import UTC, datetime

import pytest

import dpi
from dpi.service._exports import MOST, OF_ONE
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


WIDE = dpi.Categories([f"value {number:05d} {'x' * 80}" for number in range(20_000)])
"""Whose exports are more than the network holds of what is not read."""


def copies():
    """The sizes of files of this process that have no name any more."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{number}").endswith("public.db (deleted)"):
                found.append(os.stat(f"/proc/self/fd/{number}").st_size)
        except OSError:  # it was closed meanwhile
            continue
    return found


def wait_for(condition):
    """Wait until something is so."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def status(answer):
    """What an answer that nobody reads begins with."""
    return int(answer.recv(12, socket.MSG_PEEK).split()[1])


def rest(answer):
    """The body of an answer, read to its end."""
    read = bytearray()
    while b"\r\n\r\n" not in read:
        read += answer.recv(1 << 16)
    head, _, body = bytes(read).partition(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length: ")[2].split()[0])
    body = bytearray(body)
    while len(body) < size:
        part = answer.recv(1 << 16)
        assert part
        body += part
    return bytes(body)


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="open files are counted in /proc")


@linux
def test_unread_exports_of_one_token_are_one_copy_and_keep_out_nobody_else(tmp_path):
    """Two of 120 are given, from one file; the others are told to come again."""
    with running(tmp_path, settings(domain=WIDE, per_slot="0.001"), patience=60.0) as found, ExitStack() as stack:
        found.set(81)
        token = found.tokens["analyst"]
        unread = [stack.enter_context(found.unread("/v1/export", token)) for _ in range(120)]
        told = [status(each) for each in unread]
        whole = len(got(found, tmp_path / "public.db").read_bytes())
        assert sorted(told) == [200] * OF_ONE + [429] * (120 - OF_ONE)
        assert copies() == [whole]
        refused = found.client("analyst").get("/v1/export")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert refused.json()["detail"].startswith("this token has too many exports at a time")


@linux
def test_an_export_that_nobody_reads_is_left_with_its_copy(tmp_path):
    """After `patience` there is neither a file nor a place that is taken."""
    with running(tmp_path, settings(domain=WIDE, per_slot="0.001"), patience=1.0) as found, ExitStack() as stack:
        found.set(81)
        for _ in range(OF_ONE):
            stack.enter_context(found.unread("/v1/export", found.tokens["analyst"]))
        wait_for(lambda: not copies())
        got(found, tmp_path / "public.db", "analyst")


@linux
def test_an_export_stays_what_it_was_while_slots_close(tmp_path):
    """A slow reader and one who comes after the next release read files of their own, each whole and of its moment."""
    with running(tmp_path, settings(domain=WIDE, per_slot="0.001"), patience=60.0) as found, ExitStack() as stack:
        found.set(81)
        slow = stack.enter_context(found.unread("/v1/export", found.tokens["analyst"]))
        early = got(found, tmp_path / "early.db")
        assert len(copies()) == 1
        found.set(101)
        late = stack.enter_context(found.unread("/v1/export", found.tokens["curator"]))
        assert len(copies()) == 2
        assert rest(slow) == early.read_bytes()
        (tmp_path / "late.db").write_bytes(rest(late))
        for name, number in (("early.db", 8), ("late.db", 10)):
            with open_store(tmp_path / name, read_only=True) as opened:
                assert verify(opened).problems == ()
                assert len(dpi.open(opened)) == number
        wait_for(lambda: not copies())


@linux
def test_exports_of_all_tokens_have_a_limit(tmp_path):
    """Whoever comes when all places are taken is told so; a place that is left is there for the next."""
    with running(tmp_path, settings(domain=WIDE, per_slot="0.001"), patience=60.0) as found, ExitStack() as stack:
        found.set(81)
        tokens = [found.service.tokens.create("analyst") for _ in range(MOST // OF_ONE)]
        unread = [stack.enter_context(found.unread("/v1/export", token)) for token in tokens * OF_ONE]
        assert [status(each) for each in unread] == [200] * MOST
        full = found.client("auditor").get("/v1/export")
        assert (full.status_code, full.headers["retry-after"]) == (503, "1")
        assert len(copies()) == 1
        unread[0].close()
        wait_for(lambda: found.client("auditor").get("/v1/export").status_code == 200)
