"""Tests on random samples, with a stated probability of false alarm."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

FALSE_ALARM = 1e-7
"""The probability that one statistical test of this suite fails although the law is right."""


def assert_law(counts: Sequence[float], probabilities: Sequence[float], false_alarm: float = FALSE_ALARM) -> None:
    """Chi-square test of counts against probabilities, the last of which may be a rest; small cells are pooled."""
    observed = np.asarray(counts, dtype=float)
    expected = np.asarray(probabilities, dtype=float) * observed.sum()
    order = np.argsort(-expected)
    observed, expected = observed[order], expected[order]
    keep = max(2, int((expected >= 20).sum()))
    if keep < expected.size:
        observed = np.append(observed[:keep], observed[keep:].sum())
        expected = np.append(expected[:keep], expected[keep:].sum())
    statistic = ((observed - expected) ** 2 / np.maximum(expected, 1e-300)).sum()
    assert stats.chi2.sf(statistic, observed.size - 1) > false_alarm


def assert_variance(sample: Sequence[float], variance: float, kurtosis: float = 6.0) -> None:
    """The mean of squares is the variance within six standard errors (false alarm below 10^-8, normal approximation).

    A square has the variance (κ - 1)·σ⁴; sums of Laplace noises have a kurtosis κ of at most 6, that of one.
    """
    squares = np.asarray(sample, dtype=float) ** 2
    error = 6 * np.sqrt((kurtosis - 1) / squares.size)
    assert abs(squares.mean() / variance - 1) < error
