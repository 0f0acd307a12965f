"""What may be known of laws: of which classes they are, and hypotheses of how they move.

Sees what is known after noise; no histogram, no user.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpi.exact.integers import Integers
from dpi.mechanism.base import Floats
from dpi.mechanism.filtering._gaussians import Gaussians
from dpi.mechanism.filtering._population import Readout, initial_population

BANDS = (0, 1, 2, 3, 4, 6)
"""The first class of each law. Classes of one law would be told apart by nothing, and who moves up from it is unlike
the others. Source: docs/estimator.md, What was tried; four, five, six and eight laws were compared."""
GROUPS = (0, 1, 6)
"""The first class of each histogram: newcomers, those who have much left, and those who have little, whose sums the
others would drown. Source: docs/estimator.md, Payments."""
DRIFTS = (0.003, 0.03)
"""Steps by which log-levels move in a slot: hardly in a season, or in a month. Source: a prior; a factor of ten
apart."""
FINER = (0.003, 0.01, 0.03, 0.1, 0.3)
"""The same where all users are measured alike, in every slot: so much can be told apart. In a huge domain, in which
most bins drown in noise, every other one. Source: a prior; a factor of three apart."""
PATIENCE = 0.7
"""Prior weight of a drift against the next slower one. Source: a prior; docs/estimator.md, What was tried."""
STAY, HABIT = KINDS = (0, 1)
"""Laws stay with the classes; or they move with people, who repeat their own visits. Source: by definition."""
OTHERWISE = 0.3
"""Where laws move with people all walk together, and each by this part of it itself; where they stay with the classes,
the other way round. Source: docs/estimator.md, What was tried."""
LEFT_TO_CHANCE = 0.2
"""Where visits are habits, the part of a class's sampling variance that is drawn anew. Source: a prior."""
UNIFORM = 0.2
"""Prior weight of the law that all bins are alike, which wins where nothing stands out from noise. Source: a prior."""


class Hypotheses:
    """How laws move: the steps, and what happens when somebody pays, of each hypothesis.

    With one law, the last hypothesis is a *run* that knows nothing of the time before it began (Adams and MacKay 2007):
    one begins where all bins are new. By class, all bins may have moved instead (`RESTART`).
    """

    def __init__(self, drifts: tuple[float, ...], kinds: tuple[int, ...], *, alone: bool = False) -> None:
        self.drift: Floats = np.tile(drifts, len(kinds))
        self.kind: Integers = np.repeat(kinds, len(drifts))
        prior = np.tile(PATIENCE ** np.arange(len(drifts)), len(kinds))
        if alone:
            prior[-1] = 0.0
        self.prior: Floats = prior / prior.sum()
        self.together: Floats = np.where((self.kind == STAY) & (not alone), OTHERWISE, 1.0)[:, None]
        self.apart: Floats = np.where(self.kind == STAY, 1.0, OTHERWISE)[:, None]
        self.habit = slice(int(np.count_nonzero(self.kind != HABIT)), None)
        self.chance: Floats = np.where(self.kind == HABIT, LEFT_TO_CHANCE, 1.0)[:, None]
        self.alone = alone

    @property
    def size(self) -> int:
        """How many there are."""
        return int(self.drift.size)


BY_CLASS = Hypotheses(DRIFTS, KINDS)
HYPOTHESES = BY_CLASS.size
ALONE = Hypotheses((*FINER, DRIFTS[1]), (STAY,), alone=True)
ALONE_HUGE = Hypotheses((*FINER[1::2], DRIFTS[1]), (STAY,), alone=True)
BAND_OF: Integers = np.searchsorted(BANDS, np.arange(64), side="right") - 1
"""The law of each class."""
GROUP_OF: Integers = np.searchsorted(GROUPS, np.arange(64), side="right") - 1
"""The histogram of each class."""
STEADY: Floats = np.zeros(len(GROUPS))
"""Of each histogram, the pace (`_distributions`) before anything was measured. Source: by definition."""
GROUP_OF_LAW: Integers = GROUP_OF[list(BANDS)]
"""The histogram of each law."""


@dataclass(frozen=True, eq=False)
class Distributions:
    """What is known of all laws, between slots."""

    mean: Floats
    """(hypotheses, bins, laws); no law before the first measurement."""
    covariance: Floats
    """(hypotheses, bins, laws, laws)."""
    log_weights: Floats
    """Of the hypotheses, (histograms, hypotheses)."""
    uniform: Floats
    """Log odds that all bins are alike, (histograms,)."""
    population: Floats
    """Shares of the levels of bins."""
    level: Floats
    """What was released of each bin."""
    noisy: Floats
    """The part of what is not known of all users together that is noise, (hypotheses, bins); the rest is that laws may
    have moved."""

    @classmethod
    def begun(cls, bins: int, model: Hypotheses = BY_CLASS) -> Distributions:
        """Before anything was seen."""
        groups = 1 if model.alone else len(GROUPS)
        return cls(
            mean=np.zeros((model.size, bins, 0), dtype=np.float32),
            covariance=np.zeros((model.size, bins, 0, 0), dtype=np.float32),
            log_weights=np.log(np.maximum(np.array([model.prior] * groups), 1e-300)),
            uniform=np.full(groups, np.log(UNIFORM / (1 - UNIFORM))),
            population=initial_population(bins),
            level=np.full(bins, 1 / bins),
            noisy=np.ones((model.size, bins), dtype=np.float32),
        )

    @property
    def known(self) -> bool:
        """Whether anything was measured."""
        return bool(self.mean.shape[2])


class Residuals(NamedTuple):
    """What one histogram said of its own users: for each hypothesis and bin, in users."""

    apart: Floats
    """By how many users they differ from what their laws say."""
    apart_variance: Floats
    """The variance of `apart`."""
    users: Floats | None
    """How many users they are, where that is known better than by their laws."""
    variance: Floats | None
    """The variance of `users`, where these are known."""


class Fitted(NamedTuple):
    """What users of some laws pay together."""

    paid: float
    variance: float
    noise: float
    """The part of the variance that is drawn anew in every slot."""
    common: float
    """The part of the variance by which the law is wrong, as it will be in the next slot too."""
    crowd: float
    """With one law: by how much more is paid in single bins than that law lets expect."""


class Reading(NamedTuple):
    """The levels of all users together, under the population of levels; for each hypothesis and bin."""

    table: Readout
    mean: Floats
    towards: Floats
    """Covariance of every law with the whole."""
    variance: Floats
    read: Gaussians
    noise: Floats
    """What of the variance is noise: only that is read under the population, or a picture would fade as it gets old."""


def join_residuals(parts: list[Residuals]) -> Residuals:
    """Join the residuals of blocks of bins."""
    rows = [[row for row in column if row is not None] for column in zip(*parts, strict=True)]
    apart, variance, *counted = (np.concatenate(row, axis=1) if len(row) == len(parts) else None for row in rows)
    assert apart is not None and variance is not None  # noqa: S101, PT018 - of every block
    return Residuals(apart, variance, *counted)
