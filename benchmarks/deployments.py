"""Five published deployments that reset their budget, beside one budget for ever: errors and losses, by calculation.

    python benchmarks/deployments.py

Each deployment gives a user a new ε in every slot. The parameters are from a list of public deployments
(desfontain.es/blog/real-world-differential-privacy.html); sizes are assumed, and named. *Reset*: the 95 % error of a
share that is a tenth of all, for Laplace noise of 1/ε on each value of a slot, and of the number of active users for
noise of 1/ε on it, each with half of the slot's ε. Gaussian designs with a δ are taken as if they were Laplace. *Loss*
is what a user loses who is there in every slot of a year. *For ever* are errors that `dpi.plan` expects after a year,
and how wrong plans were is on its page. *Equal promise* is the error of the reset design if all slots of a year
together had the ε that DPI has for ever, 1. Signals above the table of plans are told as at its edge (≤).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import dpi
from dpi.planning import read_table
from measure import Cell, record


class Deployment(NamedTuple):
    """What is published, and for how many users."""

    name: str
    slots: int
    epsilon: float
    users: int
    bins: int


DEPLOYMENTS = (
    Deployment("mobility: user-day, 6 categories of a region", 365, 2.64, 10_000, 6),
    Deployment("symptoms: user-day, 400 symptoms of a region", 365, 1.68, 100_000, 400),
    Deployment("movement: user-day, 50 regions", 365, 2.0, 20_000, 50),
    Deployment("editors: user-month, 200 countries", 12, 2.0, 10_000, 200),
    Deployment("audience: user-month, 100 values", 12, 34.9, 100_000, 100),
)
FOR_EVER, DAILY, MONTHLY = (1, 10, 50), 0.2, 0.5
COLUMNS = [
    "deployment", "users", "ε of a slot", "reset: share ± points", "reset: active ± %", "loss in a year",
    *(f"ε = {epsilon} for ever: share ± points; active ± %" for epsilon in FOR_EVER), "equal promise: share ± points",
]  # fmt: skip


def noise(epsilon: float, users: int) -> float:
    """Return the 95 % error of a part of the users, in per cent, of Laplace noise of 1/ε."""
    return 100 * 1.96 * math.sqrt(2) / (epsilon * users)


def expect(one: Deployment, epsilon: float) -> str:
    """Return the errors that a plan expects for ever, after about a year of slots."""
    most = read_table().signal[-1]
    users, age = (one.users, 365) if one.slots > 30 else (one.users, 30)
    edge = users * epsilon > most
    told = min(epsilon, most / users)
    made = dpi.plan(epsilon=told, users=users, bins=one.bins, stickiness=DAILY if one.slots > 30 else MONTHLY)
    sign = "≤ " if edge else ""
    return f"{sign}{made.error('share_10', age):.2g}; {sign}{made.error('active', age):.2g}"


def main() -> None:
    """Calculate all of it, and record the figures."""
    rows = list[list[Cell]]()
    for one in DEPLOYMENTS:
        half = noise(one.epsilon / 2, one.users)
        rows.append([
            one.name, one.users, one.epsilon, half, half, one.epsilon * one.slots,
            *(expect(one, epsilon) for epsilon in FOR_EVER), min(noise(0.5 / one.slots, one.users), 100.0),
        ])  # fmt: skip
    record("deployments", parts=(), columns=COLUMNS, rows=rows)


if __name__ == "__main__":
    main()
