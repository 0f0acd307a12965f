"""A server in a process of its own, and what it takes of the machine."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import httpx

from dpi.service.tokens import Tokens

CHILD = Path(__file__).with_name("child.py")
PRIVATE = ("sqlite", "postgres")
"""Kinds that are the service; others are the framework without it."""


@dataclass
class Server:
    """A server process, and what it has taken of the machine."""

    options: dict[str, object]
    headers: dict[str, str]
    """Of a curator."""
    process: subprocess.Popen[bytes]
    sizes: list[float] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.options['port']}/v1"

    @property
    def slot(self) -> int:
        """Seconds of a slot."""
        return int(str(self.options["slot"]))

    def closing(self, slot: int) -> float:
        """When a slot closes, in seconds since 1970."""
        return (slot + 1) * self.slot + float(str(self.options["lateness"]))

    def cpu(self) -> float:
        """Seconds of CPU."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """MiB in use."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)

    def metrics(self) -> dict[str, float]:
        """The operator's numbers, by name and labels."""
        lines = httpx.get(f"{self.url}/metrics", headers=self.headers, timeout=60).text.splitlines()
        pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(number) for name, _, number in pairs}

    def until_seen(self, slot: int) -> None:
        """Wait until a slot is seen."""
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline:
            path = f"{self.url}/streams/visits/releases/{slot}"
            if httpx.get(path, headers=self.headers, timeout=60).status_code == 200:
                return
            time.sleep(0.2)
        raise AssertionError("a slot does not close")

    def start(self) -> None:
        """Start the process (again), and wait until it answers."""
        self.process = subprocess.Popen([sys.executable, str(CHILD), json.dumps(self.options)])
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                if httpx.get(f"{self.url}/ready").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError("the server does not start")


@contextmanager
def running(kind: str, arguments: argparse.Namespace, **more: object) -> Iterator[Server]:
    """A server of a kind."""
    with tempfile.TemporaryDirectory() as folder:
        tokens, schema = Tokens(Path(folder) / "tokens.json"), "dpi_bench_" + secrets.token_hex(4)
        mark = "&" if "?" in str(arguments.postgres) else "?"
        options: dict[str, object] = {
            "kind": kind, "folder": folder, "tokens": str(tokens.path), "bins": arguments.bins, "lateness": 10,
            "slot": arguments.slot, "port": _port(), "delay": "1s", "connections": 800,
            "postgres": f"{arguments.postgres}{mark}schema={schema}",
        } | more  # fmt: skip
        slot = int(str(options["slot"]))
        options["begin"] = datetime.fromtimestamp(int(time.time()) // slot * slot, UTC).isoformat()
        options["store"] = options["postgres"] if kind == "postgres" else f"{folder}/visits.db"
        server = Server(options, {"authorization": f"Bearer {tokens.create('curator')}"}, None)  # type: ignore[arg-type]
        server.start()
        try:
            yield server
        finally:
            if server.process.poll() is None:
                server.process.send_signal(signal.SIGTERM)
                server.process.wait(60)
            if kind == "postgres":
                _drop(arguments.postgres, schema)


def _drop(url: str, schema: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')


def _port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
