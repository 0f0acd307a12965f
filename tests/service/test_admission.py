"""Whose rows are in which slot does not depend on one user, whatever that user's events do at the doors.

The twin of the ledger's neighbour test, for what comes before it: two real services side by side, on one clock, get the
same batches of other users at the same moments. One of them is flooded beside that with the events of one user. Every
other user's rows must be in the same slots, row by row as the slots close, before noise.

What others send: events of the open slot, some with times that are still to come in it; of a slot that has closed; of a
slot that has not begun; and a batch whose head comes before the slot closes and whose body ends after that. The times
of heads and last bytes keep a distance from closing times that a busy machine does not use up.
"""

import json
import os
import socket
import subprocess
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dpi.events.identity import name_users
from dpi.testing.workload import KEY
from service import flood
from serving import kept

SLOT = 6
SLOTS = 2
BEFORE = 2.0
"""Seconds between the heads of others' batches and the end of their slot."""
AHEAD = 1.0
"""Seconds between the beginning of the flood and the first of these heads."""
AFTER = 1.5
"""Seconds between that and the last byte of a batch that ends in the next slot."""
OTHERS = 200
SLOW = bool(os.environ.get("DPI_SLOW"))
FLOODS = [flood.KINDS, *([[kind] for kind in flood.KINDS] if SLOW else [])]
FOLDER = Path(__file__).parent


class Server:
    """A service that tells what its slots hold."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.slots, self.url, self.tokens = process, {}, "", []
        while not self.url:
            self.note()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        """Note slots as they close."""
        while self.note():
            pass

    def note(self) -> bool:
        """Take in a line."""
        told = json.loads(self.process.stdout.readline() or "{}")
        self.url, self.tokens = told.get("url", self.url), told.get("tokens", self.tokens)
        if "slot" in told:
            self.slots[told["slot"]] = [tuple(row) for row in told["rows"]]
        return bool(told)

    def closed(self, slot: int, seconds: float) -> float:
        """Wait until a slot is closed; return how long that took."""
        began = time.monotonic()
        while slot not in self.slots:
            assert time.monotonic() - began < seconds, "a slot was not closed"
            time.sleep(0.01)
        return time.monotonic() - began


def body(slot: int, name: str) -> bytes:
    """What others send in a slot, as lines."""
    begin = slot * SLOT
    ahead = SLOT - 0.5  # after the head and the last byte, and before the slot ends
    times = {"open": 1.0, "ahead": ahead, "late": -1.0, "future": 2.5 * SLOT}
    return b"".join(
        json.dumps({"user": f"{kind} {name} {number}", "time": round((begin + offset) * 1e6), "value": "home"}).encode()
        + b"\n"
        for kind, offset in times.items()
        for number in range(OTHERS)
    )


class Batch:
    """A batch that is sent by hand: its head at one moment, its last byte at another."""

    def __init__(self, server: Server, producer: str, content: bytes) -> None:
        host, port = server.url.removeprefix("http://").split(":")
        self.connection = socket.create_connection((host, int(port)), timeout=120)
        self.content = content
        self.head = (
            f"POST /v1/streams/visits/events?producer={producer}&sequence=0&unit=us HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Bearer {server.tokens[0]}\r\nContent-Type: application/x-ndjson\r\n"
            f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
        ).encode()

    def answer(self) -> tuple[int, dict]:
        """The status and what it says."""
        said = b""
        while part := self.connection.recv(1 << 16):
            said += part
        self.connection.close()
        return int(said[9:12]), json.loads(said.partition(b"\r\n\r\n")[2])


def wait(moment: float) -> None:
    """Wait for a moment of the clock."""
    time.sleep(max(0.0, moment - time.time()))


@pytest.fixture
def servers(tmp_path, process):
    """Two services that begin with the same slot."""
    (tmp_path / "key").write_text(KEY.hex())
    (tmp_path / "key").chmod(0o600)
    first = int(time.time()) // SLOT
    begin = datetime.fromtimestamp(first * SLOT, UTC).isoformat()
    found = []
    for name in ("without", "with"):
        (tmp_path / name).mkdir()
        found.append(process("recorded.py", tmp_path / name, tmp_path / "key", begin, f"{SLOT}s", 3))
    return [Server(each) for each in found]


@pytest.mark.parametrize("kinds", FLOODS, ids="+".join)
def test_nobody_moves_anybody_elses_rows(servers, process, kinds):
    """With and without one user's flood of rows, batches, connections, slow bodies and long texts."""
    _, flooded = servers
    first = int(time.time() + 2) // SLOT + 1
    begins = (first + 1) * SLOT - BEFORE - AHEAD
    process("flood.py", flooded.url, ",".join(flooded.tokens[1:]), first * SLOT * 1_000_000, begins, *kinds)
    answers = []
    for slot in range(first, first + SLOTS):
        wait((slot + 1) * SLOT - BEFORE)
        whole = [Batch(each, f"whole{slot}", body(slot, "whole")) for each in servers]
        across = [Batch(each, f"across{slot}", body(slot, "across")) for each in servers]
        for each in whole:
            each.connection.sendall(each.head + each.content)
        for each in across:
            each.connection.sendall(each.head + each.content[:100])
        wait((slot + 1) * SLOT + AFTER)
        for each in across:
            each.connection.sendall(each.content[100:])
        answers += [(slot, each) for each in (*whole, *across)]
    told = [each.answer() for _, each in answers]
    for each in servers:
        each.closed(first + SLOTS - 1, 120)
    slots = range(first, first + SLOTS)
    without, with_eve = ({slot: drop(each.slots[slot], "eve") for slot in slots} for each in servers)
    assert without == with_eve
    counted = [f"{kind} {name} {number}" for kind in ("open", "ahead") for name in ("whole", "across")
               for number in range(OTHERS)]  # fmt: skip
    for rows in without.values():
        assert rows == [(name, 0, 1) for name in sorted(names_of(counted))]
    assert told == [(200, kept(slot) | {"in_time": "most"}) for slot, _ in answers]


def names_of(users):
    """The names of accounts, as a process tells them."""
    return [f"{one:016x}{other:016x}" for one, other in name_users(users, KEY)[0].tolist()]


def drop(rows, user):
    """The rows of others. (An id as long as those of the flood is none.)"""
    return [row for row in rows if row[0] not in names_of([user])]
