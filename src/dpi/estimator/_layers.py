"""What numpy and JAX share: dense layers, cheap functions between bounds, and bins in pieces that the cache holds."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any
"""An array of numpy, or of JAX where it is trained."""
Weights = dict[str, Any]
"""By name: matrices, and biases with `.b` after the name."""
CHUNK = 1 << 11
"""Bins that numpy works on at a time, so that intermediates stay in the cache."""


def dense(weights: Weights, name: str, into: Array) -> Array:
    """Return a layer's output; columns are examples."""
    return weights[name] @ into + weights[name + ".b"][:, None]


def soft(xp: Any, x: Array) -> Array:
    """Return x/(1 + |x|): a cheap tanh."""
    return x / (1 + xp.abs(x))


def unit(xp: Any, x: Array) -> Array:
    """Return a number between 0 and 1: a cheap logistic function."""
    return 0.5 + 0.5 * x / (1 + xp.abs(x))


def put(xp: Any, array: Array, index: Array, row: Array) -> Array:
    """Return an array with another row."""
    if xp is not np:
        return array.at[index].set(row)
    result = array.copy()
    result[index] = row
    return result


def in_chunks(
    xp: Any, function: Any, fixed: tuple[Array, ...], rows: tuple[Array, ...], shapes: tuple[tuple[int, ...], ...]
) -> Any:
    """Apply a function of single bins to all at once, or, with numpy, to so many that the cache holds.

    `shapes` are those of the results, without the bins.
    """
    bins = rows[0].shape[-1]
    if xp is not np or bins <= CHUNK:
        return function(xp, *fixed, *rows)
    results = tuple(np.empty((*shape, bins), dtype=np.float32) for shape in shapes)
    for start in range(0, bins, CHUNK):
        here = slice(start, start + CHUNK)
        pieces = function(xp, *fixed, *[row[..., here] if np.ndim(row) else row for row in rows])
        for result, piece in zip(results, pieces, strict=True):
            result[..., here] = piece
    return results
