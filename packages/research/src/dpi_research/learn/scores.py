"""Proper scores of what the filter says, against the simulated truth: what training makes small. JAX alone."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dpi.estimator import FREEDOM, Measurement, Posterior, State, Weights, step

FEWEST = 10.0
"""Slots with fewer users are not scored."""


class Window(NamedTuple):
    """Some slots of a batch of worlds: T slots, W worlds, G histograms, B bins."""

    paid: Any
    """T × W × G × B, before noise."""
    due: Any
    price: Any
    phase: Any
    season: Any
    """W."""
    partial: Any
    width: Any
    """W × G."""
    mask: Any
    """W × B."""
    users: Any
    """T × W × B, the truth."""
    newcomers: Any
    members: Any
    here: Any
    """T × W: one where the world still goes on."""
    floor: Any
    """W: what the KL divergence is compared with where it is tiny."""


class Parts(NamedTuple):
    """The scores of each head, mean over worlds."""

    shares: Any
    share_scale: Any
    active: Any
    newcomers: Any
    returning: Any
    forecast: Any
    members: Any


def student(z: Any, log_scale: Any, freedom: float = FREEDOM) -> Any:
    """Return the negative logarithm of a Student density, less a constant."""
    return log_scale + 0.5 * (freedom + 1) * jnp.log1p(z * z / freedom)


BOUND = 3.0


@jax.custom_vjp  # type: ignore[untyped-decorator,unused-ignore]
def bounded(x: Any) -> Any:
    """Return the same; going back, what one world adds to a gradient by what it carries has a bound."""
    return x


def _forward(x: Any) -> tuple[Any, Any]:
    return x, x


def _backward(x: Any, slope: Any) -> tuple[Any]:
    slope = jnp.where(jnp.isfinite(slope), slope, 0.0)
    size = jnp.sqrt(((slope * (jnp.abs(x) + 0.01)) ** 2).sum() + 1e-30)
    return (slope * jnp.minimum(1.0, BOUND / size),)


bounded.defvjp(_forward, _backward)


def play(weights: Weights, states: State, window: Window, key: Any) -> tuple[State, Posterior, Any]:
    """Return the states after a window, the posteriors of all slots, and what was measured in them."""
    due = window.due * window.here[..., None]
    noise = jnp.clip(jax.random.laplace(key, window.paid.shape), -40, 40)  # finite on every device
    sums = (window.paid + noise) * due[..., None] * window.mask[:, None, :]
    one: Any = jax.vmap(lambda state, measured: step(weights, jax.tree.map(bounded, state), measured, jnp))

    def advance(states: State, slot: tuple[Any, ...]) -> Any:
        sums, due, price, phase = slot
        return one(
            states, Measurement(sums, due, price, phase, window.season, window.partial, window.width, window.mask)
        )

    states, posteriors = jax.lax.scan(advance, states, (sums, due, window.price, window.phase))
    return states, posteriors, sums.sum(2)


def loss(weights: Weights, states: State, window: Window, key: Any) -> tuple[Any, tuple[State, Parts]]:
    """Return the score of a window, the states after it, and its parts."""
    after, said, measured = play(weights, states, window, key)
    total = window.users.sum(-1)
    ok = window.here * (total >= FEWEST)
    counted = ok.sum(0)
    mask = window.mask[None]
    size = mask.sum(-1)

    def mean(rows: Any) -> Any:
        return (rows * ok).sum(0) / (counted + 1e-9)

    truth = window.users / jnp.maximum(total, 1)[..., None]
    ratio = jnp.log(jnp.maximum(truth, 1e-12)) - jnp.log(jnp.maximum(said.shares, 1e-12))
    divergence = mean(jnp.where(truth > 0, truth * ratio, 0.0).sum(-1))
    shares = jnp.log(jnp.maximum(divergence, 0) + window.floor)
    unit = jnp.log(jnp.sqrt(truth / jnp.maximum(total, 1)[..., None] + 1e-9) + 0.1 * truth + 1e-7)
    z = (truth - said.shares) * jnp.exp(-said.share_scale)
    scale = mean(((student(z, said.share_scale) - unit) * mask).sum(-1) / size)
    known = jnp.stack([total, window.newcomers, total - window.newcomers], -1)
    wrong = (said.numbers - jnp.log1p(jnp.maximum(known, 0))) * jnp.exp(-said.number_scale)
    numbers = [mean(student(wrong, said.number_scale)[..., head]) for head in range(3)]
    any_due = (window.due * window.here[..., None]).sum(-1) > 0
    later = (jnp.cumsum(window.here, 0) > 1) & any_due  # the first slot of a window is left out
    z = (measured - said.forecast) / said.forecast_scale
    surprise = ((student(z, jnp.log(said.forecast_scale), 8.0)) * mask).sum(-1) / size
    z = (measured.sum(-1) - said.forecast_total) / said.forecast_total_scale
    surprise = surprise + student(z, jnp.log(said.forecast_total_scale) - 0.5 * jnp.log(2 * size), 8.0)
    forecast = (surprise * later).sum(0) / (later.sum(0) + 1e-9)
    members = mean(jnp.abs(jnp.log(said.members + 3) - jnp.log(window.members + 3)).mean(-1))
    use = counted > 0

    def over(rows: Any) -> Any:
        return jnp.where(use, rows, 0.0).sum() / (use.sum() + 1e-9)

    many = size[0] > 1  # the share of a single bin is known
    shares, scale = (jnp.where(many, rows, 0.0) for rows in (shares, scale))
    parts = Parts(*[over(rows) for rows in (shares, scale, *numbers, forecast, members)])
    result = parts.shares + 0.5 * parts.share_scale + 0.4 * parts.active + 0.2 * (parts.newcomers + parts.returning)
    return result + 0.1 * parts.forecast + 0.1 * parts.members, (after, parts)
