"""Discrete Laplace noise on every value of a universe that nobody can list, of which the large ones are shown.

The mechanism that is meant is dense: each of the N values of a public universe has a number (zero, unless somebody
has it), every number gets independent noise, and the values whose noisy number is at least a public threshold are
shown with it. With N = 115^32 nobody can draw that. Here the same law is drawn without a list: values that have a
number get noise as they are; of the others, it is drawn how many pass, which, and by how much.

It sees numbers and no users.
"""

from __future__ import annotations

from collections.abc import Container
from fractions import Fraction

import numpy as np

from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi.noise.binomial import passing
from dpi.noise.exponential import geometric
from dpi.noise.laplace import SATURATION, add_laplace
from dpi.noise.source import RandomSource, uniform_below

LARGEST_THRESHOLD = SATURATION
"""Sums are cut here: up to it, a cut one passes exactly if the sum does; beyond, nothing could pass."""


def sparse_laplace(
    values: Integers, occupied: Container[int], universe: int, scale: Fraction, threshold: int, source: RandomSource
) -> tuple[dict[int, int], dict[int, int]]:
    """What of a universe of values 0 … universe - 1 is at least `threshold` after noise.

    `values` are the numbers of some values, and `occupied` says of a value whether it is one of these; all others have
    zero. The first dictionary has those of `values` that pass, by their place in it, the second the others that pass,
    by value: each with its noisy number, which is cut at 2^61, as in `add_laplace`.

    **Guarantee.** If one user moves the numbers of all values together by at most s in ℓ₁, the union of both is
    (s/scale)-DP for that user. There is no δ. (Which of the two dictionaries a value is in is private.)

    *Why.* It is a function of the dense vector of all N noisy numbers, which is (s/scale)-DP by `add_laplace`: it has
    the law of {(v, y_v) : y_v ≥ threshold} with y_v = number + Z_v. For occupied values it is that by construction. The
    M others are independent of them and of each other, and pass with probability p = P(Z ≥ threshold) each. So their
    number is Binomial(M, p) (`dpi.noise.binomial`, exactly). Given it, by symmetry every set of so many of them is as
    likely (`others`). Given the set, their noisy numbers are independent with P(Z ≥ threshold + j | Z ≥ threshold) =
    q^(threshold+j)/q^threshold = q^j: the threshold plus a geometric variable. A value that is occupied with the number
    zero has the law of one that is not, so that which values are listed does not enter the law.

    What follows must not ask the data whether a value that was drawn is somebody's: a result that can hold only what
    somebody has is private for no ε.

    How long it takes follows from how many values are occupied, as the reading of them does; that is not observed, by
    assumption (`docs/privacy.md`).

    >>> from dpi.noise import SystemSource
    >>> sparse_laplace(np.array([900, 0]), {3, 7}, 256**32, Fraction(1), 400, SystemSource())[0].keys()
    dict_keys([0])
    """
    if not 1 <= threshold <= LARGEST_THRESHOLD:
        raise OptionError("`threshold` must be a whole number from 1 to 2^61.")
    if values.size > universe:
        raise OptionError("`values` must be of different values of the universe.")
    noisy = add_laplace(values, scale, source)
    passed = {int(at): int(noisy[at]) for at in np.flatnonzero(noisy >= threshold)}
    drawn = others(passing(universe - values.size, threshold, scale, source), occupied, universe, source)
    high, low, bits = geometric(len(drawn), scale, source)
    excess = zip(drawn, high.tolist(), low.tolist(), strict=True)
    return passed, {v: min(threshold + (top << bits) + bottom, SATURATION) for v, top, bottom in excess}


def others(count: int, occupied: Container[int], universe: int, source: RandomSource) -> list[int]:
    """A uniform set of `count` values that are not occupied, of which there are that many, in increasing order.

    *Why.* Each is uniform among those that are neither occupied nor drawn before it, by exact uniform numbers of which
    the others are thrown away. So every order of every set is as likely. Since `count` is Binomial(M, p) with M of N
    values left, about N·p draws are needed on average for small p: as many as pass in a universe that is empty.

    >>> from dpi.noise import SystemSource
    >>> others(2, {1, 3}, 4, SystemSource())
    [0, 2]
    """
    drawn = set[int]()
    while len(drawn) < count:
        value = uniform_below(universe, source)
        if value not in occupied:
            drawn.add(value)
    return sorted(drawn)
