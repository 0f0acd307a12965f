"""Exact randomness: the only source of privacy noise in this package.

It sees numbers and no users. Scales and rates are rationals; every law below is sampled exactly, from
`os.urandom`, with random bits that are extended until the result is decided.
"""

from dpi.noise._selection import exponential_choices, exponential_mechanism, permute_and_flip
from dpi.noise.exponential import bernoulli_exp, geometric
from dpi.noise.laplace import add_laplace
from dpi.noise.source import RandomSource, SystemSource, UnsafeSeededSource, uniform_below
from dpi.noise.sparse_laplace import sparse_laplace

__all__ = [
    "RandomSource",
    "SystemSource",
    "UnsafeSeededSource",
    "add_laplace",
    "bernoulli_exp",
    "exponential_choices",
    "exponential_mechanism",
    "geometric",
    "permute_and_flip",
    "sparse_laplace",
    "uniform_below",
]
