"""Whether releases look as if nobody had been there: what a wrong column, unit or period looks like from outside.

It sees releases only. So asking costs no privacy, and the answer may be shown to anybody.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from dpi.release import Release

_HEARD = 4.0  # standard deviations of its noise by which a total, or all of them together, must stand out

WARNING = (
    "The released totals look like an empty stream: no slot, nor all slots together, shows more users than noise. If "
    "there were users, check the columns, the unit and the zone of times, and the period; or accounts may be empty."
)


def looks_empty(releases: Iterable[Release]) -> bool:
    """Tell whether the totals of releases cannot be distinguished from those of slots without users.

    The noise on the sum of all bins has a standard deviation of √(2·bins)/ε. A total is heard if it is four of them
    and ln(slots)/√2 more: Laplace tails fall by e in 1/√2 deviations, so slots without users are heard, any of n, with
    a probability of about ½·e^(-4√2) < 0.002. All totals together are heard if their mean is 4/√n of them. Where no
    total was measured nothing can be said, and the answer is no. The same is asked of newcomers, where they are told.

    >>> import dpi
    >>> stream = dpi.Stream(domain=dpi.Categories(["DE", "FR"]), epsilon=100, budget=dpi.Ledger(per_slot=1))
    >>> users = [f"user {number}" for number in range(500)]
    >>> looks_empty([stream.release(users, ["DE"] * 500)]), looks_empty([])
    (False, False)
    """
    return are_noise([signals_to_noise(release) for release in releases])


def signals_to_noise(release: Release) -> tuple[float, float]:
    """Return the total and the newcomers in standard deviations of their noise; NaN where one was not measured.

    The total of a slot in which few users paid is a forecast with a wide interval. Newcomers pay at once, so they are
    measured well in such a slot too.
    """
    if not release.epsilon > 0:
        return math.nan, math.nan
    noise = math.sqrt(2 * release.domain.size) / release.epsilon
    total = release.total / max(noise, math.sqrt(release.total_variance))
    if release.people is None:
        return total, math.nan
    return total, release.people["newcomers"] / max(noise, math.sqrt(release.people["newcomers_variance"]))


def are_noise(ratios: Iterable[tuple[float, float]]) -> bool:
    """Tell whether neither totals nor newcomers stand out of their noise, in a slot or in all of them together."""
    known = [[ratio for ratio in series if math.isfinite(ratio)] for series in zip(*ratios, strict=True)]
    return any(known) and not any(_stand_out(series) for series in known if series)


def _stand_out(ratios: Sequence[float]) -> bool:
    loud = max(ratios) > _HEARD + math.log(len(ratios)) / math.sqrt(2)
    return loud or sum(ratios) / math.sqrt(len(ratios)) > _HEARD
