"""What may be done with rows of the tidy table: intervals of sums over values and of averages over days, on the demo.

    python benchmarks/group_intervals.py [RUNS] [DAYS]

Each run releases days of the made-up shop with new noise. Printed are how often the truth lay in an interval, and how
wide intervals were, in percentage points.
"""

from __future__ import annotations

import itertools
import sys

import polars as pl

import dpi
from dpi import demo

GROUPS = {" + ".join(pages): list(pages) for size in (2, 3, 4) for pages in itertools.combinations(demo.PAGES, size)}


def release(days: int) -> tuple[dpi.reader.Releases, pl.DataFrame]:
    """Return the releases of some days of the shop, and the true share of each page in each hour."""
    store = dpi.MemoryStore()
    with dpi.Stream(
        domain=dpi.Categories(demo.PAGES),
        epsilon=1,
        slot="1h",
        start=demo.START,
        store=store,
        mechanism=dpi.Boosted(season=24),  # type: ignore[arg-type] # has the state of its own kind
    ) as stream:
        first, truths = stream.next_slot, []
        for hour, visits in enumerate(demo.hourly(24 * days)):
            stream.release(visits["user"], visits["page"])
            each = visits.group_by("user", "page").len().with_columns(pl.col("len") / pl.col("len").sum().over("user"))
            shares = each.group_by("page").agg(pl.col("len").sum())
            truths.append(shares.select(slot=pl.lit(first + hour), value="page", truth=pl.col("len") / pl.sum("len")))
    return dpi.open(store), pl.concat(truths)


def judge(name: str, frame: pl.DataFrame) -> dict[str, object]:
    """Say how often `lower` … `upper` held `truth`, and how wide it was."""
    inside = ((pl.col("lower") <= pl.col("truth")) & (pl.col("truth") <= pl.col("upper"))).mean()
    return frame.select(rule=pl.lit(name), inside=inside, width=100 * (pl.col("upper") - pl.col("lower")).mean()).row(
        0, named=True
    )


def main(runs: int, days: int) -> None:
    """Print a row for each rule, over all runs."""
    found = []
    for _ in range(runs):
        releases, truth = release(days)
        rows = releases.table().join(truth, on=["slot", "value"])
        members = [(name, page) for name, pages in GROUPS.items() for page in pages]
        groups = pl.DataFrame(members, schema=["group", "value"], orient="row")
        summed = rows.join(groups, on="value").group_by("slot", "group").agg(pl.sum("truth", "lower", "upper"))
        right = releases.table(GROUPS).join(summed.select("slot", "group", "truth"), left_on=["slot", "value"],
                                            right_on=["slot", "group"])  # fmt: skip
        daily = rows.group_by(pl.col("start").dt.date(), "value").agg(
            pl.mean("share", "truth", "lower", "upper"),
            half=(((pl.col("upper") - pl.col("lower")) / 2) ** 2).sum().sqrt() / pl.len(),
        )
        shrunk = daily.with_columns(lower=pl.col("share") - pl.col("half"), upper=pl.col("share") + pl.col("half"))
        found += [
            judge("one value of one slot", rows),
            judge("values, ends summed (SUM)", summed),
            judge("values, table(groups)", right),
            judge("a day, ends averaged (AVG)", daily),
            judge("a day, as if errors were independent", shrunk),
        ]
    print(pl.DataFrame(found).group_by("rule", maintain_order=True).agg(pl.mean("inside", "width"), runs=pl.len()))


if __name__ == "__main__":
    main(*(int(word) for word in (*sys.argv[1:], *("4", "14")[len(sys.argv) - 1 :])))
