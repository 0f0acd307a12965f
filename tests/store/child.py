"""Runs the workload in processes of its own that kill themselves at given statement boundaries.

    python child.py < trials.ndjson

A trial is {"target": …, "folder": …, "work": …, "points": [n, m, …]}: the first process dies at its n-th boundary, the
next one at its m-th, and so on; the last one finishes. The work is the workload ("run"), the same by an engine
("engine"), with accounts that are moved to buckets and back ("move"), with a ledger's key that is replaced while they
are in the database ("replace") or in buckets ("replace buckets"), or a stream whose domain changes while a slot of
it is open ("change"). A boundary is the moment before or after a statement of the engine, a
write of the witness, of a bucket file or of the key. Prints one line of JSON for each trial. Everything is imported
once, in a process that starts no thread, and every run is a fork of it: this spares the time to import.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cryptography.hazmat.primitives.ciphers  # noqa: F401 - what every run would load is loaded before the fork
import numpy.ma  # noqa: F401
import polars as pl  # noqa: F401

import dpi
import dpi.engine
import dpi.stream._stream
import dpi.verification
from dpi import files
from dpi.events.identity import KEY_BYTES
from dpi.store import _paged_table, key_change, opening
from dpi.store._postgres import PostgreSQL
from dpi.store._sqlite import SQLite
from dpi.store.folder import Folder
from dpi.store.sql import SQLStore
from dpi.store.witness import Witness

SLOTS = 2
TWICE = 3
"""Exit status of a process that was about to measure a slot whose measurement is stored."""


class Boundaries:
    """Counts boundaries; at the fatal one the process is gone, as by a power cut."""

    def __init__(self, fatal: int | None) -> None:
        self.passed, self.fatal = 0, fatal

    def __call__(self) -> None:
        """Pass one."""
        if self.passed == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        self.passed += 1

    def around(self, owner: Any, name: str) -> None:
        """Put a boundary before and after every call of a function."""
        function: Callable[..., object] = getattr(owner, name)

        @functools.wraps(function)
        def wrapped(*values: object, **named: object) -> object:
            self()
            result = function(*values, **named)
            self()
            return result

        setattr(owner, name, wrapped)


def run(trial: dict[str, Any], fatal: int | None) -> None:
    """One process: go on with the workload to its end, or to the fatal boundary."""
    from dpi.testing import workload  # declares a domain, which starts threads: not before the fork

    create, pay, pay_runs = files.create_secret, SQLStore.pay, SQLStore.pay_runs
    files.create_secret = lambda path, _: create(path, workload.KEY.hex().encode())  # the same accounts in all runs

    def pay_once(store: SQLStore, paid: Any, *charges: Any, **named: Any) -> None:
        if any(slot.slot == paid.slot for slot in store.measurements(paid.stream)):
            os._exit(TWICE)
        pay(store, paid, *charges, **named)

    def pay_runs_once(store: SQLStore, paid: Any, *runs: Any) -> None:
        if any(slot.slot == paid.slot for slot in store.measurements(paid.stream)):
            os._exit(TWICE)
        pay_runs(store, paid, *runs)

    SQLStore.pay = pay_once  # type: ignore[method-assign]
    SQLStore.pay_runs = pay_runs_once  # type: ignore[method-assign]
    boundary = Boundaries(fatal)
    for owner in (SQLite, PostgreSQL):
        for name in ("execute", "execute_many", "rows"):
            boundary.around(owner, name)
    boundary.around(Witness, "write")
    boundary.around(files, "create_secret")
    for name in ("write", "sync", "sweep"):
        boundary.around(Folder, name)
    folder = Path(trial["folder"])
    options: dict[str, Any] = {}
    if trial["work"] == "pages":
        _paged_table.LEAST, opening.LEAST, opening.PAGED_BITS = 4, 1, 2  # so that a few accounts are moved
        options["memory"] = 2 * 37 * 24
    opened = functools.partial(
        dpi.open_store, trial["target"], key_file=folder / "key", witness=folder / "witness", wait=20, **options
    )
    if trial["work"].startswith("replace"):
        boundary.around(key_change, "write_draft")
        boundary.around(key_change, "put")
        replace(trial, opened)
    with opened() as store:
        if trial["work"] == "change":
            change(store)
        elif trial["work"] == "move":
            move(store)
        else:
            engine = dpi.engine.local(bits=1, path=folder / "buckets") if trial["work"] == "engine" else None
            for _ in workload.run(store, SLOTS, engine):
                pass
        boundary.fatal = None
        passed = boundary.passed
        result = workload.outcome(store) | {"boundaries": passed}
    (folder / "outcome").write_text(json.dumps(result))


def change(store: Any) -> None:
    """Keep events of a slot, change the domain from the next one on, keep more of both, and release both."""
    from dpi.testing import workload

    wider = dpi.Categories(["FR", "ES"], other="elsewhere")
    options = {"epsilon": 1, "store": store, "name": "visits", **workload.STREAMS["visits"]}
    known = store.streams().get("visits")
    if known is None or workload.DOMAIN.digest in known:
        before = dpi.Stream(domain=workload.DOMAIN, **options)
        before.append(["ada", "bob"], ["2026-01-01T00:10"] * 2, ["DE", "FR"], now="2026-01-01T00:10", sequence=0)
    stream = dpi.Stream(domain=wider, change="2026-01-01T01:00", **options)
    first = stream.slots.number("2026-01-01")
    for slot in range(2):
        if stream.next_slot == first + slot:
            now = f"2026-01-01T{slot:02d}:30"
            stream.append(["cy", "ada"], [now] * 2, ["IT", "ES"], now=now, sequence=slot + 1)
            workload.seeded(stream, slot)
            list(stream.advance(now=f"2026-01-01T{slot + 1:02d}:00"))


def move(store: Any) -> None:
    """Release a slot, move the accounts to buckets, release one, and move them back."""
    from dpi.testing import workload

    folder = Path(store.witness.path).parent
    list(workload.run(store, 1))
    if store.layout is None and len([*store.releases("members")]) == 1:
        store.lay_out(folder / "buckets", bits=1)
    list(workload.run(store, 2))
    store.embed()


def replace(trial: dict[str, Any], opened: Callable[[], Any]) -> None:
    """Release a slot, and replace the key."""
    from dpi.testing import workload

    folder = Path(trial["folder"])
    with opened() as store:
        list(workload.run(store, 1))
        if store.layout is None and trial["work"] == "replace buckets":
            store.lay_out(folder / "buckets", bits=1)
        done = len(store.key) > KEY_BYTES
    if not done:
        key_change.token_bytes = bytes  # type: ignore[assignment] # the same names in all runs
        key_change.replace_key(trial["target"], key_file=folder / "key", witness=folder / "witness")


def forked(trial: dict[str, Any], fatal: int | None) -> int:
    """Status of a run in a process of its own: 0 if it finished, -9 if it was killed."""
    process = os.fork()
    if process == 0:
        status = 1
        try:
            run(trial, fatal)
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def main() -> None:
    """All trials of standard input, each of which is a line."""
    for line in sys.stdin:
        trial = json.loads(line)
        Path(trial["folder"]).mkdir(parents=True, exist_ok=True)
        statuses = [forked(trial, point) for point in [*trial["points"], None]]
        outcome = Path(trial["folder"]) / "outcome"
        print(json.dumps([statuses, json.loads(outcome.read_text()) if outcome.exists() else None]), flush=True)


if __name__ == "__main__":
    main()
