"""Training in JAX: batches of worlds, truncated backpropagation with carried states, Adam, checkpoints.

The schedule ends with the steps or with the seconds, whichever comes first. A checkpoint has the weights, their running
mean, the optimiser and the step, so that training goes on in pieces; each piece plays worlds of seeds of its own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpi.estimator import SHAPES, Weights, initial_state
from dpi_research.learn.batches import RING, Worlds, windows
from dpi_research.learn.beginning import first_weights
from dpi_research.learn.scores import Parts, Window, loss

RATE, WARM, SLOWEST = 3e-3, 100, 0.01
MEAN_OVER = 0.998
KEPT = 200
"""Steps from one checkpoint to the next."""


@dataclass
class Checkpoint:
    """All that training needs to go on."""

    weights: Weights
    mean: Weights
    first: Weights
    second: Weights
    step: int = 0

    @classmethod
    def new(cls, seed: int) -> Checkpoint:
        """Return the state before training."""
        return cls.of(first_weights(seed))

    @classmethod
    def of(cls, weights: Weights) -> Checkpoint:
        """Return the state before training that begins with some weights; heads are left out."""
        weights = {name: array for name, array in weights.items() if name.removesuffix(".b") in SHAPES}
        zeros = {name: np.zeros_like(array) for name, array in weights.items()}
        return cls(weights, {**weights}, zeros, {**zeros})

    def save(self, path: Path) -> None:
        """Write it as arrays by name."""
        parts = {"w": self.weights, "a": self.mean, "m": self.first, "v": self.second}
        arrays = {f"{part}:{name}": np.asarray(array) for part, all_ in parts.items() for name, array in all_.items()}
        np.savez(path, allow_pickle=False, step=np.int64(self.step), **arrays)

    @classmethod
    def load(cls, path: Path) -> Checkpoint:
        """Return the checkpoint of a file."""
        with np.load(path, allow_pickle=False) as stored:
            parts: dict[str, Weights] = {part: {} for part in "wamv"}
            for name in stored.files:
                if ":" in name:
                    parts[name[0]][name[2:]] = stored[name]
            return cls(parts["w"], parts["a"], parts["m"], parts["v"], int(stored["step"]))


def learning_rate(step: int, past: float, rate: float = RATE) -> float:
    """Return the rate of a step: a rise, then a cosine of the part of the training that is past."""
    return rate * min(1, (step + 1) / WARM) * max(0.5 * (1 + float(np.cos(np.pi * min(past, 1)))), SLOWEST)


OF_WORLDS = Window(
    paid=1, due=1, price=1, phase=1, season=0, partial=0, width=0, mask=0, users=1, newcomers=1, members=1, here=1,
    floor=0,
)  # fmt: skip
"""Which axis of each field is that of worlds."""


def _loss_of_world(weights: Weights, state: Any, window: Window, key: Any) -> tuple[Any, tuple[Any, Parts]]:
    window = Window(*[jnp.expand_dims(field, axis) for field, axis in zip(window, OF_WORLDS, strict=True)])
    value, (after, parts) = loss(weights, jax.tree.map(lambda x: x[None], state), window, key)
    return value, (jax.tree.map(lambda x: x[0], after), parts)


def slopes(weights: Weights, states: Any, window: Window, key: Any) -> tuple[Weights, Any, Parts, Any]:
    """Return the gradient, the states after a window, the scores, and the median norm of the worlds' own gradients.

    Each world's gradient is cut to the median of their norms, and is a part of it: no world says more than half of the
    others. Without that, norms of some worlds are a hundred times those of others, and a batch says what these say.
    """
    keys = jax.random.split(key, window.mask.shape[0])
    of_world = jax.vmap(jax.value_and_grad(_loss_of_world, has_aux=True), in_axes=(None, 0, OF_WORLDS, 0))
    (_, (after, parts)), own = of_world(weights, states, window, keys)
    here = window.here.sum(0) > 0
    norm = jnp.sqrt(sum((array**2).sum((1, 2)) if array.ndim == 3 else (array**2).sum(1) for array in own.values()))
    good = here & jnp.isfinite(norm)
    middle = jnp.nanmedian(jnp.where(good & (norm > 0), norm, jnp.nan))
    weight = jnp.where(good, 1 / jnp.maximum(norm, middle), 0.0) / (good.sum() + 1e-9)
    slope = {name: jnp.tensordot(weight, jnp.where(_like(good, array), array, 0.0), 1) for name, array in own.items()}
    return slope, after, jax.tree.map(lambda x: jnp.where(here, x, 0.0).sum() / (here.sum() + 1e-9), parts), middle


def _like(rows: Any, array: Any) -> Any:
    return rows.reshape(rows.shape + (1,) * (array.ndim - 1))


@jax.jit  # type: ignore[untyped-decorator,unused-ignore]
def update(
    weights: Weights, mean: Weights, first: Weights, second: Weights, states: Any, window: Window, key: Any, rate: Any,
    step: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """Return weights, their mean, the optimiser after a step of Adam, states, parts and the gradients' median norm."""
    slope, states, parts, norm = slopes(weights, states, window, key)
    slope = jax.tree.map(lambda x: jnp.where(jnp.isfinite(x), x, 0.0), slope)
    first = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, first, slope)
    second = jax.tree.map(lambda a, b: 0.99 * a + 0.01 * b * b, second, slope)
    one, two = 1 - 0.9**step, 1 - 0.99**step
    moved = lambda w, a, b: w - rate * (a / one) / (jnp.sqrt(b / two) + 1e-8)  # noqa: E731
    weights = jax.tree.map(moved, weights, first, second)
    decay = jnp.minimum(MEAN_OVER, step / (step + 10))
    mean = jax.tree.map(lambda a, b: decay * a + (1 - decay) * b, mean, weights)
    states = jax.tree.map(lambda x: jnp.where(jnp.isfinite(x), x, 0.0), states)
    return weights, mean, first, second, states, parts, norm


def start_states(worlds: int, size: int) -> Any:
    """Return the states of a batch before its first slot."""
    one = initial_state(size, RING, jnp)
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (worlds, *x.shape)), one)


def _lane(worlds: Worlds, rng: np.random.Generator, cells: int) -> list[Window]:
    """Return the windows of a batch, on the device; the last ones, if hardly any world is that long, are left out."""
    size, rows = worlds.choose(rng, cells)
    lane = list[Window]()
    for fields in windows(rows, size):
        if lane and fields["here"].sum() < 0.05 * fields["here"].size:
            break
        lane.append(jax.device_put(Window(**fields)))
    return lane


def train(
    checkpoint: Checkpoint,
    worlds: Worlds,
    steps: int,
    *,
    seconds: float,
    cells: int,
    say: Callable[[str], None],
    keep: Callable[[Checkpoint], None],
    highest: float = RATE,
) -> Checkpoint:
    """Train up to a number of steps in all, or for some seconds.

    `keep` gets a checkpoint now and then, so that a piece that is cut off is not lost.
    """
    rng = np.random.default_rng([checkpoint.step, 57])
    state = (checkpoint.weights, checkpoint.mean, checkpoint.first, checkpoint.second)
    step, begun, history = checkpoint.step, time.monotonic(), list[Parts]()
    pool = ThreadPoolExecutor(4)
    ahead = [pool.submit(_lane, worlds, np.random.default_rng(rng.integers(1 << 60)), cells) for _ in range(4)]
    while step < steps and time.monotonic() - begun < seconds:
        lane = ahead.pop(0).result()
        ahead.append(pool.submit(_lane, worlds, np.random.default_rng(rng.integers(1 << 60)), cells))
        states = start_states(*lane[0].mask.shape)
        for window in lane:
            past = max(step / steps, (time.monotonic() - begun) / seconds)
            rate = learning_rate(step, past, highest)
            key = jax.random.PRNGKey(step)
            *state, states, parts, norm = update(*state, states, window, key, rate, step + 1.0)
            step += 1
            history.append(parts)
            if step in (1, 2, 5, 20) or step % 100 == 0:
                recent = np.nanmean(np.array([[float(part) for part in row] for row in history[-100:]]), 0)
                told = {name: round(float(value), 3) for name, value in zip(Parts._fields, recent, strict=True)}
                spent = f"{time.monotonic() - begun:.0f} s, {worlds.made} worlds"
                say(f"{step} {spent}, rate {rate:.5f}, norm {norm:.2f} {json.dumps(told)}")
            if step % KEPT == 0:
                keep(_on_host(state, step))
    pool.shutdown(cancel_futures=True)
    return _on_host(state, step)


def _on_host(state: Sequence[Weights], step: int) -> Checkpoint:
    weights, mean, first, second = ({name: np.asarray(array) for name, array in part.items()} for part in state)
    return Checkpoint(weights, mean, first, second, step)
