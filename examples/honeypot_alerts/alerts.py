"""Alerts on a honeypot's attackers, day by day, from releases alone.

    python examples/honeypot_alerts/alerts.py [FOLDER]

A watch sees releases and no address. One address that knocks a thousand times counts as one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl

import dpi
from attacks import FIRST, PORTS, TELEPHONES, make
from dpi.apps import Alert, Watch


def watched(folder: Path, days: int) -> tuple[list[dpi.Release], list[Alert]]:
    """The release of every day, and all alerts."""
    events = dpi.read(folder / "attacks.parquet", user="user", time="time", value="port")
    seen_once = dpi.Ledger(returning=False)  # addresses hardly ever come back; who does is not counted again
    stream = dpi.Stream(domain=dpi.Categories(PORTS), epsilon=1, slot="1d", origin=str(FIRST), budget=seen_once)
    played = stream.replay(events, start=str(FIRST), end=str(FIRST + np.timedelta64(days, "D")))
    releases, alerts = [], []
    for release, found in Watch().over(played):
        releases.append(release)
        alerts += found
    return releases, alerts


def main(folder: Path, days: int = 60, burst: int = 40) -> list[Alert]:
    """Make the attacks, watch, write a table of alerts and a picture; the alerts."""
    folder.mkdir(parents=True, exist_ok=True)
    make(folder / "attacks.parquet", days, burst)
    releases, alerts = watched(folder, days)
    pl.DataFrame(alerts, schema=list(Alert.__dataclass_fields__)).write_csv(folder / "alerts.csv")
    dpi.plot_series(releases, [22, 445, TELEPHONES]).savefig(folder / "ports.svg")
    for alert in alerts:
        change = f"{alert.before:.3f} → {alert.share:.3f}"
        print(f"{str(alert.start)[:10]}  port {alert.value:5} {alert.severity:8} {change}")
    day = str(FIRST + np.timedelta64(burst, "D"))[:10]
    found = any(str(alert.start)[:10] == day and alert.value == str(TELEPHONES) for alert in alerts)
    print(f"The burst at port {TELEPHONES} was on {day}, and was {'found' if found else 'missed'}.")
    print(f"Look at {folder / 'ports.svg'} and {folder / 'alerts.csv'}.")
    return alerts


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/honeypot_alerts"))
