"""Made-up attacks on a honeypot, for `alerts.py`: which address knocked at which port, and when.

Each day has new addresses. They knock at the usual ports in proportions that drift a little; on one day hundreds of
addresses that were never seen look for telephones (port 5060).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

FIRST = np.datetime64("2026-01-05", "us")
PORTS = [22, 23, 80, 443, 445, 1433, 3389, 5060]
USUAL = np.array([0.2, 0.14, 0.12, 0.08, 0.2, 0.14, 0.1, 0.02])
TELEPHONES = 5060
_DAY = 86_400_000_000


def make(path: Path, days: int, burst: int, addresses: int = 1500, more: int = 900, seed: int = 1) -> None:
    """Write the attacks of so many days, with `more` addresses on the day `burst`: columns `user`, `port`, `time`."""
    rng = np.random.default_rng(seed)  # made-up data, no privacy noise
    ports, moments = [], []
    for day in range(days):
        shares = USUAL * rng.uniform(0.9, 1.1, USUAL.size)
        wanted = rng.choice(PORTS, addresses, p=shares / shares.sum())
        if day == burst:
            wanted = np.append(wanted, np.full(more, TELEPHONES))
        ports.append(wanted)
        moments.append(day * _DAY + rng.integers(0, _DAY, wanted.size))
    port, moment = np.concatenate(ports), np.concatenate(moments)
    order = np.argsort(moment, kind="stable")
    names = [f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}" for n in range(port.size)]
    frame = pl.DataFrame({"user": names, "port": port, "time": FIRST + moment.astype("timedelta64[us]")})
    frame[order].write_parquet(path)
