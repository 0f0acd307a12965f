"""Log scores of very many counts, most of which are far from where a belief expects them, by its own deviation.

With Laplace noise of scale b and a belief of deviation σ, the density of a residual u has a rounded peak of the width
of σ, and is e^(r/2 - |u|/b)/2b beyond it, with r = (σ/b)². Where single bins are hidden in noise σ is a small part of
b, so that three of four counts lie beyond, and need no error function.

Sees counts after noise; no histogram, no user.
"""

from __future__ import annotations

import math

import numpy as np

from dpi.mechanism.base import Floats
from dpi.mechanism.filtering import laplace_gauss
from dpi.mechanism.filtering.laplace_gauss import SINGLE, SMALLEST, Reals, Score

BEYOND = 4.5
"""From (|u| - σ²/b)/√2σ on a residual is beyond the peak: what is left out is erfc(4.5) = 2·10⁻¹⁰ of the density.

Source: by calculation; tests/mechanism/test_tails.py compares with the whole law.
"""


def score(residual: Floats, variance: Reals, noise: float) -> Score:
    """`laplace_gauss.score`, within 10⁻⁶ of it, for arrays of which most lie beyond the peak."""
    r = np.maximum(variance * (1 / noise**2), SMALLEST)
    if not r.size or r.max() > SINGLE:
        return laplace_gauss.score(residual, variance, noise)
    r = r.astype(np.float32, copy=False)
    u = np.asarray(residual * (1 / noise), dtype=np.float32)
    v = np.abs(u)
    reach = np.sqrt(r)
    reach *= BEYOND * math.sqrt(2)
    reach += r
    at = np.flatnonzero(v.reshape(-1) < reach.reshape(-1))
    log = np.multiply(r, 0.5, out=r)
    log -= v
    log -= math.log(2 * noise)
    slope = np.copysign(np.float32(1 / noise), u)
    heat = np.full(u.shape, 0.5 / noise**2, dtype=np.float32)
    near = laplace_gauss.score(residual.reshape(-1)[at], variance.reshape(-1)[at], noise)
    for whole, part in zip((log, slope, heat), near, strict=True):
        whole.reshape(-1)[at] = part
    return Score(log, slope, heat)
