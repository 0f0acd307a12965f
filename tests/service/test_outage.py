"""A disk that is full, a database that is gone: nothing acknowledged is lost, nothing is closed without it."""

from __future__ import annotations

import secrets
import signal
import time
from datetime import UTC, datetime, timedelta

import httpx
import pytest

import dpi
from dpi.service.tokens import Tokens
from dpi.verification import check_accounts, verify
from service.conftest import free_port
from serving import running, settings

MANY = 4000


def users(found) -> list[int]:
    """How many users each closed slot has: budgets are so large that noise hides nothing."""
    return [
        round(sum(memoryview(paid.values).cast("q")) / 2**24) for paid in found.service.store.measurements("visits")
    ]


def test_a_full_disk_loses_nothing_that_was_acknowledged(tmp_path) -> None:
    """Batches are refused with a word to come again; slots wait; with room again, all that was acknowledged counts."""
    generous = settings(epsilon="1024", per_slot="1024", period=1)
    with running(tmp_path, generous) as found:
        engine = found.service.store.engine
        found.set(5)
        assert found.send([(f"user {number}", 1, "home") for number in range(MANY)], 0).status_code == 200
        pages = engine.rows("PRAGMA page_count")[0][0]
        engine.rows(f"PRAGMA max_page_count = {pages + 1}")
        more = [(f"more {number}", 2, "home") for number in range(MANY)]
        for _ in range(3):
            answer = found.send(more, 1)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert "user" not in answer.text
        found.clock.now += 6_000_000
        found.service.closing.call(lambda: None).result(30)
        deadline = time.monotonic() + 20
        while not found.service.closing.failing:  # the payment of the slot finds no room
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert found.client().get("/v1/ready").status_code == 503
        assert users(found) == []
        assert found.client().get("/v1/health").status_code == 200
        engine.rows("PRAGMA max_page_count = 1000000")
        found.closed()
        assert users(found) == [MANY]
        assert found.send(more, 1).status_code == 200  # too late for its slot, and the answer is the same
        assert found.send([("late", 11, "home")], 2).status_code == 200
        found.set(21)
        assert users(found) == [MANY, 1]
        assert found.client().get("/v1/ready").status_code == 200
        assert [*verify(found.service.store).problems, *check_accounts(found.service.store)] == []


@pytest.fixture
def database(server):
    """A database of its own, that can be taken away and given back."""
    import psycopg

    name = "dpi_test_" + secrets.token_hex(6)
    with psycopg.connect(server, autocommit=True) as connection:
        try:
            connection.execute(f"CREATE DATABASE {name}")
        except psycopg.errors.InsufficientPrivilege:
            pytest.skip("the user of the test server may not create databases")

        class Database:
            url = f"{server.rpartition('/')[0]}/{name}"

            def take(self) -> None:
                connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,)
                )  # fmt: skip

            def give(self) -> None:
                connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")

        yield Database()
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_database_that_is_gone_and_back_loses_nothing(process, database, key_file, tmp_path) -> None:
    """The process goes on: it says that it waits, opens the store again when it is there, and has all of it."""
    tokens, port = Tokens(tmp_path / "tokens.json"), free_port()
    start = datetime.now(UTC).replace(microsecond=0).isoformat()
    child = process("replica.py", database.url, key_file, tokens.path, tmp_path / "witness", port, start, "2s")
    headers = {"authorization": f"Bearer {tokens.create('curator')}"}
    sent = 0

    with httpx.Client(base_url=f"http://127.0.0.1:{port}/v1", headers=headers, timeout=10) as client:

        def status(path: str) -> int:
            try:
                return client.get(path).status_code
            except httpx.TransportError:
                return 0

        def send() -> int:
            now = (datetime.now(UTC) - timedelta(milliseconds=1)).isoformat()
            body = {"user": [f"user {sent}"], "time": [now], "value": ["a"]}
            where = {"producer": "gate", "sequence": sent}
            return client.post("/streams/visits/events", params=where, json=body).status_code

        def until(true) -> None:
            deadline = time.monotonic() + 40
            while not true():
                assert time.monotonic() < deadline
                time.sleep(0.05)

        until(lambda: status("/ready") == 200)
        for _ in range(5):
            assert send() == 200
            sent += 1
        database.take()
        assert send() == 503
        until(lambda: status("/ready") == 503)
        assert status("/health") == 200
        assert child.poll() is None
        database.give()
        until(lambda: status("/ready") == 200)
        for _ in range(5):
            until(lambda: send() == 200)
            sent += 1
        child.send_signal(signal.SIGTERM)
        assert child.wait(30) == 0
    with dpi.open_store(database.url, key_file=key_file, witness=tmp_path / "witness") as store:
        assert [*verify(store).problems, *check_accounts(store)] == []
        accounts = (store.engine.rows("SELECT SUM(size) FROM account_runs")[0][0] or 0) // 36
        slots = [int(slot) for (slot,) in store.engine.rows("SELECT DISTINCT slot FROM events")]
        waiting = sum(len({bytes(name) for name in store.events("visits", slot).names}) for slot in slots)
        assert accounts + waiting == sent == 10
