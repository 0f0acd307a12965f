"""Training of the heads beside the filter, whose weights stay as they are: released numbers in, simulated truth out."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpi.estimator import HEADS, Released, Weights, difference_scale, next_people, no_people, sum_scale
from dpi.estimator.prices import Floats
from dpi_research.learn.beginning import draw
from dpi_research.learn.evaluation import LEAST
from dpi_research.learn.heads_examples import Example, example
from dpi_research.learn.scores import FEWEST, student

RATE, BATCH, SLOTS = 3e-3, 96, 256


def people_loss(weights: Weights, released: Released, again: Any, active: Any) -> tuple[Any, Any]:
    """Return the score of what is said of people: T slots of W worlds; the truth is NaN where there is none."""
    one = jax.vmap(lambda state, said: next_people(weights, state, said, jnp))
    start = jax.tree.map(lambda x: jnp.broadcast_to(x, (active.shape[1], *x.shape)), no_people(jnp))
    _, told = jax.lax.scan(one, start, released)
    here = jnp.isfinite(active) & (active >= FEWEST)
    again, active = jnp.nan_to_num(again), jnp.where(here, active, 1.0)
    distinct = jnp.log(jnp.maximum(again[..., 1:3], 1))
    size, back = again[..., 3:6], again[..., 6:9]
    share = back / jnp.maximum(size, 1)
    scale = jnp.logaddexp(told.retention_scale, jnp.log(LEAST) * jnp.ones_like(share))
    scored = (
        (student((jnp.log(jnp.maximum(again[..., 0], 1)) - told.reach) * jnp.exp(-told.reach_scale), told.reach_scale),
         here),
        (student((distinct - told.distinct) * jnp.exp(-told.distinct_scale), told.distinct_scale), here[..., None]),
        (student((jnp.log(active)[..., None] - distinct - told.stickiness) * jnp.exp(-told.stickiness_scale),
                 told.stickiness_scale), here[..., None]),
        (student((share - told.retention) * jnp.exp(-scale), scale), here[..., None] & (size >= FEWEST)),
    )  # fmt: skip
    parts = jnp.stack([_mean(rows, ok) for rows, ok in scored])
    return parts.sum(), parts


def sum_loss(weights: Weights, shares: Any, scales: Any, users: Any, of: Any, wrong: Any) -> Any:
    """Return the score of sums of one number of bins."""
    scale = sum_scale(weights, shares, scales, users, of, jnp)
    return _mean(student(wrong * jnp.exp(-scale), scale), jnp.isfinite(scale))


def difference_loss(weights: Weights, *parts: Any) -> Any:
    """Return the score of differences."""
    *of, wrong = parts
    now, now_scale, then, then_scale, apart, users = of
    scale = difference_scale(weights, now, now_scale, then, then_scale, apart, users, jnp)
    return _mean(student(wrong * jnp.exp(-scale), scale), jnp.isfinite(scale))


def _mean(rows: Any, here: Any) -> Any:
    here = jnp.broadcast_to(here, rows.shape)
    return jnp.where(here, rows, 0.0).sum() / (here.sum() + 1e-9)


def train_heads(
    filtered: Weights,
    seeds: range,
    steps: int,
    processes: int,
    say: Callable[[str], None],
    *,
    longest: int,
    most_bins: int,
    script: Path | None = None,
) -> Weights:
    """Return weights of the heads for those of a filter."""
    build = partial(example, weights=filtered, longest=longest, most_bins=most_bins, script=script)
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        examples = [each for each in pool.imap_unordered(build, seeds, chunksize=4) if each is not None]
    say(f"{len(examples)} worlds")
    rng = np.random.default_rng(60)
    weights = draw(HEADS, 2, small=("people_out", "sum_out", "difference_out"))
    changes = [np.stack(part) for part in zip(*[row for each in examples for row in each.differences], strict=True)]
    by_bins: dict[int, list[tuple[Floats, ...]]] = {}
    for each in examples:
        for row in each.sums:
            by_bins.setdefault(_padded(row[0].size), []).append(_pad(row))
    tables = {size: [np.stack(part) for part in zip(*rows, strict=True)] for size, rows in by_bins.items()}
    people = jax.jit(jax.value_and_grad(people_loss, has_aux=True))
    sums, differences = (jax.jit(jax.value_and_grad(each)) for each in (sum_loss, difference_loss))
    first = {name: np.zeros_like(array) for name, array in weights.items()}
    second, history, lost = {**first}, list[Any](), 0
    for step in range(steps):
        chosen = [examples[number] for number in rng.integers(0, len(examples), BATCH)]
        (_, parts), slope = people(weights, *_batch(chosen))
        size = int(rng.choice([*tables]))
        rows = rng.integers(0, len(tables[size][0]), 512)
        of_sums, more = sums(weights, *(part[rows] for part in tables[size]))
        rows = rng.integers(0, len(changes[0]), 512)
        now = [part[rows] if part.ndim > 1 else part[rows][:, None] for part in changes]
        of_differences, most = differences(weights, *now)
        slope = jax.tree.map(lambda *each: sum(each), slope, more, most)
        norm = float(jnp.sqrt(sum((array**2).sum() for array in slope.values())))
        rate = RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
        for name in slope if np.isfinite(norm) else ():
            move = np.asarray(slope[name]) * min(1.0, 3 / (norm + 1e-9))
            first[name] = 0.9 * first[name] + 0.1 * move
            second[name] = 0.99 * second[name] + 0.01 * move * move
            one, two = 1 - 0.9 ** (step + 1), 1 - 0.99 ** (step + 1)
            moved = rate * (first[name] / one) / (np.sqrt(second[name] / two) + 1e-8)
            weights[name] = (weights[name] - moved).astype(np.float32)
        if not np.isfinite(norm):
            lost += 1
        history.append([*np.asarray(parts), float(of_sums), float(of_differences)])
        if (step + 1) % 100 == 0:
            say(f"{step + 1} {np.round(np.nanmean(history[-100:], 0), 3).tolist()}, lost {lost}")
    return weights


def _padded(bins: int) -> int:
    return next(size for size in (16, 64, 200) if size >= bins)


def _pad(row: tuple[Floats, ...]) -> tuple[Floats, ...]:
    """Return a row of more bins: those that are new have no share, and are known."""
    shares, scales, users, of, wrong = row
    more = _padded(shares.size) - shares.size
    return (
        np.pad(shares, (0, more)),
        np.pad(scales, (0, more), constant_values=-30),
        users,
        np.pad(of, (0, more)),
        wrong,
    )


def _batch(chosen: list[Example]) -> tuple[Released, Floats, Floats]:
    """Return T × W arrays; slots after the end of a world are those of its last one, without a truth."""

    def stack(parts: list[Floats], *, truth: bool) -> Floats:
        rows = []
        for part in parts:
            more = [(0, max(SLOTS - len(part), 0))] + [(0, 0)] * (part.ndim - 1)
            part = part[:SLOTS]
            rows.append(np.pad(part, more, constant_values=np.nan) if truth else np.pad(part, more, mode="edge"))
        return np.stack(rows, 1).astype(np.float32)

    released = Released(
        *(stack([each.released[i] for each in chosen], truth=False) for i in range(len(Released._fields)))
    )
    return (
        released,
        stack([each.again for each in chosen], truth=True),
        stack([each.active for each in chosen], truth=True),
    )
