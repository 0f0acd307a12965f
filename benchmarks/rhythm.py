"""Alerts on the made-up shop, whose one unusual evening is known: with its daily rhythm taken off, and without.

    python benchmarks/rhythm.py [--runs 4]

Each run releases three weeks of hours at ε = 1 with other noise and visitors, a week later than the one before, so
that other users are measured in the hours of the offer. An alert is *true* if it is in one
of the five hours of the offer, which moves the share of every page. An hour is *found* if one of its alerts names the
offer's page. *Rhythm kept* is the same watch where the stream states no season.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from datetime import UTC
from typing import cast

import numpy as np

import dpi
from dpi import demo
from dpi.apps import Watch
from dpi.mechanism import Mechanism
from measure import ESTIMATES, Cell, record

HOURS, WEEK = 24 * 21, 24 * 7
FIRST = int(demo.START.replace(tzinfo=UTC).timestamp()) // 3600


def play(seed: int) -> list[dpi.Release]:
    """Return the releases of a shop with these visitors."""
    mechanism = cast("Mechanism[object]", dpi.Boosted(season=24))
    stream = dpi.Stream(domain=dpi.Categories(demo.PAGES), epsilon=1, mechanism=mechanism)
    hours = enumerate(demo.hourly(HOURS, seed), FIRST + seed * WEEK)
    return [stream.release(hour["user"], hour["page"], slot=slot) for slot, hour in hours]


def judge(releases: list[dpi.Release]) -> list[float]:
    """Return alerts, true ones, and hours found."""
    first = releases[0].slot
    alerts = [alert for _, of_slot in Watch().over(releases) for alert in of_slot]
    true = [alert for alert in alerts if alert.slot - first in demo.CROWD]
    return [len(alerts), len(true), len({alert.slot for alert in true if alert.value == "offer"})]


def main() -> None:
    """Play all runs, and record the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4)
    runs = [play(seed) for seed in range(parser.parse_args().runs)]
    rows = list[list[Cell]]()
    for name, kept in (("rhythm taken off", False), ("rhythm kept", True)):
        given = [[replace(each, certificate={}) for each in run] if kept else run for run in runs]
        alerts, true, hours = np.sum([judge(run) for run in given], axis=0)
        rows.append([name, int(alerts), int(true), 100 * true / max(alerts, 1), f"{int(hours)} of {5 * len(runs)}"])
    record(
        "rhythm",
        parts=(*ESTIMATES, "apps"),
        columns=["", "alerts", "true", "true, %", "hours found"],
        rows=rows,
    )


if __name__ == "__main__":
    main()
