"""A ledger of a billion accounts without its data: how its runs merge, and what its manifest costs the driver.

    python benchmarks/manifest.py [--accounts 1000000000] [--bits 10] [--slots 500] [--sql 20]

Names are keyed digests, so all buckets are alike: the runs of one are followed over the slots, with the expected number
of different accounts in a merge of random ones, by the rule of `dpi.store.account_files`. Then a list of so many runs
is made in a real store, and what the driver does in a payment is timed: read it, check its seal, replace a row of every
bucket, seal it, commit. No account is in it, and none is needed: the driver never reads one.
"""

from __future__ import annotations

import argparse
import secrets
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import dpi
from dpi.budget.account_records import STANDING, Buckets, merged, to_records
from dpi.engine.tasks import Closing, close_rows
from dpi.events.rows import Rows
from dpi.noise import SystemSource
from dpi.store.account_files import RATIO, Run, RunFiles
from dpi.store.account_log import AccountLog
from dpi.store.folder import Folder
from dpi.stream.closing import Counting, Offer
from measure import Cell, record

RECORD = 36


class Bucket(NamedTuple):
    """A bucket after a slot: accounts in each run, and accounts that were written."""

    runs: list[float]
    written: float


def slots_of(accounts: float, active: float) -> Iterator[Bucket]:
    """One bucket over the slots, in each of which some of its accounts pay, at random."""
    runs: list[float] = []
    while True:
        added = active
        while runs and runs[-1] <= RATIO * added:
            before = runs.pop()
            added = accounts * (1 - (1 - before / accounts) * (1 - added / accounts))
        runs.append(added)
        yield Bucket([*runs], added)


def followed(accounts: int, bits: int, share: float, slots: int) -> list[Cell]:
    """What the runs of a bucket come to, after the slots in which most accounts were opened."""
    size = accounts / 2**bits
    buckets = [bucket for bucket, _ in zip(slots_of(size, share * size), range(slots), strict=False)]
    late = buckets[slots // 2 :]
    known = [min(size, size * (1 - (1 - share) ** (at + 1))) for at in range(slots)][slots // 2 :]
    runs = [len(bucket.runs) for bucket in late]
    disk = [RECORD * sum(bucket.runs) / here for bucket, here in zip(late, known, strict=True)]
    written = statistics.mean(bucket.written for bucket in late) / (share * size)
    size_written = written * share * accounts * RECORD / 1e9
    return [100 * share, statistics.mean(runs), max(runs), statistics.mean(disk), max(disk), size_written]


class Unwritten(Folder):
    """A folder whose files are all there, for whoever asks."""

    def check_files(self, names: object) -> None:
        """Nothing is looked at."""


def timed(bits: int, runs: int, repeats: int) -> list[Cell]:
    """Seconds that a payment takes the driver, in a store whose manifest has so many rows."""
    with tempfile.TemporaryDirectory() as place, dpi.open_store(Path(place) / "visits.db") as store:
        store.lay_out(Path(place) / "buckets", bits)
        layout = store.layout
        assert layout is not None
        folder = Unwritten(Path(layout.path), layout.mark)
        log = AccountLog(store.engine, store.key, folder, Buckets(bits))
        made = [
            Run(bucket, number, f"{secrets.token_hex(8)}-{secrets.token_hex(16)}", 36 << number, bytes(32))
            for bucket in range(2**bits)
            for number in range(runs)
        ]
        with store.engine.transaction():
            log.begin("", "")
            log.put("", made)
        seconds = []
        for _ in range(repeats):
            began = time.process_time()
            with store.engine.transaction():
                log.check("", "")
                last = [known[-1] for known in log.runs("").values()]
                log.put("", last)
            seconds.append(time.process_time() - began)
        store.engine.execute("DELETE FROM account_runs")
    return [f"{2**bits:,} buckets × {runs} runs", statistics.median(seconds)]


def bucket_of(accounts: int, paying: int, repeats: int) -> list[Cell]:
    """Seconds that a task takes for a bucket of which few accounts pay: it reads, checks and sorts all of them."""
    rng = np.random.default_rng(1)
    names = rng.integers(0, 2**64, (accounts, 2), dtype=np.uint64)
    stream = dpi.Stream(domain=dpi.Categories(["a"]), epsilon=1, budget=dpi.Ledger(per_slot="0.1"))
    offer = Offer.draw(stream.driver.state, stream.setting.allocation(), 0, SystemSource())
    budget = stream.setting.budget
    assert isinstance(budget, dpi.Ledger)
    closing = Closing(Counting.of(stream.setting), offer, 0, budget, stream.epsilon)
    zeros = np.zeros(paying, dtype=np.int64)
    rows = Rows(names[:paying], zeros, zeros, zeros + 1)
    with tempfile.TemporaryDirectory() as place:
        files = RunFiles(Folder.make(Path(place) / "buckets", secrets.token_hex(16)), "", bytes(32))
        run = files.append("0" * 16, 0, [], [], merged(to_records(names, np.zeros(accounts, dtype=STANDING))))
        seconds = []
        for _ in range(repeats):
            began = time.process_time()
            close_rows(rows, 0, Buckets(0), closing, files.read(run))
            seconds.append(time.process_time() - began)
    return [f"a task: a bucket of {accounts:,} accounts, of which {paying:,} pay", statistics.median(seconds)]


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, number in {"accounts": 10**9, "bits": 10, "slots": 500, "sql": 10}.items():
        parser.add_argument(f"--{name}", type=int, default=number)
    arguments = parser.parse_args()
    accounts, bits, slots = arguments.accounts, arguments.bits, arguments.slots
    record(
        "manifest-runs",
        parts=("store",),
        about=f"{accounts:,} accounts in {2**bits:,} buckets over {slots} slots, the later half; computed.",
        columns=["pay in a slot, %", "runs", "most runs", "bytes an account", "most bytes", "written, GB a slot"],
        rows=[followed(accounts, bits, share, slots) for share in (0.001, 0.01, 0.1, 0.5)],
    )
    sizes = ((4, 3), (10, 5), (12, 8), (14, 8))
    record(
        "manifest-payment",
        parts=("store", "engine", "budget"),
        columns=["manifest", "processor s"],
        rows=[*(timed(*size, arguments.sql) for size in sizes), bucket_of(1_000_000, 1_000, arguments.sql)],
    )


if __name__ == "__main__":
    main()
