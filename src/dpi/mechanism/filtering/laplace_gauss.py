"""The law of a noisy count: Laplace noise plus a Gaussian belief about the count, in closed form.

With Z(u) the density at u of Laplace(b) + N(0, V), a belief N(m, V) about a count and its measurement y at u = y - m,
log Z is the evidence of the belief, and the slope -(log Z)'(u) = d log Z/dm moves its mean.

Sees measurements after noise only; no histogram, no user.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.floating]

_ERFCX = (
    *(0.225675862, 0.225669603, 0.207842577, 0.168543132, 0.141426169),
    *(-0.005594733, 0.169068453, -0.182889897, 0.050258959),
)
"""The polynomial of degree eight in t = 1/(1 + x/2.5) that is nearest to erfcx(x)/t for x ≥ 0, in relative error (found
by Lawson's reweighted least squares): it is off by at most 1.3·10⁻⁷. Source: a fit
(tests/mechanism/test_laplace_gauss.py)."""
_IN_ORDER = {kind: [np.array(one, dtype=kind) for one in reversed(_ERFCX)] for kind in "fd"}
"""The same from the highest power on, as arrays of single and double precision: numpy is quicker with these than with
numbers of Python.
"""
SMALLEST = 1e-6
"""Gaussian variances below this share of b² count as this: Z has a kink at V = 0 that nothing measured resolves.
Source: by trial."""
SINGLE = 1e4
"""Single precision, twice as fast, serves up to this many b². Rounding then moves a slope by less than 10⁻⁶/b and the
mean that it corrects, by V times that, by less than b/100. Source:
tests/mechanism/test_laplace_gauss.py::test_single_precision_is_enough measures it."""
_GONE = 7.7
"""e^-7.7² is lost next to 1 in double precision; smaller terms would be denormal numbers, which are slow. Source: by
calculation."""


class Evidence(NamedTuple):
    """log Z and its derivative with respect to the mean of the belief."""

    log_density: Reals
    slope: Reals


def erfcx(x: Reals) -> Reals:
    """e^(x²)·erfc(x) for x ≥ 0, with a relative error of at most 1.3·10⁻⁷, and 5·10⁻⁷ in single precision.

    >>> float(erfcx(np.array([0.0]))[0].round(6))
    1.0
    """
    first, *others = _IN_ORDER[x.dtype.char]
    t = 0.4 * x
    t += 1
    np.divide(1, t, t)
    fit: Reals = first * t
    for coefficient in others:
        np.add(fit, coefficient, fit)
        np.multiply(fit, t, fit)
    return fit


def score_evidence(residual: Reals, variance: Reals | float, noise: float) -> Evidence:
    """Evidence for residuals y - m, under Laplace noise of scale `noise` and N(0, variance)."""
    r = np.maximum(variance / noise**2, SMALLEST)
    u = residual / noise
    if not r.size or r.item(r.argmax()) <= SINGLE:
        r, u = r.astype(np.float32), u.astype(np.float32)
    v = np.abs(u)
    twice = r + r
    width = np.sqrt(twice)
    arguments = np.empty((2, *v.shape), v.dtype)
    gap, reach = arguments
    np.subtract(r, v, gap)
    np.add(r, v, reach)
    arguments /= width
    scaled = np.minimum(gap, 0)
    np.maximum(scaled, -_GONE, out=scaled)
    scaled *= scaled
    np.exp(np.negative(scaled, out=scaled), out=scaled)
    sign = np.copysign(1, gap)
    np.abs(gap, out=gap)
    near, far = erfcx(arguments) * scaled
    near *= sign
    sign -= 1
    near -= sign
    both = near + far
    inner = np.minimum(v, r)
    log = inner - v
    inner *= inner
    inner /= twice
    log -= inner
    log += np.log(both)
    log -= math.log(4 * noise)
    near -= far
    near /= both
    near /= noise
    return Evidence(log, np.copysign(near, u))


def fisher_information(variance: Reals | float, noise: float) -> Reals:
    """Fisher information of Laplace(noise) + N(0, variance) about its location, on average over measurements."""
    squared = noise**2
    r = np.asarray(variance / squared)
    q = np.sqrt(r)
    q += 1 / 0.62
    total = np.divide(-1.16 / 0.62**2, q)  # 1.16·q/(1 + 0.62·q) = 1.16/0.62 - 1.16/0.62²/(q + 1/0.62)
    total += r
    total += 1 + 1.16 / 0.62
    total *= squared
    return np.asarray(np.divide(1, total))
