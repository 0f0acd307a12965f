"""The service under load: what a second process on the same machine can send it, and what comes of it.

    python benchmarks/service.py                 about 15 minutes: two minutes of load by Arrow and by NDJSON
    python benchmarks/service.py --quick         about 6 minutes
    python benchmarks/service.py --rows arrow,curve --seconds 600 …

Each row starts a server of its own and sends batches as fast as they are answered, over three connections:

    arrow, ndjson, postgres         the service (SQLite, SQLite, PostgreSQL)
    bare, bare-ndjson               the same framework: it decodes, and discards
    insert, copy                    the same framework, with plain rows into SQLite, or COPY into PostgreSQL: no privacy
    curve                           how long slots take to close, and to be seen, with more and more users
    readers                         500 readers who follow, while batches come
    kills                           kill -9 under load, twenty times

It prints Markdown. Rows of the service check that every acknowledged event is in exactly one closed slot
(`serving/load.py`), and raise if one is not. Events per CPU-second are those of the server's process; on a machine that
does other things as well, they say more than those per second.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

import httpx
import numpy as np
import polars as pl

from serving.load import Follower, Load, Senders, checked
from serving.server import PRIVATE, Server, running

ROWS = ("arrow", "ndjson", "postgres", "bare", "bare-ndjson", "insert", "copy", "curve", "readers", "kills")
LONG = ("arrow", "ndjson")
"""Rows that take the whole time; others a quarter of it."""
NAMES = {
    "arrow": "service, Arrow, SQLite", "ndjson": "service, NDJSON, SQLite", "postgres": "service, Arrow, PostgreSQL",
    "bare": "bare framework, Arrow: decodes and discards", "bare-ndjson": "bare framework, NDJSON",
    "insert": "framework with plain rows into SQLite, Arrow", "copy": "framework with COPY into PostgreSQL, Arrow",
}  # fmt: skip
STAGES = ("decoding", "admission", "keeping", "ledger", "mechanism", "store")
READERS = 500


@dataclass
class Report:
    """Rows of Markdown tables, by table."""

    rows: dict[str, list[str]] = field(default_factory=dict)

    def add(self, head: str, *cells: str) -> None:
        """A row of the table with this head."""
        self.rows.setdefault(head, []).append(f"| {' | '.join(cells)} |")
        print(self.rows[head][-1], file=sys.stderr, flush=True)

    def print(self) -> None:
        """All tables."""
        for head, rows in self.rows.items():
            print(f"\n|{head}|\n|{'---|' + '---:|' * head.count('|')}", *rows, sep="\n")


def loaded(name: str, arguments: argparse.Namespace, report: Report) -> None:
    """One row of load."""
    kind = {"arrow": "sqlite", "ndjson": "sqlite"}.get(name, name.removesuffix("-ndjson"))
    load = Load(arguments.users, arguments.bins, "ndjson" if name.endswith("ndjson") else "arrow")
    seconds = arguments.seconds if name in LONG else max(10.0, arguments.seconds / 4)
    with running(kind, arguments) as server:
        follower = Follower(server) if kind in PRIVATE else None
        before, began = server.cpu(), time.monotonic()
        senders = Senders(server, load, seconds)
        while senders.sending:
            server.sizes.append(server.memory())
            time.sleep(0.5)
        wall, cpu = time.monotonic() - began, server.cpu() - before
        exact, seen, metrics = "–", "–", dict[str, float]()
        if follower is not None:
            server.until_seen(senders.last_slot())
            slots, metrics = checked(senders), server.metrics()
            exact, seen = f"{slots} of {slots}", _seen(list(follower.delays.values()))
    quarter = max(1, len(server.sizes) // 4)
    report.add(
        " | events/s | per CPU-second | answers, p50 and p99 | memory, 2nd and last quarter | slots that hold just "
        "what was acknowledged | seen after closing, p50 and worst ",
        NAMES[name], f"{senders.events / wall:,.0f}", f"{senders.events / cpu:,.0f}",
        f"{np.median(senders.waits):.2f} s, {np.quantile(senders.waits, 0.99):.2f} s",
        f"{np.mean(server.sizes[quarter : 2 * quarter]):.0f} → {np.mean(server.sizes[-quarter:]):.0f} MiB", exact, seen,
    )  # fmt: skip
    if kind in PRIVATE:
        _shares(name, metrics, report)


def _seen(delays: list[float]) -> str:
    return f"{np.median(delays):.2f} s, {max(delays):.2f} s" if delays else "none"


def _shares(name: str, found: dict[str, float], report: Report) -> None:
    """Where the server's time went, by stage."""
    seconds = [found.get(f'dpi_stage_seconds_total{{stage="{stage}"}}', 0.0) for stage in STAGES]
    cells = [f"{part / sum(seconds):.0%}" for part in seconds]
    report.add(
        " share of time | parsing | admission | keeping | closing: events to accounts | closing: mechanism | closing: "
        "store ",
        NAMES[name], *cells,
    )  # fmt: skip


def curve(arguments: argparse.Namespace, report: Report) -> None:
    """How long a slot takes to close, and to be seen, by the number of its users."""
    for users in (100_000, 1_000_000) if arguments.quick else (100_000, 300_000, 1_000_000):
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
            delays = [follower.delays.get(slot, float("nan")) for slot in slots]
        report.add(
            " active users in a slot | a first slot closes in | another one in | seen after closing ",
            f"{users:,}", f"{took[1]:.2f} s", f"{took[2] - took[1]:.2f} s", f"{delays[0]:.2f} s, {delays[1]:.2f} s",
        )  # fmt: skip


def readers(arguments: argparse.Namespace, report: Report) -> None:
    """Many readers who follow, while batches come."""
    load, seconds = Load(arguments.users, arguments.bins, "arrow"), max(45.0, arguments.seconds / 2)
    with running("sqlite", arguments, lateness=1) as server:
        delays: list[list[float]] = [[] for _ in range(READERS)]

        async def follow(index: int) -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(str(server.options["port"])))
            lines = ["GET /v1/streams/visits/follow HTTP/1.1", "host: x", f"authorization: {_token(server)}"]
            writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
            try:
                while line := await reader.readline():
                    if line.startswith(b"id: "):
                        delays[index].append(time.time() - server.closing(int(line[4:])))
            finally:
                writer.close()

        async def all_() -> None:
            tasks = [asyncio.create_task(follow(index)) for index in range(READERS)]
            await asyncio.sleep(seconds)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        senders = Senders(server, load, seconds)
        asyncio.run(all_())
        senders.join()
    seen, counts = [each for own in delays for each in own], {len(own) for own in delays}
    report.add(
        " readers who follow | slots that each has seen | seen after closing, p50, p99 and worst | events/s beside it ",
        f"{READERS}", f"{min(counts)} to {max(counts)}",
        f"{np.median(seen):.2f} s, {np.quantile(seen, 0.99):.2f} s, {max(seen):.2f} s",
        f"{senders.events / seconds:,.0f}",
    )  # fmt: skip


def _token(server: Server) -> str:
    return server.headers["authorization"]


def kills(arguments: argparse.Namespace, report: Report) -> None:
    """Kill -9 under load: each acknowledged event is in exactly one slot, and nothing is released twice."""
    times = 5 if arguments.quick else 20
    load = Load(2_000, arguments.bins, "arrow")
    with running("sqlite", arguments, slot=2, lateness=30) as server:  # a batch that waits for a restart is in time
        senders, rng = Senders(server, load, 3600), np.random.default_rng(2)
        for _ in range(times):
            time.sleep(float(rng.uniform(0.3, 2.0)))
            server.process.kill()
            server.process.wait()
            server.start()
        time.sleep(1)
        senders.until = time.monotonic()
        senders.join()
        server.until_seen(senders.last_slot())
        slots = checked(senders)
    report.add(
        " kill -9 under load | batches acknowledged | sent again | slots that hold just what was acknowledged | lost, "
        "or released twice ",
        f"{times} times", f"{len(senders.acknowledged):,}", f"{senders.again:,}", f"{slots} of {slots}", "none",
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--slot", type=int, default=10)
    parser.add_argument("--bins", type=int, default=10_000)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--postgres", default="postgresql:///postgres")
    parser.add_argument("--rows", default=",".join(ROWS))
    arguments = parser.parse_args()
    arguments.seconds = arguments.seconds or (40.0 if arguments.quick else 120.0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    asked, report = arguments.rows.split(","), Report()
    if {"postgres", "copy"} & set(asked) and not _reached(arguments.postgres):
        asked = [name for name in asked if name not in ("postgres", "copy")]
        print(f"no PostgreSQL at {arguments.postgres}: two rows are left out; name one with --postgres.")
    special = {"curve": curve, "readers": readers, "kills": kills}
    began = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}"
    for name in asked:
        special[name](arguments, report) if name in special else loaded(name, arguments, report)
    print(f"{began}; slots of {arguments.slot} s, {arguments.bins:,} bins, {arguments.users:,} users, "
          f"{arguments.seconds:.0f} s of load")  # fmt: skip
    report.print()


def _reached(url: str) -> bool:
    import psycopg

    try:
        psycopg.connect(url, connect_timeout=5).close()
    except psycopg.Error:
        return False
    return True


if __name__ == "__main__":
    main()
