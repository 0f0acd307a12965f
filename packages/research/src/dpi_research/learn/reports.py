"""The learned filter on streams whose truth is known: unseen worlds, a year of a site, a shop, and real streams.

`worlds.py` and `year.py` are files outside of this package: worlds and streams that other estimators were judged on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import polars as pl

from dpi.estimator import QUANTILE, Weights, difference_scale, rose, sum_scale
from dpi.estimator.prices import Floats, Options, Wholes
from dpi_research.datasets import load
from dpi_research.learn.batches import load_script, make
from dpi_research.learn.budgets import Listed
from dpi_research.learn.evaluation import Engagement, Said, compare, engagement, follow, follow_stream, summary
from dpi_research.learn.heads_examples import example
from dpi_research.learn.ledger import Visits
from dpi_research.learn.records import Record
from dpi_research.learn.shop import BINS, DAYS, JUMP_DAY, JUMPED, LIFTED, shop
from dpi_research.reproduce.streams import by_clock, frequent, in_slots

REAL = {
    "honeypot": ("honeypot", "value", "1d", 100),
    "flights-carrier": ("flights", "carrier", "1d", 20),
    "retail-country": ("retail", "country", "7d", 20),
}
"""A name of `datasets`, the column of values, the slot, and how many values are listed."""


CHOOSING, REPORTING = range(900_000, 900_200), range(910_000, 910_200)
"""Seeds of worlds of the prior that no training saw: for choosing between weights, and for reporting once."""


def on_worlds(weights: Weights, script: Path, seeds: range, options: Options) -> Iterator[str]:
    """Yield a line for each world of `worlds.py`, and a summary in the words of that script."""
    worlds, rows, jumps = load_script(script), [], []
    heads = list[dict[str, Engagement]]()
    for seed in seeds:
        world = worlds.world(seed)
        stream = worlds.play(world)
        budget = Listed(world.bins, world.epsilon, options)
        measured, said = follow_stream(weights, stream, world.bins, world.epsilon, world.season, budget, seed)
        scores = compare(measured, said)
        if len(scores.error) < 10:
            continue
        jumps.append(_after_jump(measured, said, world.jump))
        if said.told:
            heads.append(engagement(measured, said))
        rows.append([
            scores.divergence.mean(), scores.uniform.mean(), scores.bins_inside.mean(), scores.inside.mean(),
            np.median(scores.error), np.median(scores.half_width), scores.newcomers_inside.mean(),
            scores.returning_inside.mean(), np.nanmean(said.inside),
        ])  # fmt: skip
        yield f"{seed} {world.bins} bins, {world.slots} slots, ε {world.epsilon}: {summary(scores)} | {world.words}"
    table, after = np.array(rows), np.array(jumps)
    right = (table[:, 2] > 0.9) & (table[:, 2] < 0.985)
    after = after[~np.isnan(after)]
    yield (
        f"{len(table)} worlds: KL/uniform {np.exp(np.log(table[:, 0] / table[:, 1]).mean()):.3f}; above uniform + .01 "
        f"{(table[:, 0] > table[:, 1] + 0.01).mean():.3f}; bins inside .90-.985 {right.mean():.2f}, lowest "
        f"{table[:, 2].min():.2f}; active users: error {np.median(table[:, 4]):.3f}, half-width "
        f"{np.median(table[:, 5]):.2f}, inside below .9 in {(table[:, 3] < 0.9).mean():.2f} of worlds, lowest "
        f"{table[:, 3].min():.2f}; after a jump {after.mean():.2f}, below .8 in {(after < 0.8).mean():.2f}; newcomers "
        f"inside {table[:, 6].mean():.3f}, returning {table[:, 7].mean():.3f}, forecasts {table[:, 8].mean():.3f}"
    )
    for head in heads[0] if heads else ():
        errors, insides = np.array([scores[head] for scores in heads if head in scores]).T
        yield f"{head}: error {np.median(errors):.3f}, inside {insides.mean():.3f}"


def on_people(
    weights: Weights, stream: Iterable[tuple[Wholes, Visits]], epsilon: float, period: int | None, name: str
) -> Iterator[str]:
    """Yield what a count of a stream's active users gives, in one bin, with all of ε."""
    alone = ((users, np.zeros(users.size, dtype=np.int64)) for users, _ in stream)
    measured, said = follow_stream(weights, alone, 1, epsilon, period, Listed(1, epsilon))
    scores = compare(measured, said)
    yield (
        f"{name}, counted with ε = {epsilon:g}: error {np.median(scores.error):.3f}, half-width "
        f"{np.median(scores.half_width):.3f}, inside {scores.inside.mean():.3f}; newcomers inside "
        f"{scores.newcomers_inside.mean():.3f}, returning {scores.returning_inside.mean():.3f}"
    )
    yield from _people(name, measured, said)


def on_prior(weights: Weights, seeds: range, most_bins: int = 512) -> Iterator[str]:
    """Yield what unseen worlds of the prior give, with their own budgets: all, and by the number of users."""
    rows = []
    for seed in seeds:
        measured = make(seed, longest=700, most_bins=most_bins)
        if measured is None:
            continue
        scores = compare(measured, follow(weights, measured, seed))
        if len(scores.error) >= 10:
            uniform = scores.divergence.mean() > scores.uniform.mean() + 0.01
            rows.append([
                measured.users.sum(1).mean(), scores.divergence.mean(), scores.bins_inside.mean(),
                scores.inside.mean(), np.median(scores.error), np.median(scores.half_width), uniform,
            ])  # fmt: skip
    table = np.array(rows)
    for name, part in (
        ("all", table), ("below 10,000 users", table[table[:, 0] < 1e4]), ("from 10,000 on", table[table[:, 0] >= 1e4])
    ):  # fmt: skip
        right = (part[:, 2] > 0.9) & (part[:, 2] < 0.985)
        mean = np.exp(np.log(np.maximum(part[:, 1], 0) + 1e-9).mean())
        yield (
            f"prior, {name}: {len(part)} worlds: KL {mean:.5f}; above uniform + .01 "
            f"{part[:, 6].mean():.3f}; bins inside .90-.985 {right.mean():.2f}, lowest {part[:, 2].min():.2f}; "
            f"active users: error {np.median(part[:, 4]):.3f}, half-width {np.median(part[:, 5]):.2f}, inside below "
            f".9 in {(part[:, 3] < 0.9).mean():.2f}"
        )


def on_joint(weights: Weights, seeds: range) -> Iterator[str]:
    """Yield how often sums, means and changes of shares are inside of their joint intervals, on worlds of the prior.

    Beside it what independent errors would say; and how often a share rose whose probability of it was above .95.
    """
    names = "sums of bins, and means over them", "changes since 1, 7 or 28 slots"
    held, plain, sure = ([list[float](), list[float]()] for _ in range(3))
    for seed in seeds:
        sample = example(seed, weights=weights, longest=256, most_bins=200)
        for shares, scales, users, of, wrong in sample.sums if sample else ():
            scale = sum_scale(weights, shares, scales, users, of)
            alone = 0.5 * np.log(((of - of @ shares) ** 2 * np.exp(2 * scales)).sum() + 1e-24)
            held[0].append(float(abs(wrong) <= QUANTILE * np.exp(scale)))
            plain[0].append(float(abs(wrong) <= QUANTILE * np.exp(alone)))
        for now, now_scale, then, then_scale, apart, users, wrong in sample.differences if sample else ():
            scale = difference_scale(weights, now, now_scale, then, then_scale, apart, users)
            alone = 0.5 * np.log(np.exp(2 * now_scale) + np.exp(2 * then_scale))
            held[1] += (np.abs(wrong) <= QUANTILE * np.exp(scale)).tolist()
            plain[1] += (np.abs(wrong) <= QUANTILE * np.exp(alone)).tolist()
            likely, truth = rose(now - then, scale), wrong + now - then
            sure[0] += (truth > 0)[likely > 0.95].tolist()
            sure[1] += (truth > 0)[likely < 0.05].tolist()
    for name, joint, alone_ in zip(names, held, plain, strict=True):
        yield f"{name}: {len(joint)}, inside {np.mean(joint):.3f}; were errors independent {np.mean(alone_):.3f}"
    yield (
        f"rose: true of {np.mean(sure[0]):.3f} of {len(sure[0])} with a probability above .95, of "
        f"{np.mean(sure[1]):.3f} of {len(sure[1])} below .05"
    )


def _people(name: str, measured: Record, said: Said) -> Iterator[str]:
    """Yield what the heads said of people, where there are heads."""
    if said.told:
        parts = [f"{head} {score.error:.3f} {score.inside:.2f}" for head, score in engagement(measured, said).items()]
        yield f"{name}, people: error, inside: {'; '.join(parts)}"


def _after_jump(measured: Record, said: Said, jump: tuple[int, int, float] | tuple[()]) -> float:
    """Return how often a value that jumped is inside in the 30 slots after."""
    if not jump:
        return float("nan")
    here = slice(jump[0], jump[0] + 30)
    total = measured.users[here].sum(1)
    truth = measured.users[here][:, jump[1]] / np.maximum(total, 1)
    held = np.abs(truth - said.shares[here][:, jump[1]]) <= said.share_width[here][:, jump[1]]
    return float(held[total >= 10].mean()) if (total >= 10).any() else float("nan")


def on_year(weights: Weights, script: Path, users: int, options: Options) -> Iterator[str]:
    """Yield what a year of `year.py` gives, without and with the week declared."""
    year = load_script(script)
    for period in (None, 7):
        stream = ((names, values) for _, names, values in year.world(users, 60, 365, 0))
        measured, said = follow_stream(weights, stream, 60, 1.0, period, Listed(60, 1.0, options))
        held = _inside(measured, said)[150:160, 12].mean()
        yield f"{users} a day, period {period}: {summary(compare(measured, said))} | jump inside {held:.2f}"
        yield from _people(f"{users} a day", measured, said)


def _inside(measured: Record, said: Said) -> Floats:
    truth = measured.users / np.maximum(measured.users.sum(1), 1)[:, None]
    return np.asarray(np.abs(truth - said.shares) <= said.share_width, dtype=float)


def on_shop(weights: Weights, options: Options) -> Iterator[str]:
    """Yield what the shop gives: the value that tripled, and values with a weekday of their own."""
    measured, said = follow_stream(weights, shop(0), BINS, 1.0, 7, Listed(BINS, 1.0, options))
    held = _inside(measured, said)
    yield f"shop: {summary(compare(measured, said))}"
    yield from _people("shop", measured, said)
    soon, later = held[JUMP_DAY : JUMP_DAY + 8, JUMPED].mean(), held[JUMP_DAY:, JUMPED].mean()
    yield f"tripled: inside {soon:.2f} in 8 days, {later:.2f} to the end"
    days = np.arange(DAYS)
    for value, (weekday, lift) in LIFTED.items():
        on, off = (days % 7 == weekday) & (days >= 28), (days % 7 != weekday) & (days >= 28)
        shown = said.shares[on, value].mean() / said.shares[off, value].mean()
        yield f"lift {lift}: shown {shown:.2f}, inside {held[on, value].mean():.2f}"


def real_stream(name: str) -> tuple[int, list[tuple[Wholes, Wholes]]]:
    """Return the number of bins and the slots of a real stream: the first listed value of each user in a slot."""
    dataset, column, length, listed = REAL[name]
    table = load(dataset).select(pl.col("user").cast(pl.String), "timestamp", value=pl.col(column).cast(pl.String))
    table = table.drop_nulls()
    domain = frequent(table, "value", listed)
    numbers = by_clock(table, length)
    slots, ids = [], dict[str, int]()
    for names, values in in_slots(table, numbers, ["value"], min(int(numbers.max()) + 1, 600)):
        bins = np.asarray(domain.encode(values)).astype(np.int64)
        users = np.array([ids.setdefault(user, len(ids)) for user in names.to_list()], dtype=np.int64)
        known = (bins >= 0) & (bins < domain.size)
        first, where = np.unique(users[known], return_index=True)
        slots.append((first, bins[known][where]))
    return domain.size, slots


def on_real(weights: Weights, name: str, options: Options) -> Iterator[str]:
    """Yield what a real stream gives at ε = 2."""
    bins, slots = real_stream(name)
    measured, said = follow_stream(weights, slots, bins, 2.0, budget=Listed(bins, 2.0, options))
    yield f"{name}, {bins} bins, {len(slots)} slots: {summary(compare(measured, said))}"
    yield from _people(name, measured, said)
