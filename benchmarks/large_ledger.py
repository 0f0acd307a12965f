"""A ledger larger than memory: building it, opening it, slots of some of its users, and the memory of the process.

    python benchmarks/large_ledger.py [--accounts 100000000] [--active 100000] [--slots 30] [--memory 1073741824]
        [--folder FOLDER]

Makes a store with so many accounts in files, opens it, pays slots of random users, and opens it again, each in a
process of its own. A slot is: find the accounts, weigh them, and have the payment on disk, with all that is moved from
memory to files. Slots of users who all have accounts come first, then slots with half of their users new. Seconds are
processor seconds of the process, and those on the wall beside them; memory is what it holds beside its programs. The
files are in a temporary folder unless one is named, which then holds a store that is used again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt

import dpi
from dpi.budget import Epsilon
from dpi.budget.account_records import RECORD, STANDING, to_records
from dpi.budget.ledger import Ledger
from dpi.events.identity import Digests
from dpi.store.base import PaidSlot
from dpi.store.ledger_session import LedgerSession
from measure import Cell, record, resident
from results import AT_MOST

EPSILON, PER_SLOT = Epsilon.at_most(1), Epsilon.at_most("0.01")
STREAM = "benchmark"
"""Has a budget of its own, so that its slots need not be released."""
BUDGET = Ledger(per_slot="0.01", policy=dpi.budget.spend_first)
SLOT_SECONDS, OPEN_SECONDS = 0.15, 0.1
"""Goals, with the default sizes."""
Found = dict[str, list[float]]
"""Numbers by what they are of."""


class Watch:
    """Processor seconds of this process, and seconds on the wall, since it was made."""

    def __init__(self) -> None:
        self.used, self.began = time.process_time(), time.perf_counter()

    def read(self) -> list[float]:
        """Both, so far."""
        return [time.process_time() - self.used, time.perf_counter() - self.began]


def name_of(number: npt.NDArray[np.uint64], accounts: int) -> Digests:
    """Names as evenly spread as those of users, in the order of their numbers."""
    mixed = (number + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    high = (number << np.uint64(24)) // np.uint64(accounts) << np.uint64(40)  # the first bits say which part it is in
    return np.stack([high + number, mixed * np.uint64(0xBF58476D1CE4E5B9)], axis=1)


def build(folder: Path, accounts: int, memory: int) -> Found:
    """Make the store."""
    watch = Watch()
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
    return {"build": watch.read(), "bytes": [(size + (folder / "visits.db").stat().st_size) / accounts]}


def opened(folder: Path, memory: int) -> Found:
    """Open the store, and nothing else."""
    watch = Watch()
    with dpi.open_store(folder / "visits.db", memory=memory) as store:
        LedgerSession.of(store).accounts("", BUDGET, EPSILON)
        return {"open": watch.read()}


def slots(folder: Path, active: int, number: int, memory: int) -> Found:
    """Open the store, and pay slots."""
    accounts, rng = int((folder / "accounts").read_text()), np.random.default_rng()  # other users in every run
    before, watch, figures = resident("VmRSS"), Watch(), Found()
    with dpi.open_store(folder / "visits.db", memory=memory) as store:
        ledger = LedgerSession.of(store).accounts("", BUDGET, EPSILON)
        figures["open"] = watch.read()
        first = int(max((slot for (slot,) in store.engine.rows("SELECT slot FROM measurements")), default=-1)) + 1
        for kind, new in (("known", 0), ("new", active // 2)):
            times = []
            for slot in range(first, first + number):
                known = name_of(
                    rng.permutation(np.unique(rng.integers(0, accounts, active - new))).view(np.uint64), accounts
                )
                users = np.concatenate([known, rng.integers(0, 1 << 64, (new, 2), dtype=np.uint64)])
                watch = Watch()
                charge = ledger.charge(ledger.bill(users, PER_SLOT, slot))
                LedgerSession.of(store).pay(PaidSlot(STREAM, slot, PER_SLOT.units, False, bytes(8), "{}"), "", charge)
                store.erase()
                times.append(watch.read())
            first += number
            figures[f"{kind} cpu"], figures[f"{kind} wall"] = np.transpose(times).tolist()
            figures[f"{kind} memory"] = [(resident("VmRSS") - before) / 1e6]
    figures["most"] = [(resident("VmHWM") - before) / 1e6]
    return figures


def child(what: str, options: argparse.Namespace, folder: Path) -> Found:
    """One of the three in a process of its own."""
    command = [sys.executable, __file__, what, "--folder", str(folder)]
    for name in ("accounts", "active", "slots", "memory"):
        command += [f"--{name}", str(getattr(options, name))]
    figures: Found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return figures


def measured(options: argparse.Namespace, folder: Path) -> None:
    """Record what the three have found."""
    built = {} if (folder / "accounts").exists() else child("build", options, folder)
    figures, again = child("slots", options, folder), child("open", options, folder)
    users, rows = f"{options.active:,} users", list[list[Cell]]()
    if built:
        rows = [["building the store", *built["build"], None, None]]
    rows.append(["opening, all charges in files", *figures["open"], None, None])
    for kind, label in (("known", f"a slot of {users}"), ("new", f"a slot of {users}, half of them new")):
        cpu, wall = figures[f"{kind} cpu"], figures[f"{kind} wall"]
        rows.append([label, median(cpu), median(wall), max(wall), figures[f"{kind} memory"][0]])
    rows.append([f"opening, after {2 * options.slots} slots", *again["open"], None, None])
    size = [f"On disk: {built['bytes'][0]:.1f} bytes an account."] if built else []
    record(
        "large-ledger",
        parts=("budget", "store"),
        about=f"{options.accounts:,} accounts, and {options.memory / 2**30:.3g} GiB of memory for them.",
        columns=["", "processor s", "s on the wall", "longest, on the wall", "resident MB"],
        rows=rows,
        notes=[
            f"Medians of {options.slots} slots each.",
            *size,
            f"At most {figures['most'][0]:,.0f} MB were resident.",
        ],
        goals=[
            (f"a slot of {users}, s on the wall:", median(figures["known wall"]), AT_MOST, SLOT_SECONDS),
            ("opening, all charges in files, s on the wall:", figures["open"][1], AT_MOST, OPEN_SECONDS),
            (f"opening, after {2 * options.slots} slots, s on the wall:", again["open"][1], AT_MOST, OPEN_SECONDS),
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="?", choices=("build", "slots", "open"), help="a part, which tells JSON")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--accounts", type=int, default=100_000_000)
    parser.add_argument("--active", type=int, default=100_000)
    parser.add_argument("--slots", type=int, default=30)
    parser.add_argument("--memory", type=int, default=1 << 30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        if options.what == "build":
            print(json.dumps(build(folder, options.accounts, options.memory)))
        elif options.what == "slots":
            print(json.dumps(slots(folder, options.active, options.slots, options.memory)))
        elif options.what == "open":
            print(json.dumps(opened(folder, options.memory)))
        else:
            measured(options, folder)


if __name__ == "__main__":
    main()
