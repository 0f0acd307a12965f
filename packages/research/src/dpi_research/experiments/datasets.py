"""The table of data sets: what the published text states, and what is here, counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from dpi_research.datasets import DATASETS, load
from dpi_research.datasets.generators import Counts, Floats, published, stream_named
from dpi_research.experiments import captioned
from dpi_research.reproduce.experiment import Case, Made, Rows, Sheet, Table, every
from dpi_research.reproduce.figures import Style, finish, legend, line, panels
from dpi_research.reproduce.rows import course, distinct, select, value

PRINTED = (
    ("COVID-19", 48_925, 110, 1_000, "6 months"),
    ("Network Traffic", 5_074_413, 65_534, 2_700, "1 hour"),
    ("USDA Production", 1_695_038, 111_989, 2_700, "1960-2022"),
)
"""Data set, “User #”, “Domain Size”, “Slot #” and “Period”, as printed."""


MEASURED = 20
"""Slots of a made-up stream that are counted."""


@dataclass(frozen=True)
class Use:
    """How a data set is made a stream: what the domain is, and how long a slot."""

    domain: str
    """The column whose values are the bins."""
    means: str
    slot: str
    """A duration of polars."""


USES = {
    "covid19": Use("user", "regions", "1d"),
    "honeypot": Use("value", "destination ports", "1d"),
    "packets": Use("value", "lengths of packets", "1s"),
    "psd": Use("commodity", "commodities", "1y"),
    "flights": Use("value", "destinations", "1w"),
    "retail": Use("value", "products", "1w"),
    "wikiticker": Use("value", "channels", "30m"),
}


def measure_set(name: str) -> Made:
    """Counts of one data set, and in how many slots its users are seen. For public data: nothing here is private."""
    use, table = USES[name], _events(name)
    slots = table["slot"].n_unique()
    seen = _slots_of_a_user(table)
    rows: Made = [
        {"kind": "real", "name": name, "users": int(sum(seen.values())), "bins": table[use.domain].n_unique(),
         "means": use.means, "slots": slots, "slot": use.slot, "records": int(table["records"].sum()),
         "first": str(table["timestamp"].min()), "last": str(table["timestamp"].max()),
         "unit": DATASETS[name].unit}
    ]  # fmt: skip
    counts = table.group_by(use.domain).agg(pl.col("records").sum())["records"].to_numpy()
    rows[0]["uniform_kl"] = _from_uniform(counts[counts > 0] / counts.sum(), int(rows[0]["bins"] or 0))
    longest = max(seen)
    for least in np.unique(np.geomspace(1, longest, 40).astype(int)).tolist():
        share = sum(users for times, users in seen.items() if times >= least) / sum(seen.values())
        rows.append({"kind": "seen", "name": name, "slots": least, "share": share})
    return rows


def _events(name: str) -> pl.DataFrame:
    """The table with its slots and the number of records of a row: one, or the new cases of a region."""
    use, table = USES[name], load(name)
    if name == "covid19":
        table = table.filter(pl.col("value") > 0).with_columns(records="value")
    else:
        table = table.drop_nulls(["user", use.domain]).with_columns(records=pl.lit(1, dtype=pl.Int64))
    if name == "psd":
        return table.with_columns(slot="timestamp")
    return table.with_columns(slot=pl.col("timestamp").cast(pl.Datetime("us")).dt.truncate(use.slot))


def _slots_of_a_user(table: pl.DataFrame) -> dict[int, int]:
    """How many users are seen in so many slots. In a table of counts everybody counted is seen once."""
    if table["records"].max() != 1:
        return {1: int(table["records"].sum())}
    times = table.group_by("user").agg(times=pl.col("slot").n_unique()).group_by("times").len()
    return {int(t): int(n) for t, n in times.rows()}


def _from_uniform(pdf: Floats, bins: int) -> float:
    """KL from the uniform PDF on so many bins: what there is to be learnt.

    >>> round(_from_uniform(np.array([1.0]), 2), 4)
    0.6931
    """
    return float(pdf @ np.log(pdf * bins))


@dataclass(frozen=True)
class MadeUp:
    """A generated stream, and how much of it an experiment plays."""

    make: Callable[[np.random.Generator, int], Counts]
    bins: int
    slots: int
    sets: int = 1


MADE_UP = {
    "published, k = 100": MadeUp(stream_named("published").make, 100, 3_000),
    "published, k = 1,000": MadeUp(stream_named("published1k").make, 1_000, 2_700, 10),
    "published, k = 10,000": MadeUp(stream_named("published10k").make, 10_000, 2_700, 10),
    "published, k = 10,000, long": MadeUp(lambda rng, slots: published(rng, slots, 10_000, 100), 10_000, 200_000),
    "zipf with drift": MadeUp(stream_named("drift.01").make, 1_000, 3_000),
}


def measure_made_up(name: str, seed: int) -> Made:
    """A generated stream, measured on some of its slots."""
    stream = MADE_UP[name]
    known = [
        (int(counts.sum()), _from_uniform(counts[counts > 0] / counts.sum(), stream.bins))
        for counts, _ in stream.make(np.random.default_rng(seed), MEASURED)
    ]
    users, kl = (float(np.mean(column)) for column in zip(*known, strict=True))
    return [
        {"kind": "made up", "name": name, "users": round(users), "bins": stream.bins, "slots": stream.slots,
         "sets": stream.sets, "uniform_kl": kl}
    ]  # fmt: skip


def cases(quick: bool) -> list[Case]:
    """Each data set once; the quick form is the full one."""
    return [
        *(Case(measure_set, {"name": name}, data=name) for name in DATASETS),
        *every(measure_made_up, name=tuple(MADE_UP), seed=0),
    ]


REAL_COLUMNS = {
    "data set": "{name}",
    "privacy unit: one user is": "{unit}",
    "users": "{users:,.0f}",
    "records": "{records:,.0f}",
    "domain": "{bins:,.0f} {means}",
    "slots": "{slots:,.0f} of {slot}",
    "period": "{first!s:.16} to {last!s:.16}",
    "KL from uniform, all records": "{uniform_kl:.3g}",
}
MADE_UP_COLUMNS = {
    "stream": "{name}",
    "data sets": "{sets:,.0f}",
    "users in a slot": "{users:,.0f}",
    "domain": "{bins:,.0f}",
    "slots": "{slots:,.0f}",
    "KL from uniform, a slot": "{uniform_kl:.2g}",
}


def sheet(rows: Rows) -> Sheet:
    """Three tables, and how often users come back."""
    real, seen, made = (select(rows, kind=kind) for kind in ("real", "seen", "made up"))
    tables = [
        Table(
            "Data sets as printed",
            ("data set", "“User #”", "“Domain Size”", "“Slot #”", "“Period”"),
            tuple((name, f"{u:,}", f"{k:,}", f"{t:,}", period) for name, u, k, t, period in PRINTED),
        )
    ]
    tables += Table.of("Data sets here, counted", real, REAL_COLUMNS)
    tables += Table.of(f"Made-up streams, measured on {MEASURED} slots each", made, MADE_UP_COLUMNS)
    figures = captioned(__name__, {"users": _figure(seen) if seen else None})
    return Sheet(found=tuple(_found(real, seen, made)), figures=figures, tables=tuple(tables))


def _figure(rows: Rows) -> Figure:
    figure, (axes,) = panels(1, width=6.4, height=3.6)
    for index, name in enumerate(map(str, distinct(rows, "name"))):
        line(axes, *course(rows, "slots", "share", name=name), name, style=Style.numbered(index))
    x, y = "seen in at least so many slots", "share of users"
    finish(axes, "How often users come back", x, y, log_x=True, log_y=True)
    legend(figure, axes)
    return figure


def _found(real: Rows, seen: Rows, made: Rows) -> list[str]:
    sentences = []
    again = select(seen, slots=2)
    if again:
        most, least = (pick(again, key=lambda row: value(row, "share")) for pick in (max, min))
        sentences.append(
            f"Users come back: {value(most, 'share'):.0%} of `{most['name']}` are seen in more than one slot, "
            f"{value(least, 'share'):.1%} of `{least['name']}`. A guarantee for one record does not cover them."
        )
    if made:
        flat = [row for row in made if str(row["name"]).startswith("published")]
        others = [row for row in [*real, *made] if row not in flat]
        if flat and others:
            sentences.append(
                f"The published synthetic streams are nearly uniform: KL from the uniform PDF is at most "
                f"{max(value(row, 'uniform_kl') for row in flat):.2g}, for the other streams here at least "
                f"{min(value(row, 'uniform_kl') for row in others):.2g}. A release that knows nothing does well there."
            )
    return sentences
