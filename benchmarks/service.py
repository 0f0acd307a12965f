"""The service under load: what a second process on the same machine can send it, and what comes of it.

    python benchmarks/service.py load        seven minutes: batches as fast as they are answered, by way of sending
    python benchmarks/service.py flood       ten minutes of that by Arrow: memory and delay by the minute
    python benchmarks/service.py delay       200,000 events a second by Arrow: how late releases are seen
    python benchmarks/service.py readers     5,000 readers who follow by server-sent events, while batches come
    python benchmarks/service.py closing     how long slots take to close, and to be seen, with more and more users
    python benchmarks/service.py kills       kill -9 under load, twenty times

Each starts servers of its own, and sends over three connections. Load has the service with SQLite and PostgreSQL, and
beside it the same framework without privacy: it discards what it has decoded, or writes plain rows. Loads of the
service check that every acknowledged event is in exactly one closed slot (`serving/load.py`), and raise if one is not.

A release is seen `delay` after its slot has closed, or at the next whole number of delays if it was not ready: a
quarter of a second in `flood`, `delay` and `readers`, and one second, the default, in the others. Delays are measured
by a reader from the moment at which the slot closes. `--seconds` is how long batches are sent.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

import httpx
import numpy as np
import polars as pl

from dpi.service.tokens import Tokens
from measure import SLOT, Cell, record
from results import AT_MOST
from serving.load import BATCH, Follower, Load, Senders, checked
from serving.server import PRIVATE, Server, running

PARTS = (*SLOT, "service")
WAYS = {
    "arrow": "Arrow, SQLite", "ndjson": "NDJSON, SQLite", "postgres": "Arrow, PostgreSQL",
    "bare": "for comparison: framework alone, Arrow, discards events",
    "insert": "for comparison: framework, Arrow, plain rows into SQLite",
}  # fmt: skip
SECONDS = {"load": 60.0, "flood": 600.0, "delay": 120.0, "readers": 120.0}
QUICK_DELAY, RATE, MOST = "250ms", 200_000, 1.0
"""The goal: at this rate every release is seen within a second."""
PAIR = "median / worst"
PATIENCE = 10.0
"""Seconds that readers are given to see a slot."""


@dataclass
class Sent:
    """What a load has come to."""

    senders: Senders
    wall: float
    sizes: list[tuple[float, float]]
    """Moments on the clock, and MiB of the server then."""
    delays: dict[int, float]
    """Seconds after closing, by slot."""
    slots: int | None
    """That hold just what was acknowledged."""

    @property
    def rate(self) -> int:
        """Events acknowledged in a second."""
        return round(self.senders.events / self.wall)

    @property
    def seen(self) -> Cell:
        """The median and the worst delay."""
        return _seen(list(self.delays.values()))


def _seen(delays: list[float]) -> Cell:
    return [median(delays), max(delays)] if delays else None


def sent(server: Server, load: Load, seconds: float, rate: float | None = None) -> Sent:
    """Send to a server, and check what it has."""
    private = server.options["kind"] in PRIVATE
    follower = Follower(server) if private else None
    began, sizes = time.monotonic(), list[tuple[float, float]]()
    senders = Senders(server, load, seconds, rate)
    while senders.sending:
        sizes.append((time.time(), server.memory()))
        time.sleep(0.5)
    wall, slots = time.monotonic() - began, None
    if private:
        server.until_seen(senders.last_slot())
        slots = checked(senders)
    return Sent(senders, wall, sizes, dict(follower.delays) if follower else {}, slots)


def load(arguments: argparse.Namespace) -> None:
    """Every way of sending, as fast as it is answered."""
    rows, held = list[list[Cell]](), 0
    for way, name in WAYS.items():
        kind = {"arrow": "sqlite", "ndjson": "sqlite"}.get(way, way)
        with running(kind, arguments) as server:
            made = Load(arguments.users, arguments.bins, "ndjson" if way == "ndjson" else "arrow")
            load = sent(server, made, arguments.seconds)
        held += load.slots or 0
        quarter, waits = max(1, len(load.sizes) // 4), load.senders.waits
        sizes = [size for _, size in load.sizes]
        answers: Cell = [float(np.median(waits)), float(np.quantile(waits, 0.99))]
        memory: Cell = [float(np.mean(sizes[quarter : 2 * quarter])), float(np.mean(sizes[-quarter:]))]
        rows.append([name, load.rate, answers, memory, load.seen])
        print(rows[-1], flush=True)
    record(
        "service-load",
        parts=PARTS,
        about=f"{_setting(arguments)}; {arguments.seconds:g} s each, as fast as batches are answered.",
        columns=["", "events/s", "answer s, median / 99 %", "MiB, 2nd / last quarter", f"seen after closing s, {PAIR}"],
        rows=rows,
        notes=[f"All {held} slots of the service held just the acknowledged events."],
    )


def _setting(arguments: argparse.Namespace) -> str:
    return f"Slots of {arguments.slot} s, {arguments.bins:,} values, {arguments.users:,} users"


def flood(arguments: argparse.Namespace) -> None:
    """Memory and delay by the minute."""
    with running("sqlite", arguments, delay=QUICK_DELAY) as server:
        began = time.time()
        load = sent(server, Load(arguments.users, arguments.bins, "arrow"), arguments.seconds)
        closings = {slot: server.closing(slot) for slot in load.delays}
    minutes = [began + 60 * number for number in range(round(arguments.seconds / 60) + 1)]
    rows, moments = list[list[Cell]](), [answered / 1e6 for _, _, answered in load.senders.acknowledged]
    for number, (first, end) in enumerate(pairwise(minutes), 1):
        events = sum(first <= moment < end for moment in moments) * BATCH["arrow"]
        sizes = [size for moment, size in load.sizes if first <= moment < end]
        delays = [delay for slot, delay in load.delays.items() if first <= closings[slot] < end]
        rows.append([number, round(events / 60), max(sizes, default=None), _seen(delays)])
    record(
        "service-flood",
        parts=PARTS,
        about=f"{_setting(arguments)}; Arrow and SQLite, as fast as batches are answered.",
        columns=["minute", "events/s", "most MiB", f"seen after closing s, {PAIR}"],
        rows=rows,
        notes=[f"All {load.slots} slots held just the acknowledged events."],
    )


def delay(arguments: argparse.Namespace) -> None:
    """How late releases are seen at a rate that the service keeps up with."""
    with running("sqlite", arguments, delay=QUICK_DELAY) as server:
        load = sent(server, Load(arguments.users, arguments.bins, "arrow"), arguments.seconds, RATE)
    sizes, late = [size for _, size in load.sizes], list(load.delays.values())
    record(
        "service-delay",
        parts=PARTS,
        about=f"{_setting(arguments)}; {RATE:,} events/s by Arrow, SQLite, `delay` of {QUICK_DELAY}.",
        columns=["events/s", "most MiB", "slots", "seen after closing s, median", "worst"],
        rows=[[load.rate, max(sizes), len(late), median(late), max(late)]],
        notes=[f"All {load.slots} slots held just the acknowledged events."],
        goals=[
            (f"seen after closing at {RATE:,} events/s, median s:", median(late), AT_MOST, MOST),
            (f"seen after closing at {RATE:,} events/s, worst s:", max(late), AT_MOST, MOST),
        ],
    )


def readers(arguments: argparse.Namespace) -> None:
    """Many readers who follow, while batches come."""
    number, more = arguments.readers, {"delay": QUICK_DELAY, "connections": arguments.readers + 100}
    with running("sqlite", arguments, **more) as server:
        delays: list[dict[int, float]] = [{} for _ in range(number)]
        connecting = asyncio.Semaphore(200)
        issued = Tokens(Path(str(server.options["tokens"])))
        tokens = [issued.create("analyst") for _ in range(8)]  # of each, a quarter of the connections may follow

        async def connect(index: int) -> asyncio.Task[None]:
            async with connecting:
                reader, writer = await asyncio.open_connection("127.0.0.1", int(str(server.options["port"])))
                token = tokens[index % len(tokens)]
                lines = ["GET /v1/streams/visits/follow HTTP/1.1", "host: x", f"authorization: Bearer {token}"]
                writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
                await reader.readuntil(b"\r\n\r\n")
            return asyncio.create_task(follow(reader, writer, index))

        async def follow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, index: int) -> None:
            try:
                while line := await reader.readline():
                    if line.startswith(b"id: "):
                        slot = int(line[4:])
                        delays[index][slot] = time.time() - server.closing(slot)
            finally:
                writer.close()

        async def all_() -> tuple[Senders, list[int]]:
            tasks = await asyncio.gather(*(connect(index) for index in range(number)))
            began = time.time()
            made = Senders(server, Load(arguments.users, arguments.bins, "arrow"), arguments.seconds, RATE)
            await asyncio.sleep(arguments.seconds)
            ended = time.time() - PATIENCE
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            known = set().union(*delays)
            return made, sorted(slot for slot in known if began < server.closing(slot) < ended)

        senders, slots = asyncio.run(all_())
        senders.join()
        memory = server.memory()
    seen = [own[slot] for own in delays for slot in slots if slot in own]
    counts = [sum(slot in own for slot in slots) for own in delays]
    rate = round(senders.events / arguments.seconds)
    record(
        "service-readers",
        parts=PARTS,
        about=f"{_setting(arguments)}; SQLite, `delay` of {QUICK_DELAY}; readers and senders are one other process.",
        columns=["readers", "slots closed", "least that one saw", f"seen after closing s, {PAIR}", "events/s", "MiB"],
        rows=[[number, len(slots), min(counts), _seen(seen), rate, memory]],
    )


def closing(arguments: argparse.Namespace) -> None:
    """How long a slot takes to close, and to be seen, by the number of its users."""
    rows = list[list[Cell]]()
    for users in map(int, arguments.sizes.split(",")):
        with running("sqlite", arguments, lateness=1) as server:
            frame = pl.DataFrame({
                "user": [f"user{number:07d}" for number in range(users)],
                "value": [f"v{number % arguments.bins}" for number in range(users)],
            })  # fmt: skip
            follower, took, slots = Follower(server), [0.0], []
            kind = {"content-type": "application/vnd.apache.arrow.stream"}
            with httpx.Client(headers={**server.headers, **kind}, timeout=120) as client:
                for turn in range(2):
                    slots.append(int(time.time()) // server.slot + 1)
                    time.sleep(slots[-1] * server.slot - time.time() + 0.05)
                    for number, part in enumerate(frame.iter_slices(100_000)):
                        timed = part.with_columns(pl.lit(slots[-1] * server.slot * 1_000_000).alias("time"))
                        where = {"producer": f"{turn}", "sequence": str(number), "unit": "us"}
                        body = timed.write_ipc_stream(None).getvalue()
                        path = f"{server.url}/streams/visits/events"
                        client.post(path, params=where, content=body).raise_for_status()
                    server.until_seen(slots[-1])
                    took.append(server.metrics()['dpi_closing_seconds_sum{stream="visits"}'])
            seen = [follower.delays.get(slot, float("nan")) for slot in slots]
        rows.append([users, took[1], took[2] - took[1], seen])
    record(
        "service-closing",
        parts=PARTS,
        about=f"Slots of {arguments.slot} s, {arguments.bins:,} values, SQLite, no other load, `delay` of 1 s.",
        columns=["users in a slot", "first closes in s", "second closes in s", "seen after closing s, first / second"],
        rows=rows,
    )


def kills(arguments: argparse.Namespace) -> None:
    """Kill -9 under load: each acknowledged event is in exactly one slot, and nothing is released twice."""
    made = Load(2_000, arguments.bins, "arrow")
    with running("sqlite", arguments, slot=2, lateness=30) as server:  # a batch that waits for a restart is in time
        senders, rng = Senders(server, made, 3600), np.random.default_rng(2)
        for _ in range(arguments.times):
            time.sleep(float(rng.uniform(0.3, 2.0)))
            server.process.kill()
            server.process.wait()
            server.start()
        time.sleep(1)
        senders.until = time.monotonic()
        senders.join()
        server.until_seen(senders.last_slot())
        slots = checked(senders)
    record(
        "service-kills",
        parts=PARTS,
        columns=["kill -9", "batches acknowledged", "sent again", "slots with just these", "lost, or released twice"],
        rows=[[arguments.times, len(senders.acknowledged), senders.again, f"{slots} of {slots}", 0]],
    )


SECTIONS: dict[str, Callable[[argparse.Namespace], None]] = {
    "load": load, "flood": flood, "delay": delay, "readers": readers, "closing": closing, "kills": kills,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("section", choices=SECTIONS)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--slot", type=int, default=10)
    parser.add_argument("--bins", type=int, default=10_000)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--readers", type=int, default=5_000)
    parser.add_argument("--sizes", default="100000,300000,1000000", help="users in a slot, for `closing`")
    parser.add_argument("--times", type=int, default=20, help="for `kills`")
    parser.add_argument("--postgres", default="postgresql:///postgres")
    arguments = parser.parse_args()
    arguments.seconds = arguments.seconds or SECONDS.get(arguments.section)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    SECTIONS[arguments.section](arguments)


if __name__ == "__main__":
    main()
