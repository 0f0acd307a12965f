"""Every baseline on one stream, as published: what it protects, and what it costs in loss, memory and error.

    python benchmarks/baselines.py [--stream small20] [--slots 300] [--epsilon 1]
    python benchmarks/baselines.py --facts docs/baselines.csv

The loss is that of a user with one record in every slot, with δ = 10⁻⁶. Beside it, the published table of losses with
what the stated formulas give. The second form writes what is public of every baseline, and measures nothing.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np

from dpi_research.baselines import CATALOGUE, PublicFacts, baseline
from dpi_research.baselines.catalogue import facts_csv
from dpi_research.compare.tables import DELTA, SLOT_SECONDS, loss_rows
from dpi_research.datasets.generators import stream_named
from measure import Cell, record

USER_DELTA = 1e-6


def measured(name: str, stream_name: str, slots: int, epsilon: str) -> list[Cell]:
    """Unit, loss of a user, numbers held at the end, root mean square error of a bin, what is released."""
    stream = stream_named(stream_name)
    setting = PublicFacts(epsilon, stream.bins, slots, largest=10 * stream.rows, rows=stream.rows)
    mechanism = baseline(name, setting)
    prefix = mechanism.facts.releases == "prefix"
    truth, squares = np.zeros(stream.bins), []
    for slot in stream.slots(0, slots):
        histogram = np.bincount(slot.values, minlength=stream.bins)
        truth = prefix * truth + histogram
        release = mechanism.observe(slot.users, slot.values)
        if mechanism.slot > mechanism.warm_up:
            squares.append(float(np.mean((release - truth) ** 2)))
    loss = mechanism.user_epsilon(slots, 1, USER_DELTA)
    error = math.sqrt(np.mean(squares))
    costs = (mechanism.memory, error)
    return [f"`{name}`", mechanism.facts.unit, loss if math.isfinite(loss) else "∞", *costs, mechanism.facts.releases]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--stream", default="small20")
    parser.add_argument("--slots", type=int, default=300)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--facts", type=Path, help="write what is public of every baseline there")
    options = parser.parse_args()
    if options.facts:
        options.facts.write_text(facts_csv(), encoding="utf-8")
        return
    record(
        "baselines-losses",
        parts=["baselines", "compare"],
        columns=["method", "printed", "pure loss", f"loss at δ = {DELTA:g}", "δ at which the printed loss would hold"],
        rows=[
            [f"{row.method}, {row.variant}", *map(list, (row.printed_loss, row.pure, row.law)), row.delta_of_printed]
            for row in loss_rows()
            if row.slot_seconds == SLOT_SECONDS[0]
        ],
    )
    record(
        "baselines",
        parts=["noise", "baselines", "datasets"],
        columns=[
            "mechanism",
            "protected with ε",
            "loss of a user",
            "numbers held",
            "error of a bin",
            "releases",
        ],
        rows=[measured(name, options.stream, options.slots, options.epsilon) for name in CATALOGUE],
        seeds=[0],
    )


if __name__ == "__main__":
    main()
