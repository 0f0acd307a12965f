"""A year at size: a daily stream, its count of users and a weekly stream in one PostgreSQL store.

    python benchmarks/year.py [--users 1000000] [--values 1000] [--days 365] [--url postgresql:///postgres]

A million active users a day: three times as many have the product, each comes on one day of three, one in a hundred
leaves each day and as many are new. The daily stream has 1,000 values, and `people` counts its users for a tenth of ε;
the weekly one has the values of the week's users, and 30 % of ε. ε = 1 for ever. Seconds of a slot are those on the
wall, from rows in arrays to the stored release, the median of the last thirty; processor seconds of this process stand
beside them. Memory is what the process holds, its highest so far. Sizes are those that PostgreSQL tells. The copy is
`dpi backup create`, and the checks those of `dpi verify`, without and with accounts (`--curator`). Rows are told after
a week, a month, a quarter and at the end.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple, cast

import numpy as np
import psycopg

import dpi
from dpi.exact.integers import Integers
from dpi.mechanism import Mechanism
from dpi.store.backup import back_up
from dpi.verification import check_accounts, verify
from measure import SLOT, Cell, record, resident

SCHEMA = "dpi_benchmark_year"
COLUMNS = [
    "days", "accounts", "daily slot, s", "its processor time, s", "weekly slot, s", "most memory, GB",
    "store, GB", "bytes an account", "backup, s", "verify, s", "verify accounts, s",
]  # fmt: skip
TOLD = (7, 28, 91)


class Day(NamedTuple):
    """Who was active, and at which value."""

    users: Integers
    values: Integers


class Site:
    """Who has the product, and what each of them likes."""

    def __init__(self, users: int, values: int) -> None:
        self._rng = np.random.default_rng(53)
        law = 1 / np.arange(1.0, values + 1)
        self._ends = np.cumsum(law / law.sum())
        self.names = np.arange(3 * users, dtype=np.int64)
        self._likes = self._draw(self.names.size)
        self._newest = int(self.names.size)
        self.came = np.empty(0, dtype=np.int64)
        """All who were active at least once: they have accounts."""

    def _draw(self, size: int) -> Integers:
        return np.minimum(np.searchsorted(self._ends, self._rng.random(size)), self._ends.size - 1)

    def play(self) -> Day:
        """Return the next day."""
        rng = self._rng
        gone = rng.choice(self.names.size, self.names.size // 100, replace=False)
        self.names[gone] = np.arange(self._newest, self._newest + gone.size)
        self._newest += gone.size
        self._likes[gone] = self._draw(gone.size)
        here = np.flatnonzero(rng.random(self.names.size) < 1 / 3)
        other = rng.random(here.size) < 0.4
        values = self._likes[here]
        values[other] = self._draw(int(other.sum()))
        self.came = np.union1d(self.came, self.names[here])
        return Day(self.names[here], values)


def erase(url: str) -> None:
    """Take away what an earlier run left."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE".encode())


def size(url: str) -> int:
    """Return the bytes of all tables and indices of the store."""
    asked = "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    with psycopg.connect(url, autocommit=True) as connection:
        (total,) = cast("tuple[int]", connection.execute(
            f"{asked} WHERE n.nspname = '{SCHEMA}' AND c.relkind = 'r'".encode()
        ).fetchone())  # fmt: skip
    return int(total)


def seconds(run: Callable[[], object]) -> float:
    """Return how long something takes on the wall."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def tell(url: str, folder: Path, accounts: int, day: int, times: list[list[float]], weeks: list[float]) -> list[Cell]:
    """Return a row about so many days."""
    copy = folder / f"{day}.db"
    back = seconds(lambda: back_up(url, copy))
    copy.unlink()
    held, process = (median(each) for each in zip(*times[-30:], strict=True))
    with dpi.open_store(url, key_file=folder / "key", read_only=True, curator=True) as reader:
        problems = list[str]()
        checked = seconds(lambda: problems.extend(verify(reader).problems))
        counted = seconds(lambda: problems.extend(check_accounts(reader)))
    assert problems == []
    held_bytes = size(url.partition(f"schema={SCHEMA}")[0].rstrip("?&"))
    row = [day, accounts, held, process, median(weeks[-5:]), resident("VmHWM") / 1e9, held_bytes / 1e9]
    row += [held_bytes / accounts, back, checked, counted]
    print(*row, sep=" | ", flush=True)
    return cast("list[Cell]", row)


def main() -> None:
    """Play the year, and record it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--values", type=int, default=1000)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--url", default="postgresql:///postgres")
    options = parser.parse_args()
    erase(options.url)
    url = f"{options.url}{'&' if '?' in options.url else '?'}schema={SCHEMA}"
    site, rows = Site(options.users, options.values), list[list[Cell]]()
    domain = dpi.Categories([f"page {number}" for number in range(options.values)], other=None)
    named = np.array(domain.values)
    with tempfile.TemporaryDirectory() as folder:
        store = dpi.open_store(url, key_file=Path(folder) / "key", witness=Path(folder) / "witness")
        begin = partial(dpi.Stream, domain=domain, epsilon=1, store=store, start="2026-01-08")
        season = cast("Mechanism[object]", dpi.Boosted(season=7))
        daily = begin(slot="1d", name="daily", people="0.1", mechanism=season)
        weekly = begin(slot="7d", name="weekly", budget=dpi.Ledger(quota="0.3"))
        times, weeks, week = list[list[float]](), list[float](), list[Day]()
        for day in range(1, options.days + 1):
            today = site.play()
            week.append(today)
            texts, used = named[today.values], time.process_time()
            wall = seconds(partial(daily.release, today.users, texts))
            times.append([wall, time.process_time() - used])
            if len(week) == 7:
                users, values = (np.concatenate(each) for each in zip(*week, strict=True))
                texts, week = named[values], []
                weeks.append(seconds(partial(weekly.release, users, texts)))
            if day in TOLD or day == options.days:
                rows.append(tell(url, Path(folder), site.came.size, day, times, weeks))
        store.close()
    erase(options.url)
    record(
        "year",
        parts=SLOT,
        columns=COLUMNS,
        rows=rows,
        about=f"{options.users:,} active users a day, {options.values:,} values.",
    )


if __name__ == "__main__":
    main()
