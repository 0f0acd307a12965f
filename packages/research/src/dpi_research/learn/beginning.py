"""Weights before training, the file of those after it, and those of many bins, which no release uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from dpi.estimator import SHAPES, Weights, load_weights

HISTOGRAMS = Path(__file__).with_name("histograms.npz")
"""Weights for histograms of many bins; their card is `histograms.json`."""
_SMALL = ("total_out", "law", "bin_out", "scale_out", "number_out")


@lru_cache(maxsize=1)
def histograms() -> Weights:
    """Return the weights for histograms of many bins."""
    return load_weights(HISTOGRAMS)


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
