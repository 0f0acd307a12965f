"""The weights of the estimator: their shapes, and one file without pickle whose digest a card states."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from dpi.errors import StateError
from dpi.estimator._layers import Weights

HISTOGRAMS = 4
"""Users are measured in so many histograms, by how often they have paid."""
MEMORY, OF_BIN = 24, 3
"""Numbers that are remembered of each histogram, and of each histogram and bin."""
HIDDEN, BIN_HIDDEN, SCALE_HIDDEN = 48, 16, 12
NUMBERS = ("active", "newcomers", "returning")
TOTAL_FEATURES, BIN_FEATURES, SCALE_FEATURES, NUMBER_FEATURES = 23, 10, 8, 14
TOTAL_OUT, BIN_OUT, SCALE_OUT, LAW_OUT = 9, 4, 2, 13
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
WEIGHTS = Path(str(files("dpi.estimator") / "weights.npz"))
CARD = WEIGHTS.with_name("card.json")


def load_weights(path: Path) -> Weights:
    """Return the weights of a file, with heads or without; refuses other shapes, and anything but numbers."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            weights = {name: np.asarray(stored[name], dtype=np.float32) for name in stored.files}
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise StateError(f"the estimator's weights, {path.name}, cannot be read: {error}.") from error
    shapes = {name: array.shape for name, array in weights.items()}
    if not any(shapes == _with_biases(expected) for expected in (SHAPES, {**SHAPES, **HEADS})):
        raise StateError(f"{path.name} has no weights of this estimator: its names or shapes are others.")
    if not all(np.isfinite(array).all() for array in weights.values()):
        raise StateError(f"the estimator's weights, {path.name}, are not all finite.")
    return weights


def _with_biases(shapes: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, ...]]:
    return {**shapes, **{name + ".b": (rows,) for name, (rows, _) in shapes.items()}}


def digest(weights: Weights) -> str:
    """Return a digest of all weights, whichever file they are in."""
    state = hashlib.blake2b(digest_size=16, person=b"dpi weights")
    for name in sorted(weights):
        array = np.ascontiguousarray(weights[name], dtype="<f4")
        state.update(name.encode() + str(array.shape).encode() + array.tobytes())
    return state.hexdigest()


@lru_cache(maxsize=1)
def trained() -> Weights:
    """Return the weights of this program; refuses those that its card does not name."""
    weights = load_weights(WEIGHTS)
    stated = json.loads(CARD.read_text(encoding="utf-8"))["digest"]
    if digest(weights) != stated:
        raise StateError(
            f"the estimator's weights, {WEIGHTS.name}, are not those that its card names. Install dpi-streams again."
        )
    return weights


@lru_cache(maxsize=1)
def trained_digest() -> str:
    """Return the digest of the weights of this program."""
    return digest(trained())
