"""Whole transcripts of a session, drawn from its own laws: a mechanism with a known law as a black box."""

from __future__ import annotations

import hashlib
import math

import numpy as np

from dpi.errors import OptionError
from dpi.noise import RandomSource, SystemSource, add_laplace
from dpi.testing.laws import Finite, Joint, Laplace, Law, Point
from dpi_audit.distinguishers import Floats
from dpi_audit.empirical import BlackBox
from dpi_audit.exact import Open
from dpi_audit.neighbours import Neighbours


def drawn(law: Law, source: RandomSource) -> object:
    """One output of a law.

    >>> drawn(Joint((Point("x"), Finite({3: 0.0}))), SystemSource())
    ('x', 3)
    """
    if isinstance(law, Point):
        return law.value
    if isinstance(law, Laplace):
        return add_laplace(law.values, law.scale, source)
    if isinstance(law, Joint):
        return tuple(drawn(part, source) for part in law.parts)
    if isinstance(law, Finite):
        outputs, chances = zip(*((y, math.exp(log)) for y, log in law.logarithms.items()), strict=True)
        # 53 bits and a sum that is off by rounding: good enough to audit with, and for nothing else
        target = int(source.words(1)[0] >> np.uint64(11)) / 2.0**53 * sum(chances)
        return outputs[int(np.searchsorted(np.cumsum(chances)[:-1], target, side="right"))]
    raise OptionError(f"outputs of {type(law).__name__} cannot be drawn here: run the mechanism itself.")


def transcripts(open_session: Open, neighbours: Neighbours) -> BlackBox:
    """Runs of a session: all outputs of all steps, and all that is seen besides, as numbers."""

    def one_run(with_user: bool, source: RandomSource) -> list[float]:
        session, seen = open_session(), list[float]()
        for rows in neighbours.one if with_user else neighbours.other:
            output = drawn(session.look(rows), source)
            seen += [*_numbers(output), *_numbers(session.force(output))]
        return seen

    def run(with_user: bool, runs: int) -> Floats:
        source = SystemSource()
        found = [one_run(with_user, source) for _ in range(runs)]
        longest = max(map(len, found))
        return np.array([row + [0.0] * (longest - len(row)) for row in found])

    return run


def _numbers(output: object) -> list[float]:
    """Numbers as they are, anything else as a number that differs where it does."""
    if isinstance(output, tuple):
        return [number for part in output for number in _numbers(part)]
    if isinstance(output, np.ndarray):
        return [float(number) for number in output]
    if isinstance(output, int | float):
        return [float(output)]
    return [float(int.from_bytes(hashlib.blake2b(repr(output).encode(), digest_size=4).digest(), "big"))]
