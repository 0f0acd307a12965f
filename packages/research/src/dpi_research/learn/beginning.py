"""Weights before training, and the file of those after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from dpi.estimator import SHAPES, Weights

_SMALL = ("total_out", "law", "bin_out", "scale_out", "number_out")


def first_weights(seed: int) -> Weights:
    """Return weights of the filter before training."""
    return draw(SHAPES, seed, _SMALL)


def draw(shapes: Mapping[str, tuple[int, int]], seed: int, small: Sequence[str]) -> Weights:
    """Return weights of these shapes, of which some are small."""
    rng = np.random.default_rng(seed)
    weights: Weights = {}
    for name, (rows, columns) in shapes.items():
        scale = (0.1 if name in small else 1.0) / np.sqrt(columns)
        weights[name] = (scale * rng.standard_normal((rows, columns))).astype(np.float32)
        weights[name + ".b"] = np.zeros(rows, dtype=np.float32)
    return weights


def save_weights(path: Path, weights: Weights) -> None:
    """Write weights as one file: arrays of float32 by name."""
    arrays = {name: np.asarray(array, dtype=np.float32) for name, array in weights.items()}
    np.savez(path, allow_pickle=False, **arrays)
