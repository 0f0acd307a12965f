"""Alerts on releases: values whose share has changed as it hardly ever does, and by more than the noise explains.

A watch sees releases, so its alerts are as public as they are. It may be put on a stream that goes on
(`watch.over(stream.advance())`) or on a stored one (`dpi query --alerts`). Where a stream declares a season, a share is
compared after its usual difference at that phase is taken off: an evening is no alert because it is no morning.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from statistics import NormalDist
from typing import Literal

import numpy as np

from dpi.apps.scoring import Scored, Scorer, unshared
from dpi.domain import Domain
from dpi.errors import OptionError
from dpi.release import Release
from dpi.release.choice import Floats

Severity = Literal["notable", "high", "extreme"]

BY_CLASS = 0.5
"""Of the summed variances of two releases, what their difference has where users are measured by class: the others are
carried on, so that most of the error is in both.

Source: by trial, of 1, 1/2 and 1/4 (docs/research-log.md). What intervals of 95 % then hold is measured by
benchmarks/apps.py errors: 93 to 100 % of the true changes.
"""
SEASONS = 5
"""Of so many seasons the median at a phase is taken: two unusual ones in it move it to another usual one."""


@dataclass(frozen=True)
class Alert:
    """A value whose share is not what it was."""

    slot: int
    start: str | None
    value: str
    """The bin, by its name."""
    share: float
    before: float
    """Its mean share in the window before; with a season, as it usually differs at this phase."""
    error: float
    """Standard error of the difference of the two."""
    score: float
    """The detector's own."""
    rarity: float
    """Which part of the cells before scored as high."""
    severity: Severity
    """"notable" within the watched share, "high" within a tenth of it, "extreme" within a hundredth."""


class Watch:
    """Scores every release, and raises alerts.

    detector: "hbos" or "forest" (isolation forest; needs the extra `apps`).
    window: how many slots before are compared with; the first alert is possible after twice as many.
    With a season it learns from one season first.
    share: which part of the cells may be alerts; only what is rarer than that in the past is one.
    level: no alert where an interval of this level explains the change; 0 alerts by score alone.
    memory: how many slots are learned from. renew: every so many slots the model is made anew.

    >>> from dpi.apps import Watch
    >>> Watch(share=2)
    Traceback (most recent call last):
    dpi.errors.OptionError: `share` must be above 0 and at most 1. Got 2.
    """

    def __init__(
        self,
        detector: str = "hbos",
        *,
        window: int = 7,
        share: float = 0.05,
        level: float = 0.95,
        memory: int = 100,
        renew: int = 7,
    ) -> None:
        if not 0 < share <= 1:
            raise OptionError(f"`share` must be above 0 and at most 1. Got {share!r}.")
        if not 0 <= level < 1:
            raise OptionError(f"`level` must be at least 0 and below 1. Got {level!r}.")
        self._new = partial(Scorer, detector, window=window, memory=memory, renew=renew)
        self._scorer = self._new()
        self._share = share
        self._quantile = NormalDist().inv_cdf(0.5 + level / 2)
        self._domain: Domain | None = None
        self._variances: list[Floats] = []
        self._phases = _Phases(1)

    def __call__(self, release: Release) -> list[Alert]:
        """Return the alerts of a release, the rarest first. Another domain starts anew."""
        if release.domain != self._domain:
            self._domain, self._scorer, self._variances = release.domain, self._new(), []
            self._phases = _Phases.of(release)
        usual = self._phases(release)
        if usual is None:
            return []
        scored = self._scorer(release.pdf - usual, unshared(release))
        if scored is not None:
            scored = replace(scored, before=scored.before + usual)
        alerts = [] if scored is None else self._alerts(release, scored)
        self._variances = [*self._variances[-self._scorer.window + 1 :], release.variance]
        return alerts

    def over(self, releases: Iterable[Release]) -> Iterator[tuple[Release, list[Alert]]]:
        """Yield each release as it comes, with its alerts: for example of `stream.replay(…)` or `stream.advance()`."""
        for release in releases:
            yield release, self(release)

    def _alerts(self, release: Release, scored: Scored) -> list[Alert]:
        # The variance of a mean is at most the mean of the variances. Errors of neighbouring slots go together, since a
        # release leans on those before, so the difference has at most the sum.
        left = 1.0 if release.carried is None else BY_CLASS
        error = np.sqrt(left * (release.variance + np.mean(self._variances, axis=0)))
        unexplained = np.abs(release.pdf - scored.before) > self._quantile * error
        rarity = self._scorer.rarity(scored.score)
        codes = np.flatnonzero((rarity <= self._share) & unexplained)
        return [
            Alert(
                slot=release.slot,
                start=release.start_text,
                value=release.domain.label(int(code)),
                share=float(release.pdf[code]),
                before=float(scored.before[code]),
                error=float(error[code]),
                score=float(scored.score[code]),
                rarity=float(rarity[code]),
                severity=self._severity(float(rarity[code])),
            )
            for code in codes[np.argsort(-scored.score[codes], kind="stable")]
        ]

    def _severity(self, rarity: float) -> Severity:
        parts: tuple[tuple[float, Severity], ...] = ((0.01, "extreme"), (0.1, "high"))
        return next((name for part, name in parts if rarity <= part * self._share), "notable")


class _Phases:
    """How shares usually differ at each phase of a season: median of the last ones there, less all phases' mean."""

    def __init__(self, season: int) -> None:
        self._season = season
        self._last: dict[int, deque[Floats]] = {phase: deque(maxlen=SEASONS) for phase in range(season)}
        self._usual: dict[int, Floats] = {}

    @classmethod
    def of(cls, release: Release) -> _Phases:
        """Return those of the season that the stream declares, if it does."""
        parameters = release.certificate.get("parameters")
        season = parameters.get("season") if isinstance(parameters, dict) else None
        return cls(season if isinstance(season, int) else 1)

    def __call__(self, release: Release) -> Floats | None:
        """Return the usual difference at a release's phase, of the releases before it; None in the first season."""
        if self._season == 1:
            return np.zeros(release.pdf.size)
        phase = release.slot % self._season
        usual = self._usual.get(phase)
        known = None if len(self._usual) < self._season else usual - np.mean([*self._usual.values()], axis=0)
        self._last[phase].append(release.pdf)
        self._usual[phase] = np.median(self._last[phase], axis=0)
        return known
