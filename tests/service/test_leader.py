"""Replicas on one PostgreSQL store: one leads, another takes over, and who comes back neither pays nor publishes."""

from __future__ import annotations

import json
import os
import secrets
import signal
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import pairwise

import httpx
import pytest

import dpi
from dpi.errors import StoreBusy
from dpi.service.tokens import Tokens
from dpi.verification import check_accounts, verify
from service.conftest import free_port

LEASE = 1.0
SLOW = bool(os.environ.get("DPI_SLOW"))


@pytest.fixture(params=["sqlite", "postgres"])
def taken_over(request, key_file):
    """Opens a store for writing and takes its right to write away, so that another can have it."""
    target, opened = request.getfixturevalue(request.param), []

    def another():
        store = dpi.open_store(target, key_file=key_file)
        opened.append(store)
        store.lead(60)
        store.engine.give_up()
        return store

    yield another
    for store in opened:
        store.close()


def stream(store, **options):
    """A stream that takes 0.3 of an account."""
    default = {"domain": dpi.Categories(["a"]), "epsilon": 1, "budget": dpi.Ledger(per_slot="0.3")}
    return dpi.Stream(store=store, **(default | options))


def test_a_former_leader_is_refused_for_good(taken_over) -> None:
    """Also if its successor has written nothing yet, and however often it tries: no payment, no event, no option."""
    first = taken_over()
    old = stream(first, slot="1h", start="2026-01-01")
    second = taken_over()
    before = second.engine.rows("SELECT COUNT(*) FROM measurements")
    for _ in range(3):
        with pytest.raises(StoreBusy, match="another process leads"):
            list(old.advance(now="2026-01-01T01:00"))
        with pytest.raises(StoreBusy, match="another process leads"):
            old.append(["ada"], ["2026-01-01T00:10"], ["a"], now="2026-01-01T00:20")
        with pytest.raises(StoreBusy):
            stream(first, name="other")
        with pytest.raises(StoreBusy):
            first.renew()
    assert second.engine.rows("SELECT COUNT(*) FROM measurements") == before
    new = stream(second, slot="1h", start="2026-01-01")
    assert len(list(new.advance(now="2026-01-01T01:00"))) == 1
    second.renew()


@pytest.fixture
def schema(server):
    """Gives URLs of schemas that are dropped afterwards."""
    import psycopg

    names = []

    def another():
        names.append("dpi_test_" + secrets.token_hex(6))
        return f"{server}{'&' if '?' in server else '?'}schema={names[-1]}"

    yield another
    with psycopg.connect(server, autocommit=True) as connection:
        for name in names:
            connection.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')


def wait_for(true, seconds: float = 120.0):
    """What `true` says once it says something; fails when it takes too long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := true():
            return found
        time.sleep(0.05)
    raise AssertionError("it took too long")


STATEMENTS = range(41) if SLOW else (8, 25)
"""Before which statements of a slot a leader is frozen, of 41: in the payment, in the publication."""


def test_a_leader_that_is_frozen_anywhere_neither_pays_nor_publishes(schema, process, key_file, tmp_path) -> None:
    """Stopped before any statement of a slot, superseded and woken: the slot is paid for once, and it lets out nothing.

    What it had committed before it was stopped stands, and its successor makes the same release of it. The last one is
    stopped when the release is stored, before the witness hears of it.
    """
    for some in batched((*STATEMENTS, -1), 4):
        frozen = {}
        for statement in some:
            where, witness = schema(), tmp_path / f"witness {statement}"
            frozen[statement] = where, witness, process("stopped.py", where, key_file, witness, LEASE, statement)
        for statement, (where, witness, child) in frozen.items():
            check_frozen(statement, where, witness, child, key_file)


def batched(items, size):
    """Some items at a time."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def check_frozen(statement, where, witness, child, key_file) -> None:
    """Take over from a process that stops itself, wake it, and look that it has done nothing."""
    assert child.stdout.readline() == "leads\n"
    child.stdin.write("\n")
    child.stdin.flush()
    if child.stdout.readline() != "stops\n":  # the slot has fewer statements
        assert statement > 30
        return
    began = time.monotonic()
    try:
        store = dpi.open_store(where, key_file=key_file, witness=witness, wait=30)
        assert time.monotonic() - began < LEASE + 20
    except StoreBusy as error:  # it was stopped while it wrote the witness: nobody else may until it goes on or ends
        assert "writing to the witness" in str(error)  # noqa: PT017 - it need not be so
        child.send_signal(signal.SIGCONT)
        store = dpi.open_store(where, key_file=key_file, witness=witness, wait=30)
    with store:
        store.lead(60)
        mine = stream(store)
        first = mine.next_slot
        for _ in range(2):
            mine.release(["ada", "bob"], ["a"] * 2)
        head, seen = store.head(), witness.read_bytes()
        child.send_signal(signal.SIGCONT)
        found = json.loads(child.stdout.readline())
        assert found["released"] == []
        assert len(found["errors"]) == 3
        assert store.head() == head
        assert witness.read_bytes() == seen
        assert [paid.slot for paid in store.measurements("")] == list(range(first + 2))
        assert [*verify(store).problems, *check_accounts(store)] == []


def test_replicas_take_turns_and_lose_nothing(process, postgres, key_file, tmp_path) -> None:
    """A paused leader is replaced within a lease, a killed one at once; each acknowledged batch counts in one slot."""
    tokens, ports = Tokens(tmp_path / "tokens.json"), [free_port(), free_port()]
    headers = {"authorization": f"Bearer {tokens.create('curator')}"}
    start = datetime.now(UTC).replace(microsecond=0).isoformat()  # an event before it would not count
    options = (postgres, key_file, tokens.path, tmp_path / "witness")
    replicas = [process("replica.py", *options, port, start, f"{LEASE:g}s") for port in ports]
    with ExitStack() as opened:
        clients = [
            opened.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}/v1", headers=headers, timeout=5))
            for port in ports
        ]
        sent = take_turns(replicas, clients)
    with dpi.open_store(postgres, key_file=key_file, witness=tmp_path / "witness") as store:
        assert [*verify(store).problems, *check_accounts(store)] == []
        slots = [paid.slot for paid in store.measurements("visits")]
        assert all(after == before + 1 for before, after in pairwise(slots))
        accounts = (store.engine.rows("SELECT SUM(size) FROM account_runs")[0][0] or 0) // 36
        waiting = sum(
            len({bytes(name) for name in store.events("visits", slot).names})
            for (slot,) in store.engine.rows("SELECT DISTINCT slot FROM events")
        )
        assert accounts + waiting == sent == 14


def take_turns(replicas, clients) -> int:
    """Pause the one that leads, wake it, kill the other, stop the first; how many events were acknowledged."""
    sent = {"number": 0}

    def alive(index: int) -> bool:
        try:
            return clients[index].get("/health").status_code == 200
        except httpx.TransportError:
            return False

    def leading(index: int) -> bool:
        try:
            return clients[index].get("/streams").status_code == 200
        except httpx.TransportError:
            return False

    def send(index: int) -> bool:
        """One user's event of now, sent again with the same number until it is acknowledged."""
        user, now = f"user {sent['number']}", datetime.now(UTC).isoformat()
        body = {"user": [user], "time": [now], "value": ["a"]}
        where = {"producer": "gate", "sequence": str(sent["number"])}
        try:
            answer = clients[index].post("/streams/visits/events", params=where, json=body)
        except httpx.TransportError:
            return False
        sent["number"] += answer.status_code == 200
        return answer.status_code == 200

    for index in range(2):
        wait_for(lambda index=index: alive(index))
    active = wait_for(lambda: [index for index in range(2) if leading(index)])[0]
    other = 1 - active
    assert not leading(other)
    for _ in range(5):
        wait_for(lambda: send(active))
    replicas[active].send_signal(signal.SIGSTOP)
    began = time.monotonic()
    wait_for(lambda: leading(other))
    assert time.monotonic() - began < LEASE + 30  # on a machine that is busy with other things
    for _ in range(5):
        wait_for(lambda: send(other))
    replicas[active].send_signal(signal.SIGCONT)
    wait_for(lambda: clients[active].get("/streams").status_code == 503)
    wait_for(lambda: send(other))
    replicas[other].kill()
    wait_for(lambda: leading(active))
    for _ in range(3):
        wait_for(lambda: send(active))
    replicas[active].send_signal(signal.SIGTERM)
    assert replicas[active].wait(20) == 0
    return sent["number"]
