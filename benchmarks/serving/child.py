"""A server that `benchmarks/service.py` starts: the service, or the same framework without privacy.

python child.py '{"kind": "sqlite", "port": 8000, …}'
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import dpi
from dpi.service._batch_reader import read_batch
from dpi.service.config import Config
from dpi.service.running import serve
from dpi.settings.streams import StreamSettings


def service(options: dict[str, Any]) -> None:
    """The service, with a budget so large that noise hides nothing."""
    domain = dpi.Categories([f"v{number}" for number in range(options["bins"])], other=None)
    stream = StreamSettings(
        name="visits", domain=domain, epsilon="1024", slot=f"{options['slot']}s", begin=options["begin"],
        lateness=f"{options['lateness']}s", per_slot="1024", period=1,
    )  # fmt: skip
    folder = Path(options["folder"])
    serve(
        Config(
            store=options["store"],
            key_file=folder / "key", tokens=Path(options["tokens"]), port=options["port"], delay=options["delay"],
            connections=options["connections"], body=64 << 20, streams={"visits": stream},
        )
    )  # fmt: skip


def plain(options: dict[str, Any]) -> None:
    """The framework by itself: it decodes, and discards or inserts."""
    insert = {"insert": _sqlite, "bare": _nowhere}[options["kind"]](options)

    def work(body: bytes, kind: str) -> None:
        events = read_batch(body, kind, "us", None)
        insert(pl.DataFrame({"user": events.users, "time": events.times, "value": events.values}))

    async def post(request: Request) -> JSONResponse:
        body = await request.body()
        await asyncio.to_thread(work, body, request.headers["content-type"])
        return JSONResponse({"kept": True})

    async def ready(request: Request) -> JSONResponse:
        return JSONResponse({})

    routes = [Route("/v1/streams/visits/events", post, methods=["POST"]), Route("/v1/ready", ready)]
    uvicorn.run(Starlette(routes=routes), port=options["port"], log_level="warning", access_log=False)


Insert = Callable[[pl.DataFrame], None]


def _nowhere(options: dict[str, Any]) -> Insert:
    return lambda frame: None


def _sqlite(options: dict[str, Any]) -> Insert:
    import threading

    turn = threading.Lock()
    database = sqlite3.connect(f"{options['folder']}/plain.db", check_same_thread=False)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE events (user TEXT, time INTEGER, value TEXT)")

    def insert(frame: pl.DataFrame) -> None:
        with turn, database:
            database.executemany("INSERT INTO events VALUES (?, ?, ?)", frame.rows())

    return insert


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    (service if given["kind"] in ("sqlite", "postgres") else plain)(given)
