"""Numbers of users of a site: as a stream knows them, as a count beside it does (`people`), and as plain noise would.

    python benchmarks/counted.py [--sizes 2000 20000 200000] [--slots 365] [--seeds 3]

A site with 60 values and so many active users a day: people come with rates of a Beta law, .4 % leave each day and as
many are new, weekends have a quarter less; on one day half of them cannot come (outage), on ten days newcomers are
half as many as all (campaign), and from one day on a value is three times as frequent. ε = 1 for ever, the week is
declared. *Plain noise* is the sum of the bins of one histogram a day for ε/slots. Error and half-width are relative,
the medians over days; `inside` is the share of days on which the 95 % interval has the truth, the worst weekday's, and
that of the eleven days of the outage and the campaign. KL is the mean of KL(active users ‖ shares). All are means over
sites of other seeds; of 100,000 users or more there is one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, cast

import numpy as np

import dpi
from dpi.exact.integers import Integers
from dpi.mechanism import Mechanism
from measure import ESTIMATES, Cell, record

BINS, PARTS = 60, (None, "0.1", "0.2")
OUTAGE, CAMPAIGN, JUMP = 0.4, (0.6, 10, 0.5), (0.5, 12, 3.0)
"""At which part of the days; for how many days, and how many newcomers; which value, and how many times as often."""
COLUMNS = [
    "users a day", "counted by", "error", "half-width", "inside, %", "worst weekday, %", "outage and campaign, %",
    "newcomers: error", "users of 7 days: error", "inside of 7 days, %", "KL of shares",
]  # fmt: skip

Figures = list[float]
"""Those of `COLUMNS`, without size and name; NaN where there is none."""


class Day(NamedTuple):
    """Who was active, with which value, and how many were new."""

    users: Integers
    values: Integers
    new: int


def site(users: int, days: int, seed: int) -> Iterator[Day]:
    """Yield the days of a site."""
    rng = np.random.default_rng([seed, 71])
    mean, law = 0.5 / 1.7, -1.1 * np.log(rng.permutation(BINS) + 1.0)
    people = int(users / mean)
    rate, names, newest = rng.beta(0.5, 1.2, people), np.arange(people), people
    own = rng.choice(BINS, people, p=_law(law))
    seen = np.zeros(people, dtype=bool)
    begin, lasts, more = CAMPAIGN
    for day in range(days):
        law = law + 0.01 * rng.normal(size=BINS)
        if day == int(JUMP[0] * days):
            law[JUMP[1]] += np.log(JUMP[2])
        gone = np.flatnonzero(rng.random(names.size) < 0.004)
        names[gone], newest = np.arange(newest, newest + gone.size), newest + gone.size
        rate[gone], own[gone], seen[gone] = (
            rng.beta(0.5, 1.2, gone.size),
            rng.choice(BINS, gone.size, p=_law(law)),
            False,
        )
        again = np.flatnonzero(rng.random(names.size) < 0.02)
        own[again] = rng.choice(BINS, again.size, p=_law(law))
        busy = (0.75 if day % 7 >= 5 else 1.0) * (0.5 if day == int(OUTAGE * days) else 1.0)
        here = np.flatnonzero(rng.random(names.size) < rate * busy)
        once = int(more * users) if int(begin * days) <= day < int(begin * days) + lasts else 0
        bins = np.where(rng.random(here.size) < 0.6, own[here], rng.choice(BINS, here.size, p=_law(law)))
        new = int((~seen[here]).sum()) + once
        seen[here] = True
        came = np.arange(newest, newest + once)
        newest += once
        yield Day(np.r_[names[here], came], np.r_[bins, rng.choice(BINS, once, p=_law(law))], new)


def _law(logs: np.ndarray) -> np.ndarray:
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def special(days: int) -> Integers:
    """Return the days of the outage and of the campaign."""
    first = int(CAMPAIGN[0] * days)
    return np.array([int(OUTAGE * days), *range(first, first + CAMPAIGN[1])], dtype=np.int64)


def play(users: int, days: int, seed: int, part: str | None) -> Figures:
    """Return the figures of a stream, with a count or without."""
    values = [str(value) for value in range(BINS)]
    mechanism = cast("Mechanism[object]", dpi.Boosted(season=7))
    stream = dpi.Stream(domain=dpi.Categories(values, other=None), epsilon=1, mechanism=mechanism, people=part)
    named = np.array(values)
    rows, weeks, last = [], [], list[Integers]()
    for day in site(users, days, seed):
        release = stream.release(day.users, named[day.values])
        count, shares = release.count(), np.bincount(day.values, minlength=BINS) / day.values.size
        lower, upper = count.interval()
        there = shares > 0
        divergence = float(shares[there] @ np.log(shares[there] / release.pdf[there]))
        new = abs(release.newcomers().value / max(day.new, 1) - 1)
        total = day.users.size
        rows.append([count.value / total - 1, (upper - lower) / 2 / total, lower <= total <= upper, new, divergence])
        last = [*last[-6:], day.users]
        told = release.active(7)
        if told is not None:
            distinct, ends = np.unique(np.concatenate(last)).size, told.interval()
            weeks.append([abs(told.value / distinct - 1), ends[0] <= distinct <= ends[1]])
    table = np.array(rows, dtype=float)
    week = np.array(weeks, dtype=float).reshape(-1, 2)
    by_weekday = [table[weekday::7, 2].mean() for weekday in range(7)]
    return [
        np.median(abs(table[:, 0])), np.median(table[:, 1]), 100 * table[:, 2].mean(), 100 * min(by_weekday),
        100 * table[special(days), 2].mean(), np.median(table[:, 3]),
        *([np.median(week[:, 0]), 100 * week[:, 1].mean()] if week.size else [np.nan] * 2), table[:, 4].mean(),
    ]  # fmt: skip


def plain(users: int, days: int, seed: int) -> Figures:
    """Return the figures of noise of ε/days on every bin, summed; its interval is that of its known scale."""
    rng, rows = np.random.default_rng([seed, 72]), []
    half = 1.96 * np.sqrt(2 * BINS) * days
    for day in site(users, days, seed):
        counts = np.bincount(day.values, minlength=BINS)
        noisy = counts + rng.laplace(0, days, BINS)
        shares, said = counts / counts.sum(), np.maximum(noisy, 1e-3)
        there = shares > 0
        divergence = float(shares[there] @ np.log(shares[there] / (said / said.sum())[there]))
        wrong = noisy.sum() - counts.sum()
        rows.append([abs(wrong) / counts.sum(), half / counts.sum(), abs(wrong) <= half, divergence])
    table = np.array(rows, dtype=float)
    inside = [100 * min(table[weekday::7, 2].mean() for weekday in range(7)), 100 * table[special(days), 2].mean()]
    median = np.median(table[:, :2], axis=0)
    return [*median, 100 * table[:, 2].mean(), *inside, *[np.nan] * 3, table[:, 3].mean()]


def main() -> None:
    """Play all sizes, and record the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[2000, 20_000, 200_000])
    parser.add_argument("--slots", type=int, default=365)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    ways: dict[str, Callable[[int, int, int], Figures]] = {
        "the stream" if part is None else f"people = {part}": partial(play, part=part) for part in PARTS
    }
    rows = list[list[Cell]]()
    for users in options.sizes:
        for name, way in (ways | {"plain noise": plain}).items():
            errors = np.mean(
                [way(users, options.slots, seed) for seed in range(options.seeds if users < 100_000 else 1)], axis=0
            )
            rows.append([users, name, *(None if np.isnan(each) else float(each) for each in errors)])
            print(*rows[-1], sep=" | ", flush=True)
    record("counted", parts=(*ESTIMATES, "estimator"), columns=COLUMNS, rows=rows)


if __name__ == "__main__":
    main()
