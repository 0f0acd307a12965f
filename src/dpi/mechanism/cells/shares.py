"""Which fraction of what they have left users pay: f₀ for newcomers, f for others, more where few ever pay again.

Chosen from public state, before a slot is looked at. What a user does not live to pay is lost to the estimate: if a
share ρ of those with m + 1 payments ever makes the next one, f_m is raised to 1 - (1 - f)·ρ. Where everybody is new in
every slot that approaches spending all at once; nobody is ever left with nothing.

Sees rates of return made of counts after noise; no histogram, no user.
"""

from __future__ import annotations

from fractions import Fraction

from dpi.budget.billing import SHARE_STEPS
from dpi.mechanism.cells.state import CellsState

NEWCOMERS, OTHERS, MOST = 0.5, 0.25, 0.85
"""Fractions of what is left that newcomers and others pay where all return, and the most that anybody pays.

Source: by trial; not measured by itself.
"""


def shares(state: CellsState, due: int) -> tuple[Fraction, ...]:
    """The fractions of the `due` lowest classes, in steps of 1/`SHARE_STEPS`, rounded down."""
    means, _ = state.returning
    top = state.classes - 1

    def share(m: int) -> Fraction:
        soon, later = means[min(m + 1, top)].tolist()
        again = min(1.0, soon / max(1 - later, 1e-9))
        paid = min(MOST, 1 - (1 - (OTHERS if m else NEWCOMERS)) * again)
        return Fraction(int(paid * SHARE_STEPS), SHARE_STEPS)

    return tuple(share(m) for m in range(due))
