"""The service under load: what a second process on the same machine can send it, and what comes of it.

    python benchmarks/service.py [--seconds 120] [--slot 10] [--bins 10000] [--users 100000] [--postgres URL]
                                 [--rows arrow,ndjson,…]

Each row starts a server of its own and sends batches as fast as they are answered, over a few connections:

    arrow, ndjson, postgres         the service (SQLite, SQLite, PostgreSQL)
    bare, bare-ndjson               the same framework: it decodes, and discards
    insert, copy                    the same framework, with plain rows into SQLite, or COPY into PostgreSQL: no privacy
    curve                           how long a slot takes to close with more and more users
    readers                         500 readers who follow, while batches come
    kills                           kill -9 under load, twenty times

Budgets are so large (1024 in each slot) that a release says how many users the slot had, to a seventh of a user on
10,000 bins: a row checks that every slot holds the users of the batches that were acknowledged for it, to within one.
Events per CPU-second are those of the server's process; on a machine that does other things as well, they say more than
those per second.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import httpx
import numpy as np
import polars as pl

import dpi
from dpi.service.tokens import Tokens

HERE = Path(__file__).parent
GRAINS = 1 << 24
CONNECTIONS = 3
BATCH = {"arrow": 40_000, "ndjson": 10_000}
LATENESS = 2
ROWS = ("arrow", "ndjson", "postgres", "bare", "bare-ndjson", "insert", "copy", "curve", "readers", "kills")


@dataclass
class Load:
    """What is sent: fixed columns of users and values, with the time of sending."""

    users: int
    bins: int
    kind: str
    batches: list[tuple[set[int], object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng, size = np.random.default_rng(1), BATCH[self.kind]
        for _ in range(8):
            who, where = rng.integers(0, self.users, size), rng.integers(0, self.bins, size)
            users, values = [f"user{number:07d}" for number in who], [f"v{number}" for number in where]
            columns: object = pl.DataFrame({"user": users, "value": values})
            if self.kind == "ndjson":
                pairs = zip(users, values, strict=True)
                columns = [b'{"user":"%s","value":"%s","time":' % (u.encode(), v.encode()) for u, v in pairs]
            self.batches.append((set(who.tolist()), columns))

    def body(self, number: int, now: int) -> bytes:
        """A batch of events that happen at a moment, in microseconds."""
        columns = self.batches[number % len(self.batches)][1]
        if isinstance(columns, list):
            end = b"%d}\n" % now
            return end.join(columns) + end
        assert isinstance(columns, pl.DataFrame)
        return columns.with_columns(pl.lit(now).cast(pl.Int64).alias("time")).write_ipc_stream(None).getvalue()

    @property
    def media(self) -> str:
        """The media type."""
        return "application/x-ndjson" if self.kind == "ndjson" else "application/vnd.apache.arrow.stream"


@dataclass
class Server:
    """A server process, and what it has taken of the machine."""

    options: dict[str, object]
    process: subprocess.Popen[bytes]
    sizes: list[float] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.options['port']}/v1"

    def cpu(self) -> float:
        """Seconds of CPU."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """MiB in use."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def start(options: dict[str, object]) -> Server:
    """Start a server and wait until it answers."""
    command = [sys.executable, str(HERE / "serving" / "child.py"), json.dumps(options)]
    server = Server(options, subprocess.Popen(command))
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            if httpx.get(f"{server.url}/ready").status_code == 200:
                return server
        except httpx.TransportError:
            time.sleep(0.05)
    raise AssertionError("the server does not start")


@contextmanager
def running(kind: str, arguments: argparse.Namespace, **more: object) -> Iterator[tuple[Server, dict[str, str]]]:
    """A server of a kind, and the headers of its curator."""
    with tempfile.TemporaryDirectory() as folder:
        tokens, schema = Tokens(Path(folder) / "tokens.json"), "dpi_bench_" + secrets.token_hex(4)
        mark = "&" if "?" in str(arguments.postgres) else "?"
        options: dict[str, object] = {
            "kind": kind, "folder": folder, "tokens": str(tokens.path), "bins": arguments.bins,
            "slot": arguments.slot, "lateness": LATENESS, "port": _port(), "schema": schema,
            "postgres": f"{arguments.postgres}{mark}schema={schema}",
            "begin": datetime.fromtimestamp(int(time.time()) // arguments.slot * arguments.slot, UTC).isoformat(),
        } | more  # fmt: skip
        headers = {"authorization": f"Bearer {tokens.create('curator')}"}
        server = start(options)
        try:
            yield server, headers
        finally:
            if server.process.poll() is None:
                server.process.send_signal(signal.SIGTERM)
                server.process.wait(60)
            if kind in ("postgres", "copy"):
                _drop(arguments.postgres, schema)


def _drop(url: str, schema: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')


def _port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Senders:
    """Sends batches over a few connections until a moment, each again until it is acknowledged."""

    def __init__(self, server: Server, headers: dict[str, str], load: Load, until: float) -> None:
        self.server, self.headers, self.load, self.until = server, headers, load, until
        self.acknowledged: list[tuple[int, int, int]] = []
        """Of each batch: the moment of its events, its number, and the moment of its answer."""
        self.waits: list[float] = []
        self.again = 0
        self._turn = threading.Lock()
        self._threads = [
            threading.Thread(target=self._send, args=(number,), daemon=True) for number in range(CONNECTIONS)
        ]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Wait for the last answers."""
        for thread in self._threads:
            thread.join()

    def _send(self, producer: int) -> None:
        with httpx.Client(headers={**self.headers, "content-type": self.load.media}, timeout=60) as client:
            sequence = 0
            while time.monotonic() < self.until:
                now, number = time.time_ns() // 1000, sequence * CONNECTIONS + producer
                body, began = self.load.body(number, now), time.monotonic()
                where = {"producer": str(producer), "sequence": str(sequence), "unit": "us"}
                while not self._post(client, body, where):
                    time.sleep(0.02)
                with self._turn:
                    self.acknowledged.append((now, number, time.time_ns() // 1000))
                    self.waits.append(time.monotonic() - began)
                sequence += 1

    def _post(self, client: httpx.Client, body: bytes, where: dict[str, str]) -> bool:
        try:
            answer = client.post(f"{self.server.url}/streams/visits/events", params=where, content=body)
        except httpx.TransportError:
            answer = None
        if answer is not None and answer.status_code not in (200, 429, 503):
            raise AssertionError(answer.text)
        done = answer is not None and answer.status_code == 200
        self.again += not done
        return done

    @property
    def events(self) -> int:
        """How many were acknowledged."""
        return len(self.acknowledged) * BATCH[self.load.kind]


class Follower(threading.Thread):
    """Reads server-sent events, and notes how long after its closing moment each slot was seen."""

    def __init__(self, server: Server, headers: dict[str, str], slot: int) -> None:
        super().__init__(daemon=True)
        self.server, self.headers, self.slot, self.delays = server, headers, slot, dict[int, float]()

    def run(self) -> None:
        """Read until the server ends."""
        while self.server.process.poll() is None:
            try:
                url = f"{self.server.url}/streams/visits/follow"
                with httpx.stream("GET", url, headers=self.headers, timeout=60) as answer:
                    for line in answer.iter_lines():
                        if line.startswith("id: "):
                            number = int(line[4:])
                            closing = (number + 1) * self.slot + LATENESS
                            self.delays.setdefault(number, time.time() - closing)
            except httpx.HTTPError:
                time.sleep(0.2)


def checked(options: dict[str, object], senders: Senders, slot: int, lateness: int = LATENESS) -> tuple[int, int]:
    """How many slots hold exactly the users whose batches were acknowledged, of how many; raises if one lacks some.

    A batch that was answered before its slot closed must be there. One that was answered later may have come in time,
    or late: a slot with such batches holds at least the users of the others, and at most all of them.
    """
    expected: dict[int, set[int]] = {}
    possible: dict[int, set[int]] = {}
    for moment, number, answered in senders.acknowledged:
        users, place = senders.load.batches[number % len(senders.load.batches)][0], moment // (slot * 1_000_000)
        possible.setdefault(place, set()).update(users)
        expected.setdefault(place, set())
        if answered < ((place + 1) * slot + lateness) * 1_000_000:
            expected[place].update(users)
    with dpi.open_store(str(options["store"]), read_only=True) as store:
        measured = store.measurements("visits")
        found = {paid.slot: round(int(np.frombuffer(paid.values, "<i8").sum()) / GRAINS) for paid in measured}
        released = [json.loads(content.partition(b"\n")[0])["slot"] for content, _ in store.releases("visits")]
    assert released == sorted(set(released)), "a slot was released twice"
    missing = set(expected) - set(found)
    assert not missing, f"{len(missing)} slots were not closed"
    for number, users in expected.items():
        # noise of scale 1/1024 on every bin: seven standard deviations
        assert len(users) - 1 <= found[number] <= len(possible[number]) + 1, (number, found[number], len(users))
    return sum(users == possible[number] for number, users in expected.items()), len(expected)


def loaded(name: str, arguments: argparse.Namespace) -> None:
    """One row of load."""
    kind = {"arrow": "sqlite", "ndjson": "sqlite"}.get(name, name.removesuffix("-ndjson"))
    load = Load(arguments.users, arguments.bins, "ndjson" if name.endswith("ndjson") else "arrow")
    with running(kind, arguments) as (server, headers):
        ours = kind in ("sqlite", "postgres")
        follower = Follower(server, headers, arguments.slot)
        if ours:
            follower.start()
        before, began = server.cpu(), time.monotonic()
        senders = Senders(server, headers, load, began + arguments.seconds)
        while any(thread.is_alive() for thread in senders._threads):
            server.sizes.append(server.memory())
            time.sleep(0.5)
        senders.join()
        wall, cpu = time.monotonic() - began, server.cpu() - before
        slots = (0, 0)
        if ours:
            _await(server, headers, senders.acknowledged[-1][0] // (arguments.slot * 1_000_000))
            metrics = httpx.get(f"{server.url}/metrics", headers=headers).text
            slots = checked(server.options | {"store": _store(server.options)}, senders, arguments.slot)
    quarter = max(1, len(server.sizes) // 4)
    print(
        f"{name:12} {senders.events / wall:10,.0f} events/s  {senders.events / cpu:10,.0f} per CPU-s  "
        f"{cpu / wall:5.2f} cores  answer p50 {np.median(senders.waits):.2f} s "
        f"p99 {np.quantile(senders.waits, 0.99):.2f} s  memory "
        f"{np.mean(server.sizes[quarter : 2 * quarter]):.0f} → {np.mean(server.sizes[-quarter:]):.0f} MiB"
    )
    if ours:
        late = sorted(follower.delays.values())
        told = f"seen after p50 {np.median(late):.2f} s, worst {late[-1]:.2f} s" if late else "no slot was seen"
        print(f"{'':12} {slots[0]} of {slots[1]} slots hold exactly what was acknowledged; {told}; {shares(metrics)}")


def shares(metrics: str) -> str:
    """Seconds of each stage, from the operator's metrics."""
    stages = {}
    for line in metrics.splitlines():
        if line.startswith("dpi_stage_seconds_total"):
            stages[line.split('"')[1]] = float(line.rpartition(" ")[2])
        if line.startswith("dpi_closing_seconds_sum"):
            stages["closing"] = float(line.rpartition(" ")[2])
    total = sum(stages.values()) or 1.0
    return ", ".join(f"{name} {seconds / total:.0%}" for name, seconds in stages.items())


def _store(options: dict[str, object]) -> str:
    return str(options["postgres"]) if options["kind"] == "postgres" else f"{options['folder']}/visits.db"


def _await(server: Server, headers: dict[str, str], slot: int) -> None:
    """Until a slot is seen."""
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        answer = httpx.get(f"{server.url}/streams/visits/releases/{slot}/certificate", headers=headers, timeout=60)
        if answer.status_code == 200:
            return
        time.sleep(0.2)
    raise AssertionError("a slot does not close")


def curve(arguments: argparse.Namespace) -> None:
    """How long a slot takes to close, by the number of its users."""
    for users in (100_000, 300_000, 1_000_000):
        with running("sqlite", arguments) as (server, headers):
            frame = pl.DataFrame({
                "user": [f"user{number:07d}" for number in range(users)],
                "value": [f"v{number % arguments.bins}" for number in range(users)],
            })  # fmt: skip
            closed = []
            kind = {"content-type": "application/vnd.apache.arrow.stream"}
            with httpx.Client(headers={**headers, **kind}, timeout=120) as client:
                for turn in range(2):
                    slot = int(time.time()) // arguments.slot + 1
                    time.sleep(slot * arguments.slot - time.time() + 0.05)
                    for number, part in enumerate(frame.iter_slices(100_000)):
                        timed = part.with_columns(pl.lit(time.time_ns() // 1000).alias("time"))
                        where = {"producer": f"{turn}", "sequence": str(number), "unit": "us"}
                        body = timed.write_ipc_stream(None).getvalue()
                        client.post(
                            f"{server.url}/streams/visits/events", params=where, content=body
                        ).raise_for_status()
                    _await(server, headers, slot)
                    lines = client.get(f"{server.url}/metrics").text.splitlines()
                    (told,) = (line for line in lines if line.startswith("dpi_closing_seconds_sum"))
                    closed.append(float(told.rpartition(" ")[2]))
            print(
                f"{'curve':12} {users:9,} users: the first slot closes in {closed[0]:.2f} s, another one of the same "
                f"users in {closed[1] - closed[0]:.2f} s (empty slots between them included)"
            )


def readers(arguments: argparse.Namespace, number: int = 500) -> None:
    """Many readers who follow, while batches come."""
    load = Load(arguments.users, arguments.bins, "arrow")
    with running("sqlite", arguments) as (server, headers):
        delays: list[list[float]] = [[] for _ in range(number)]

        async def follow(index: int) -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(str(server.options["port"])))
            lines = ["GET /v1/streams/visits/follow HTTP/1.1", "host: x", f"authorization: {headers['authorization']}"]
            writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
            try:
                while line := await reader.readline():
                    if line.startswith(b"id: "):
                        closing = (int(line[4:]) + 1) * arguments.slot + LATENESS
                        delays[index].append(time.time() - closing)
            finally:
                writer.close()

        async def all_() -> None:
            tasks = [asyncio.create_task(follow(index)) for index in range(number)]
            await asyncio.sleep(arguments.seconds)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        senders = Senders(server, headers, load, time.monotonic() + arguments.seconds)
        asyncio.run(all_())
        senders.join()
    seen = [each for own in delays for each in own]
    counts = {len(own) for own in delays}
    print(
        f"{'readers':12} {number} readers, each of {min(counts)} to {max(counts)} slots: seen after p50 "
        f"{np.median(seen):.2f} s, p99 {np.quantile(seen, 0.99):.2f} s, worst {max(seen):.2f} s; beside it "
        f"{senders.events / arguments.seconds:,.0f} events/s"
    )


def kills(arguments: argparse.Namespace, times: int = 20) -> None:
    """Kill -9 under load: nothing that was acknowledged is lost, nothing is released twice."""
    slot, lateness = 2, 30  # a batch that waits for a restart still comes in time for its slot
    arguments = argparse.Namespace(**{**vars(arguments), "slot": slot})
    load = Load(2_000, arguments.bins, "arrow")
    with running("sqlite", arguments, lateness=lateness) as (server, headers):
        senders = Senders(server, headers, load, time.monotonic() + 3600)
        rng = np.random.default_rng(2)
        for _ in range(times):
            time.sleep(float(rng.uniform(0.3, 2.0)))
            server.process.kill()
            server.process.wait()
            server.process = start(server.options).process
        time.sleep(1)
        senders.until = time.monotonic()
        senders.join()
        _await(server, headers, senders.acknowledged[-1][0] // (slot * 1_000_000))
        exact, slots = checked(server.options | {"store": _store(server.options)}, senders, slot, lateness)
    print(
        f"{'kills':12} {times} kills, {len(senders.acknowledged):,} batches acknowledged, {senders.again:,} sent "
        f"again: {slots} slots hold what was acknowledged in time ({exact} of them had no batch that was answered "
        "late), none was released twice"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--slot", type=int, default=10)
    parser.add_argument("--bins", type=int, default=10_000)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--postgres", default="postgresql:///postgres")
    parser.add_argument("--rows", default=",".join(ROWS))
    arguments = parser.parse_args()
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}")
    special = {"curve": curve, "readers": readers, "kills": kills}
    for name in arguments.rows.split(","):
        special[name](arguments) if name in special else loaded(name, arguments)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
