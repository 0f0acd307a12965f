"""Ours, by the kernel: a user is one unit, spread over the user's events, and the noise is exact discrete Laplace."""

from __future__ import annotations

import numpy as np
import polars as pl

import dpi
from dpi.budget import Epsilon
from dpi.exact.integers import GRAINS
from dpi.noise import SystemSource, add_laplace
from turns import EPSILON, VALUES, serve

DOMAIN = dpi.Categories(range(VALUES), other=None)
SCALE = Epsilon.at_most(EPSILON).scale


def release(events: pl.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    histogram = dpi.histogram.compress(events["user"], events["value"], DOMAIN)
    return add_laplace(histogram.grains, SCALE, SystemSource()) / GRAINS


if __name__ == "__main__":
    serve(pl.read_parquet, release, ["polars", "numpy"])
