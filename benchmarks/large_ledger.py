"""A ledger larger than memory: opening it, a slot of some of its users, and the memory of the process.

    python benchmarks/large_ledger.py build FOLDER [--accounts 100000000] [--memory 1073741824]
    python benchmarks/large_ledger.py slots FOLDER [--active 100000] [--slots 30] [--memory 1073741824]

`build` makes a store with so many accounts in files. `slots` opens it and pays slots of random users: with accounts
that are there, and half of them new. A slot is: find the accounts, weigh them, and have the payment on disk, with all
that is moved from memory to files. Processor seconds of this process; memory is what it holds beside its programs, and
the most it ever held.
"""

from __future__ import annotations

import argparse
import time
from itertools import pairwise
from pathlib import Path
from statistics import mean, median

import numpy as np
import numpy.typing as npt

import dpi
from dpi.budget import Epsilon
from dpi.budget.account_table import RECORD, STANDING, to_records
from dpi.budget.ledger import Ledger
from dpi.events.identity import Digests
from dpi.store.bank import Bank
from dpi.store.base import PaidSlot
from measure import resident, row

EPSILON, PER_SLOT = Epsilon.at_most(1), Epsilon.at_most("0.01")
STREAM = "benchmark"
"""Has a budget of its own, so that its slots need not be released."""
BUDGET = Ledger(per_slot="0.01", policy=dpi.budget.spend_first)


def name_of(number: npt.NDArray[np.uint64], accounts: int) -> Digests:
    """Names as evenly spread as those of users, in the order of their numbers."""
    mixed = (number + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    high = (number << np.uint64(24)) // np.uint64(accounts) << np.uint64(40)  # the first bits say which part it is in
    return np.stack([high + number, mixed * np.uint64(0xBF58476D1CE4E5B9)], axis=1)


def build(folder: Path, accounts: int, memory: int) -> None:
    began = time.process_time()
    with dpi.open_store(folder / "visits.db", memory=memory) as store:
        dpi.Stream(
            domain=dpi.Categories(["a"]), epsilon=1, budget=dpi.Converging(dpi.budget.Zeta(2)), store=store, name=STREAM
        )
        store.ledger_table("", BUDGET.accounts(EPSILON, store.key).description)
        log, buckets = store._accounts, store._accounts.buckets
        assert log.folder is not None
        bounds = [-(-accounts * bucket >> buckets.bits) for bucket in range(buckets.number + 1)]
        with store.engine.transaction(), log.folder.attempt() as attempt:
            files, runs = log.files(""), []
            for bucket, (first, end) in enumerate(pairwise(bounds)):
                standing = np.zeros(end - first, dtype=STANDING)
                standing["spent"], standing["active"] = PER_SLOT.units, 1
                names = name_of(np.arange(first, end, dtype=np.uint64), accounts)
                records = np.frombuffer(to_records(names, standing), dtype=RECORD)
                runs.append(files.write(attempt, bucket, 0, [records], records.size))
            log.folder.sync()
            log.put("", runs)
        store.erase()
    (folder / "accounts").write_text(str(accounts))
    size = sum(path.stat().st_size for path in (folder / "visits.db.buckets").iterdir())
    row(f"build {accounts:,} accounts, processor s", time.process_time() - began)
    row("bytes on disk an account", (size + (folder / "visits.db").stat().st_size) / accounts)


def slots(folder: Path, active: int, number: int, memory: int) -> None:
    accounts, rng = int((folder / "accounts").read_text()), np.random.default_rng(int(time.time()))
    before = resident("VmRSS")
    wall, began = time.perf_counter(), time.process_time()
    with dpi.open_store(folder / "visits.db", memory=memory) as store:
        ledger = Bank.of(store).accounts("", BUDGET, EPSILON)
        row("open: processor s, s on the wall", time.process_time() - began, time.perf_counter() - wall)
        row("open: memory, MB", (resident("VmRSS") - before) / 1e6)
        first = int(max((slot for (slot,) in store.engine.rows("SELECT slot FROM measurements")), default=-1)) + 1
        row(f"slots of {active:,} of {accounts:,}", "median s", "mean s", "largest s", "memory MB")
        for kind, new in (("accounts that are there", 0), ("half of them new", active // 2)):
            times = []
            for slot in range(first, first + number):
                known = name_of(
                    rng.permutation(np.unique(rng.integers(0, accounts, active - new))).view(np.uint64), accounts
                )
                users = np.concatenate([known, rng.integers(0, 1 << 64, (new, 2), dtype=np.uint64)])
                began = time.process_time()
                charge = ledger.charge(ledger.bill(users, PER_SLOT, slot))
                Bank.of(store).pay(PaidSlot(STREAM, slot, PER_SLOT.units, False, bytes(8), "{}"), "", charge)
                store.erase()
                times.append(time.process_time() - began)
            first += number
            row(kind, median(times), mean(times), max(times), (resident("VmRSS") - before) / 1e6)
    row("the most memory, MB", (resident("VmHWM") - before) / 1e6)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("build", "slots"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--accounts", type=int, default=100_000_000)
    parser.add_argument("--active", type=int, default=100_000)
    parser.add_argument("--slots", type=int, default=30)
    parser.add_argument("--memory", type=int, default=1 << 30)
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    if options.what == "build":
        build(options.folder, options.accounts, options.memory)
    else:
        slots(options.folder, options.active, options.slots, options.memory)


if __name__ == "__main__":
    main()
