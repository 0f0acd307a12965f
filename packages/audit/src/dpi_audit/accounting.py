"""The published accounting's excess: what Theorem 1 claims, what can be lost, and what the exact audit finds lost."""

from __future__ import annotations

from dataclasses import dataclass

from dpi.theory import claimed_loss, true_loss
from dpi_audit.exact import loss_on
from dpi_audit.neighbours import alone
from dpi_audit.small import VALUES
from dpi_audit.zoo.published_accounting import MU, ZETA, BrokenAlgorithm1

PRINTED = {(10, 1): "0.06/0.35", (100, 1): "0.58/0.61", (1000, 1): "5.2/0.86"}
"""The corrected bound over the claim of Theorem 1 for ε = 1 and μ = ζ = 0.1 (docs/published.md)."""


@dataclass(frozen=True)
class Excess:
    """Losses of Algorithm 1 after some slots with some draws a slot, for ε = 1 and μ = ζ = 0.1."""

    slots: int
    draws: int
    claimed: float
    """By Theorem 1."""
    bound: float
    """The true worst case over all pools."""
    found: float
    """The exact loss for a user who is alone in every slot, with a pool of a million."""
    printed: str
    """The corrected bound over the claim, as docs/published.md has it."""

    @property
    def excess(self) -> float:
        """How many times the claim is lost."""
        return self.found / self.claimed


def excesses() -> tuple[Excess, ...]:
    """After 10, 100 and 1,000 slots, for 1 and 20 draws.

    >>> [round(row.excess, 1) for row in excesses() if row.slots == 1000]
    [6.0, 120.5]
    """
    rows = []
    for slots in (10, 100, 1000):
        for draws in (1, 20):
            finding = loss_on(lambda s=slots, d=draws: BrokenAlgorithm1(d, s), alone(slots, VALUES))  # type: ignore[misc]
            claimed, bound = claimed_loss(slots, 1, MU, ZETA), true_loss(slots, draws, 1, MU, ZETA)
            rows.append(
                Excess(slots, draws, claimed, bound, float(finding.loss), PRINTED.get((slots, draws), "exceeded"))
            )
    return tuple(rows)
