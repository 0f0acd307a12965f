"""Which fraction of what they have left users pay: f₀ for newcomers, f for others, more where few ever pay again.

Chosen from public state, before a slot is looked at. What a user does not live to pay is lost to the estimate: if a
share ρ of those with m + 1 payments ever makes the next one, f_m is raised to 1 - (1 - f)·ρ. Where everybody is new in
every slot that approaches spending all at once; nobody is ever left with nothing. As long as some may return, whom it
would silence, nobody pays nearly all: that takes a ρ that is known to be small.

Sees rates of return made of counts after noise; no histogram, no user.
"""

from __future__ import annotations

from fractions import Fraction

from dpi.budget.billing import SHARE_STEPS
from dpi.mechanism.cells.state import CellsState

NEWCOMERS, OTHERS, MOST = 0.5, 0.25, 0.85
"""Fractions of what is left that newcomers and others pay where all return, and the most that anybody pays as long as
some may return.

Source: by trial; the last is measured by benchmarks/clocked.py (0.93 instead: bursts 0.0143 → 0.0151, honeypot-host
0.0864 → 0.0901).
"""

NEARLY_ALL, SURE = 0.99, 3.0
"""The most that anybody ever pays, and how many deviations above what rates say ρ is then still small.

Source: by trial; benchmarks/compare.py (published@1, cap 1: KL 0.000133 → 0.000101, where one noisy histogram of all of
ε has 0.000102) and benchmarks/clocked.py (bursts, seeds 0 to 3: 0.0155 → 0.0176).
"""


def shares(state: CellsState, due: int) -> tuple[Fraction, ...]:
    """The fractions of the `due` lowest classes, in steps of 1/`SHARE_STEPS`, rounded down."""
    means, covariances = state.returning
    top = state.classes - 1

    def share(m: int) -> Fraction:
        above = min(m + 1, top)
        soon, later = (float(rate) for rate in means[above])
        kept, doubt = 1 - (OTHERS if m else NEWCOMERS), SURE * float(covariances[above, 0, 0]) ** 0.5

        def paid(rate: float) -> float:
            return 1 - kept * min(1.0, rate / max(1 - later, 1e-9))

        fraction = min(max(min(paid(soon), MOST), paid(soon + doubt)), NEARLY_ALL)
        return Fraction(int(fraction * SHARE_STEPS), SHARE_STEPS)

    return tuple(share(m) for m in range(due))
