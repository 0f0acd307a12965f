"""Speed and memory of the kernel, each figure next to its floor or peer in the same run.

    python benchmarks/kernel.py [--quick]

Floors: bare polars and bare duckdb doing the same bounding (one user one unit). Peer: OpenDP's exact samplers.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np
import polars as pl

import dpi
from dpi.budget import Accounts, Epsilon
from dpi.budget.account_table import AccountTable
from dpi.budget.allocation import NearestUnused
from dpi.budget.series import Spence
from dpi.events.rows import Rows
from dpi.exact.integers import GRAINS
from dpi.histogram.grouping import Groups
from dpi.noise import SystemSource, add_laplace, exponential_mechanism, permute_and_flip
from measure import Cell, interleaved, peak_of, record

BINS = 1000
EVENTS_A_USER = 5
SOURCE = SystemSource()


def events(rows: int, users: int, kind: str) -> pl.DataFrame:
    rng = np.random.default_rng(1)  # benchmark data, no privacy noise
    frame = pl.DataFrame({"user": rng.integers(0, users, rows), "value": rng.integers(0, BINS, rows)})
    if kind == "text":
        frame = frame.with_columns(user=pl.format("user-{}", pl.col("user").cast(pl.String).str.zfill(9)))
    return frame.rechunk()


def column_bytes(frame: pl.DataFrame) -> int:
    """Bytes of the input columns: 8 a number; 16 a text's view, and its bytes where it is longer than 12."""
    text = frame["user"].dtype == pl.String
    sizes = frame["user"].str.len_bytes() if text else None
    return 8 * frame.height + (8 * frame.height if sizes is None else 16 * frame.height + int(sizes.sum()))


def with_dpi(frame: pl.DataFrame, domain: dpi.Categories) -> object:
    return dpi.histogram.compress(frame["user"], frame["value"], domain).grains


def with_polars(frame: pl.DataFrame) -> object:
    pairs = frame.lazy().group_by("user", "value").len().with_columns(rows=pl.col("len").sum().over("user"))
    grains = pl.col("len").cast(pl.Int64) * GRAINS // pl.col("rows")
    return pairs.group_by("value").agg(grains.sum()).sort("value").collect(engine="streaming")


def with_duckdb(frame: pl.DataFrame) -> object:
    import duckdb

    relation = duckdb.sql(
        f"""with pairs as (select "user", value, count(*) n from frame group by all),
                 users as (select "user", count(*) r from frame group by all)
            select value, sum(n * {GRAINS} // r)::bigint from pairs join users using ("user") group by all order by 1"""
    )
    assert relation is not None
    return relation.fetchnumpy()


def compression(rows: int, users: int, kind: str, repeats: int) -> list[Cell]:
    frame = events(rows, users, kind)
    domain = dpi.Categories(range(BINS))
    ours = partial(with_dpi, frame, domain)
    expected = with_polars(frame)["len"].to_numpy()  # type: ignore[index]
    assert (ours()[:BINS] == expected).all()  # type: ignore[index]
    seconds = interleaved(
        {"dpi": ours, "polars": partial(with_polars, frame), "duckdb": partial(with_duckdb, frame)}, repeats
    )
    floor = min(seconds["polars"], seconds["duckdb"])
    memory = subprocess.run(
        [sys.executable, __file__, "--memory", str(rows), str(users), kind], capture_output=True, text=True, check=True
    )
    share = float(memory.stdout)
    label = f"{rows:,} events, {users:,} users, {kind} ids"
    return [label, seconds["dpi"], seconds["polars"], seconds["duckdb"], seconds["dpi"] / floor, share]


def memory(rows: int, users: int, kind: str) -> None:
    frame = events(rows, users, kind)
    domain = dpi.Categories(range(BINS))
    with_dpi(frame.head(1000), domain)
    print(peak_of(partial(with_dpi, frame, domain)) / column_bytes(frame))


def noise(repeats: int) -> Iterator[list[Cell]]:
    import opendp.prelude as opendp

    opendp.enable_features("contrib")
    count, scale = 100_000, float(GRAINS / Fraction(1, 20))
    values = np.zeros(count, dtype=np.int64)
    space = opendp.vector_domain(opendp.atom_domain(T="i64")), opendp.l1_distance(T="i64")
    laplace = opendp.m.make_laplace(*space, scale=scale)
    listed = values.tolist()
    for epsilon in ("1", "0.05", "1e-4", "1e-8", "1e-12"):
        amount = Epsilon.at_most(epsilon)
        seconds = interleaved(
            {"dpi": partial(add_laplace, values, amount.scale, SOURCE), "opendp": partial(laplace, listed)}, repeats
        )
        label = f"discrete Laplace, {count:,} draws, ε = {epsilon} (OpenDP at 0.05)"
        yield [label, seconds["dpi"], seconds["opendp"], seconds["opendp"] / seconds["dpi"]]
    scores = np.random.default_rng(2).integers(0, 1000, count)
    space2 = opendp.vector_domain(opendp.atom_domain(T="i64")), opendp.linf_distance(T="i64")
    peer = opendp.m.make_noisy_max(*space2, opendp.max_divergence(), scale=200.0)
    as_list = scores.tolist()
    rate = Fraction(1, 200)
    for name, ours in (("permute-and-flip", permute_and_flip), ("exponential mechanism", exponential_mechanism)):
        seconds = interleaved({"dpi": partial(ours, scores, rate, SOURCE), "opendp": partial(peer, as_list)}, repeats)
        label = f"{name}, {count:,} candidates (OpenDP: noisy max)"
        yield [label, seconds["dpi"], seconds["opendp"], seconds["opendp"] / seconds["dpi"]]


def ledger(accounts: int, active: int, kind: str) -> list[Cell]:
    book = Accounts(Epsilon.at_most(2), key=secrets.token_bytes(32))
    epsilon, step, slot = Epsilon.at_most("0.05"), 1_000_000, 0
    name = pl.format("user-{}", pl.col("i").cast(pl.String).str.zfill(9)) if kind == "text" else pl.col("i")
    for start in range(0, accounts, step):
        ids = pl.DataFrame({"i": np.arange(start, min(start + step, accounts))}).select(name.alias("id"))["id"]
        book.debit(book.bill(ids, epsilon, slot))
        slot += 1
    rng = np.random.default_rng(3)
    chosen = rng.choice(accounts, active, replace=False)
    frame = pl.DataFrame({"i": rng.permutation(np.repeat(chosen, EVENTS_A_USER))}).select(
        user=name, value=pl.Series(rng.integers(0, BINS, EVENTS_A_USER * active))
    )
    domain = dpi.Categories(range(BINS))
    plain, weighted = [], []
    for _ in range(5):
        start_time = time.perf_counter()
        with_dpi(frame, domain)
        plain.append(time.perf_counter() - start_time)
        groups = Groups(Rows.of(frame["user"], domain.encode(frame["value"]), bytes(32)), domain.size)
        begin = time.perf_counter()
        bill = book.bill(groups.names, epsilon, slot)
        book.debit(bill)
        weighted.append(time.perf_counter() - begin)
        slot += 1
    table = book._table
    assert isinstance(table, AccountTable)
    size = table.nbytes / len(table)
    compress_time, pay_time = float(np.median(plain)), float(np.median(weighted))
    label = f"{accounts:,} accounts, {active:,} active, {kind} ids"
    return [label, pay_time, compress_time, pay_time / compress_time, round(size)]


def random_allocation(draws: int) -> list[Cell]:
    allocation = NearestUnused(Spence(mu=0.1, zeta=0.1), Epsilon.at_most(1), Fraction(10**8))
    window = draws // 20
    times = []
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(window):
            allocation.draw(SOURCE)
        times.append((time.perf_counter() - start) / window)
    return [f"{draws:,} draws", times[0] * 1e6, times[-1] * 1e6]


def main() -> None:
    if sys.argv[1:2] == ["--memory"]:
        memory(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
        return
    quick, repeats = "--quick" in sys.argv, 3 if "--quick" in sys.argv else 5
    sizes = [(1_000_000, 200_000)] if quick else [(1_000_000, 200_000), (10_000_000, 2_000_000)]
    record(
        "kernel-compress",
        parts=("events", "domain", "histogram"),
        columns=["", "dpi s", "polars s", "duckdb s", "dpi / faster", "memory / input"],
        rows=[compression(rows, users, kind, repeats) for rows, users in sizes for kind in ("integer", "text")],
    )
    record("kernel-noise", parts=("noise",), columns=["", "dpi s", "OpenDP s", "× faster"], rows=noise(repeats))
    accounts = (1_000_000, 100_000) if quick else (10_000_000, 1_000_000)
    record(
        "kernel-ledger",
        parts=("events", "histogram", "budget"),
        columns=["", "pay s", "compress s", "pay / compress", "bytes an account"],
        rows=[ledger(*accounts, kind) for kind in ("integer", "text")],
    )
    record(
        "kernel-allocation",
        parts=("budget", "noise"),
        columns=["random budget allocation", "µs a draw at the start", "at the end"],
        rows=[random_allocation(100_000 if quick else 1_000_000)],
    )


if __name__ == "__main__":
    main()
