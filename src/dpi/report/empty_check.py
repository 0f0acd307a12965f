"""Whether releases look as if nobody had been there: what a wrong column, unit or period looks like from outside.

It sees releases only. So asking costs no privacy, and the answer may be shown to anybody.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from dpi.release import Release

_HEARD = 4.0  # standard deviations of its noise by which a total, or all of them together, must stand out

WARNING = (
    "The released totals look like an empty stream: no slot, nor all slots together, shows more users than noise. If "
    "there were users, the columns, the unit or the zone of times or the period may not be those of the events, or "
    "accounts are empty."
)


def looks_empty(releases: Iterable[Release]) -> bool:
    """Tell whether the totals of releases cannot be told from those of slots without any user.

    The noise on the sum of all bins has a standard deviation of √(2·bins)/ε. A total is heard if it is four of them
    and ln(slots)/√2 more: Laplace tails fall by e in 1/√2 deviations, so slots without users are heard, any of n, with
    a probability of about ½·e^(-4√2) < 0.002. All totals together are heard if their mean is 4/√n of them. Where no
    total was measured nothing can be said, and the answer is no.

    >>> import dpi
    >>> stream = dpi.Stream(domain=dpi.Categories(["DE", "FR"]), epsilon=100, budget=dpi.Ledger(per_slot=1))
    >>> users = [f"user {number}" for number in range(500)]
    >>> looks_empty([stream.release(users, ["DE"] * 500)]), looks_empty([])
    (False, False)
    """
    return are_noise([signal_to_noise(release) for release in releases])


def signal_to_noise(release: Release) -> float:
    """Return a total in standard deviations of its noise; NaN where none was measured."""
    if not release.epsilon > 0:
        return math.nan
    noise = math.sqrt(2 * release.domain.size) / release.epsilon
    return release.total / max(noise, math.sqrt(release.total_variance))


def are_noise(ratios: Iterable[float]) -> bool:
    """Tell whether none of the totals stands out of its noise, nor all of them together."""
    known = [ratio for ratio in ratios if math.isfinite(ratio)]
    if not known:
        return False
    loud = max(known) > _HEARD + math.log(len(known)) / math.sqrt(2)
    return not loud and sum(known) / math.sqrt(len(known)) <= _HEARD
