"""The doors of a service: what one user's flood, and bodies that do not come, do to the batches of others.

    python benchmarks/doors.py

In every slot, 0.8 s before it closes, one batch of 1,000 users is sent with a token of its own. Beside that another
token holds bodies that never end, 64 of them, anew as soon as they are refused; or a third one sends at the beginning
of every third slot 40 batches with 5.2 million events of one user; or both. The budget is so large that a release says
how many users it holds: told are the others that are in the slot of their batch, how long their batches wait for an
answer, when releases are seen, and the memory of all processes of the service.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple

import httpx

from dpi.service.tokens import Tokens
from measure import SLOT, Cell, record
from results import AT_LEAST, AT_MOST
from serving.load import Follower
from serving.server import Server, running

PARTS, PAIR = (*SLOT, "service"), "median / worst"
OTHERS, BEFORE = 1000, 0.8
STALLED, BATCHES, ROWS, EVERY = 64, 40, 131_072, 3
STALLING = ("stalled",)
NAMES: dict[tuple[str, ...], str] = {
    (): "nothing else", STALLING: "64 bodies that do not come", ("flood",): "a flood of one user",
    ("stalled", "flood"): "both",
}  # fmt: skip
PATH = "POST /v1/streams/visits/events?producer={}&sequence=0&unit=us HTTP/1.1\r\nHost: x\r\n"


class Crowd:
    """Requests of another token, until the end."""

    def __init__(self, server: Server, token: str) -> None:
        self.address, self.token, self.ended = ("127.0.0.1", int(str(server.options["port"]))), token, False

    def send(self, producer: str, size: int, body: bytes) -> bytes:
        """Send a request, and return what is answered."""
        with suppress(OSError), socket.create_connection(self.address, timeout=120) as connection:
            head = f"{PATH.format(producer)}Authorization: Bearer {self.token}\r\n"
            kind = f"Content-Type: application/x-ndjson\r\nContent-Length: {size}\r\n\r\n"
            connection.sendall((head + kind).encode() + body)
            return connection.recv(1 << 12)
        return b""

    def stall(self, number: int) -> None:
        """Hold a body that does not come, again and again."""
        while not self.ended:
            self.send(f"stalled{number}", 1000, b"{")

    def flood(self, slot: int, moment: int) -> None:
        """Send many events of one user at once."""
        body = b'{"user":"eve","value":"v0","time":%d}\n' % moment * ROWS
        for number in range(BATCHES):
            name = f"eve-{slot}-{number}"
            threading.Thread(target=self.send, args=(name, len(body), body), daemon=True).start()


def memory(server: Server) -> float:
    """MiB of a server and the processes that it has started."""
    processes, size = {server.process.pid}, 0
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda each: int(each.name)):
        with suppress(OSError, ValueError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if int(folder.name) in processes or parent in processes:
                processes.add(int(folder.name))
                size += int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return size / (1 << 20)


class Played(NamedTuple):
    """What came of some slots beside a trouble."""

    waits: list[float]
    """Seconds until each batch of others was answered."""
    share: float
    """Of the others, in the slot of their batch."""
    seen: list[float]
    """Seconds after closing."""
    memory: float

    def row(self, name: str) -> list[Cell]:
        """A row of the table."""
        waits, seen = self.waits, self.seen
        return [name, [median(waits), max(waits)], self.share, [median(seen), max(seen)], self.memory]


def play(troubles: tuple[str, ...], slots: int, arguments: argparse.Namespace) -> Played:
    """Play some slots beside a trouble."""
    waits, sizes, seen, inside = list[float](), list[float](), list[float](), 0
    with running("sqlite", arguments, lateness=0, delay="250ms") as server:
        tokens = Tokens(Path(str(server.options["tokens"])))
        stalling, crowd, follower = *(Crowd(server, tokens.create("curator")) for _ in range(2)), Follower(server)
        for number in range(STALLED if "stalled" in troubles else 0):
            threading.Thread(target=stalling.stall, args=(number,), daemon=True).start()
        first = int(time.time()) // server.slot + 1

        def send(slot: int) -> None:
            line = '{{"user":"{} {}","value":"v1","time":{}}}\n'
            moment = round((slot * server.slot + 1) * 1e6)
            body = "".join(line.format(slot, number, moment) for number in range(OTHERS))
            given = {"producer": f"others{slot}", "sequence": "0", "unit": "us"}
            kind = {**server.headers, "content-type": "application/x-ndjson"}
            began, at = time.monotonic(), time.time()
            answer = httpx.post(
                f"{server.url}/streams/visits/events", params=given, content=body, headers=kind, timeout=300
            )
            waits.append(time.monotonic() - began)
            if answer.status_code != 200 or answer.json()["slot"] != slot:
                late = at - (slot + 1) * server.slot + BEFORE
                print(f"a batch that was sent {late:.2f} s late: {answer.status_code} {answer.text}")

        sending = []
        for slot in range(first, first + slots):
            time.sleep(max(0.0, slot * server.slot + 0.1 - time.time()))
            if "flood" in troubles and (slot - first) % EVERY == 0:
                crowd.flood(slot, slot * server.slot * 1_000_000)
            while time.time() < (slot + 1) * server.slot - BEFORE:
                sizes.append(memory(server))
                time.sleep(0.1)
            sending.append(threading.Thread(target=send, args=(slot,)))
            sending[-1].start()
        for thread in sending:
            thread.join()
        server.until_seen(first + slots - 1)
        stalling.ended = True
        for slot in range(first, first + slots):
            told = json.loads(httpx.get(f"{server.url}/streams/visits/releases/{slot}", headers=server.headers).content)
            flooded = "flood" in troubles and (slot - first) % EVERY == 0
            inside += round(told["total"]) - flooded  # one user
        seen = [delay for slot, delay in follower.delays.items() if first <= slot < first + slots]
    return Played(waits, inside / (slots * OTHERS), seen, max(sizes))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--slots", type=int, default=9)
    parser.add_argument("--slot", type=int, default=5)
    parser.add_argument("--bins", type=int, default=10)
    parser.add_argument("--postgres", default="")
    arguments = parser.parse_args()
    loads = {troubles: play(troubles, arguments.slots, arguments) for troubles in NAMES}
    record(
        "service-doors",
        parts=PARTS,
        about=f"Batches of {OTHERS:,} users, sent {BEFORE} s before their slots of {arguments.slot} s close, beside:",
        columns=[
            "",
            "answer s, median / worst",
            "share in their slot",
            "seen after closing s, median / worst",
            "most MiB",
        ],
        rows=[played.row(NAMES[troubles]) for troubles, played in loads.items()],
        goals=[
            (
                "share of others in the slot of their batch, least:",
                min(played.share for played in loads.values()),
                AT_LEAST,
                1.0,
            ),
            ("answer to others beside bodies that do not come, worst s:", max(loads[STALLING].waits), AT_MOST, 1.0),
        ],
    )


if __name__ == "__main__":
    main()
