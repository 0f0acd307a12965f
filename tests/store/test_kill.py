"""Processes that are killed at statement boundaries, and what the next one finds."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from child import TWICE

import dpi
from dpi.errors import StoreError
from dpi.store._postgres import PostgreSQL
from dpi.testing import workload

SLOW = bool(os.environ.get("DPI_SLOW"))
MEMORY = Path("/dev/shm")  # noqa: S108 - a killed process leaves its files as they are, so a disk in memory will do
HERE = Path(__file__).parent
LONGEST = 600
"""Seconds after which a process that does not answer a trial is ended, and its test fails."""


Tried = Callable[[dict[str, object]], tuple[list[int], dict[str, object] | None]]
"""Statuses and outcome of a trial."""


@pytest.fixture(scope="module")
def tried() -> Iterator[Tried]:
    """All trials are made by one process that forks (see child.py)."""
    # One thread of polars is enough, and os.fork is for a process that has started none.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), *sys.path]), "POLARS_MAX_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, HERE / "child.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:

        def answer(trial: dict[str, object]) -> tuple[list[int], dict[str, object] | None]:
            assert process.stdin is not None
            assert process.stdout is not None
            limit = threading.Timer(LONGEST, process.kill)
            limit.daemon = True
            limit.start()
            try:
                process.stdin.write(json.dumps(trial) + "\n")
                process.stdin.flush()
                found: tuple[list[int], dict[str, object] | None] = json.loads(process.stdout.readline())
            finally:
                limit.cancel()
            return found

        yield answer


def check(tried: Tried, choose: Callable[[int], list[list[int]]], target: str | None = None, work: str = "run") -> None:
    """Kill at points of all boundaries; whatever happened, the end must be that of the run that was never killed."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as root:

        def trial(number: int, points: list[int]) -> dict[str, object]:
            store = (target or f"{root}/{number}/visits.db").format(number)
            return {"target": store, "folder": f"{root}/{number}", "work": work, "points": points}

        statuses, expected = tried(trial(0, []))
        assert statuses == [0]
        assert expected is not None
        assert expected.pop("problems") == []
        points = choose(int(str(expected.pop("boundaries"))))
        assert points
        for number, at in enumerate(points, 1):
            statuses, outcome = tried(trial(number, at))
            assert TWICE not in statuses, f"a slot was measured twice after a kill at {at}"
            assert statuses[0] == -signal.SIGKILL
            assert statuses[-1] == 0, f"the store could not be opened after a kill at {at}"
            assert outcome is not None
            assert outcome.pop("problems") == []
            outcome.pop("boundaries")
            assert outcome == expected, f"after a kill at {at}"


def drawn(count: int) -> Callable[[int], list[list[int]]]:
    """Random points, and for each a second one at which the process that goes on is killed as well."""
    chance = random.Random(20260101)
    return lambda last: [[point, chance.randrange(60)] for point in chance.sample(range(last), count)]


def some(count: int) -> Callable[[int], list[list[int]]]:
    """Random points; in the long form every one."""
    return (lambda last: [[point] for point in range(last)]) if SLOW else drawn(count)


@pytest.mark.slow
def test_killed_anywhere_the_store_ends_as_if_never_killed(tried: Tried) -> None:
    """Kill -9 at 4 random boundaries (at every one in the long form): same ledger, releases and certificates."""
    check(tried, some(4))


@pytest.mark.slow
def test_killed_anywhere_in_a_change_the_stream_has_its_old_options_or_its_new_ones(tried: Tried) -> None:
    """Kill -9 at 3 random boundaries (at every one in the long form): no event is lost, and each slot has its own."""
    check(tried, some(3), work="change")


@pytest.mark.slow
@pytest.mark.parametrize("work", ["engine", "move", "pages"])
def test_killed_anywhere_with_accounts_in_buckets_the_store_ends_as_if_never_killed(tried: Tried, work: str) -> None:
    """Kill -9 at 2 random boundaries (at every one in the long form): of files, too, and while accounts are moved.

    In pages as well, with so little memory that every payment moves some.
    """
    check(tried, some(2), work=work)


@pytest.mark.slow
@pytest.mark.parametrize("work", ["replace", "replace buckets"])
def test_killed_anywhere_while_the_key_is_replaced_no_account_is_lost(tried: Tried, work: str) -> None:
    """Kill -9 at 3 random boundaries (at every one in the long form): the store ends with the accounts it had."""
    check(tried, some(3), work=work)


@pytest.mark.slow
def test_killed_on_postgresql_the_store_ends_as_if_never_killed(tried: Tried, postgres: str, server: str) -> None:
    """The same on PostgreSQL, at 2 boundaries (60 in the long form)."""
    try:
        check(tried, drawn(60 if SLOW else 2), postgres + "_{}")
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            name = postgres.rpartition("schema=")[2]
            found = connection.execute("SELECT nspname FROM pg_namespace WHERE starts_with(nspname, %s)", (name,))
            for (schema,) in found.fetchall():
                connection.execute(f'DROP SCHEMA "{schema}" CASCADE')


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("commit", [0, 1])
def test_a_lost_connection_at_commit_is_told_by_opening_again(
    postgres, server, key_file, monkeypatch, moment, commit
) -> None:
    """When the server goes away at a COMMIT nobody knows, the stream refuses to go on, and reopening settles it."""
    store = dpi.open_store(postgres, key_file=key_file)
    stream = workload.open_streams(store)[1]
    workload.close_slot(stream, 0)
    commits, execute = [], PostgreSQL.execute

    def fatal(engine: PostgreSQL, statement: str, values: object = ()) -> None:
        here = statement == "COMMIT" and commits.append(1) is None and len(commits) == commit + 1
        if here and moment == "before":
            _terminate(engine, server)
        execute(engine, statement, values)
        if here and moment == "after":
            _terminate(engine, server)
            execute(engine, "SELECT 1")

    with monkeypatch.context() as patch:
        patch.setattr(PostgreSQL, "execute", fatal)
        with pytest.raises(StoreError, match="PostgreSQL refused or was lost"):
            workload.close_slot(stream, 1)
        with pytest.raises(StoreError):
            workload.close_slot(stream, 1)  # it cannot know, so it does not go on
    store.close()
    with dpi.open_store(postgres, key_file=key_file, wait=10) as again:
        visits, orders, *_ = workload.open_streams(again)
        paid = (commit, moment) != (0, "before")
        assert orders.next_slot == (2 if paid else 1)
        if not paid:
            workload.close_slot(orders, 1)
        result = workload.outcome(again)
    whole = dpi.MemoryStore(workload.KEY)
    undisturbed = workload.open_streams(whole)[1]
    workload.close_slot(undisturbed, 0)
    workload.close_slot(undisturbed, 1)
    assert result == workload.outcome(whole)
    assert visits.next_slot


def _terminate(engine: PostgreSQL, server: str) -> None:
    process = engine._connection.info.backend_pid
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", (process,))
