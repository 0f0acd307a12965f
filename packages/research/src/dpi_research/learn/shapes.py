"""The weights of the filter and its heads: their shapes, a first draw of them, and one file without pickle."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpi_research.learn.prices import HISTOGRAMS, Floats

MEMORY, OF_BIN = 24, 3
"""Numbers that are remembered of each histogram, and of each histogram and bin."""
HIDDEN, BIN_HIDDEN, SCALE_HIDDEN = 48, 16, 12
NUMBERS = ("active", "newcomers", "returning")
TOTAL_FEATURES, BIN_FEATURES, SCALE_FEATURES, NUMBER_FEATURES = 23, 10, 8, 14
TOTAL_OUT, BIN_OUT, SCALE_OUT, LAW_OUT = 9, 4, 2, 10
_CONTEXT = MEMORY + 11

SHAPES = {
    "total_in": (HIDDEN, TOTAL_FEATURES + HISTOGRAMS + 2 * MEMORY),
    "total_gate": (MEMORY, HIDDEN),
    "total_new": (MEMORY, HIDDEN),
    "total_out": (TOTAL_OUT, HIDDEN + MEMORY),
    "bin_context": (BIN_HIDDEN, _CONTEXT + HISTOGRAMS),
    "law": (LAW_OUT, _CONTEXT + HISTOGRAMS),
    "bin_in": (BIN_HIDDEN, BIN_FEATURES + 2 * OF_BIN),
    "bin_out": (2 * OF_BIN + BIN_OUT, BIN_HIDDEN),
    "scale_context": (SCALE_HIDDEN, MEMORY + 4),
    "scale_in": (SCALE_HIDDEN, SCALE_FEATURES + OF_BIN),
    "scale_out": (SCALE_OUT, SCALE_HIDDEN),
    "number_in": (HIDDEN, 3 * MEMORY + NUMBER_FEATURES),
    "number_out": (2 * len(NUMBERS) + 1, HIDDEN),
}
"""Rows are what comes out, columns what goes in; each has a bias of its own."""
PEOPLE_MEMORY, PEOPLE_HIDDEN, PEOPLE_FEATURES = 16, 32, 17 + 2 * HISTOGRAMS
HEADS = {
    "people_in": (PEOPLE_HIDDEN, PEOPLE_FEATURES + PEOPLE_MEMORY),
    "people_gate": (PEOPLE_MEMORY, PEOPLE_HIDDEN),
    "people_new": (PEOPLE_MEMORY, PEOPLE_HIDDEN),
    "people_out": (14, PEOPLE_HIDDEN + PEOPLE_MEMORY),
    "sum_in": (8, 6),
    "sum_out": (1, 8),
    "difference_in": (8, 6),
    "difference_out": (1, 8),
}
"""Those of `heads`, which are trained afterwards."""
_SMALL = ("total_out", "law", "bin_out", "scale_out", "number_out")

Weights = dict[str, Any]
"""By name: matrices, and biases with `.b` after the name; of numpy or of JAX."""


def first_weights(seed: int) -> Weights:
    """Return weights of the filter before training."""
    return draw(SHAPES, seed, _SMALL)


def draw(shapes: Mapping[str, tuple[int, int]], seed: int, small: Sequence[str]) -> Weights:
    """Return weights of these shapes, of which some are small."""
    rng = np.random.default_rng(seed)
    found: Weights = {}
    for name, (rows, columns) in shapes.items():
        scale = (0.1 if name in small else 1.0) / np.sqrt(columns)
        found[name] = (scale * rng.standard_normal((rows, columns))).astype(np.float32)
        found[name + ".b"] = np.zeros(rows, dtype=np.float32)
    return found


def save_weights(path: Path, weights: Weights) -> None:
    """Write weights as one file: arrays of float32 by name."""
    arrays = {name: np.asarray(array, dtype=np.float32) for name, array in weights.items()}
    np.savez(path, allow_pickle=False, **arrays)


def load_weights(path: Path) -> Weights:
    """Return the weights of a file, with heads or without; refuses other shapes, and anything but numbers."""
    with np.load(path, allow_pickle=False) as stored:
        found = {name: np.asarray(stored[name], dtype=np.float32) for name in stored.files}
    shapes = {name: array.shape for name, array in found.items()}
    if not any(shapes == _with_biases(expected) for expected in (SHAPES, {**SHAPES, **HEADS})):
        raise ValueError("the file has no weights of this filter: its names or shapes are others.")
    if not all(np.isfinite(array).all() for array in found.values()):
        raise ValueError("the file's weights are not all finite.")
    return found


def _with_biases(shapes: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, ...]]:
    return {**shapes, **{name + ".b": (rows,) for name, (rows, _) in shapes.items()}}


def digest(weights: Weights) -> str:
    """Return a digest of all weights, whichever file they are in."""
    state = hashlib.blake2b(digest_size=16, person=b"dpi weights")
    for name in sorted(weights):
        array: Floats = np.ascontiguousarray(weights[name], dtype="<f4")
        state.update(name.encode() + str(array.shape).encode() + array.tobytes())
    return state.hexdigest()
