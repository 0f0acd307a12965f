"""The card of weights: which they are, what they were trained on, where and how long, and what they score."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

from dpi_research.learn.shapes import Weights, digest, load_weights

WEIGHTS = Path(str(files("dpi_research.learn") / "weights.npz"))
CARD = WEIGHTS.with_name("card.json")


def trained() -> Weights:
    """Return the weights of this package; refuses those that its card does not name."""
    weights = load_weights(WEIGHTS)
    stated = json.loads(CARD.read_text(encoding="utf-8"))["digest"]
    if digest(weights) != stated:
        raise ValueError(f"the weights are not those of their card: {digest(weights)} and {stated}.")
    return weights
