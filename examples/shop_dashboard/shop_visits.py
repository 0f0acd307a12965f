"""Visits of a made-up shop, for `dashboard.py`: who saw which page, and when."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from dpi import demo


def make(path: Path, days: int) -> None:
    """Write the visits of so many days from 2026-03-02 on: columns `user`, `page` and `at`."""
    pl.concat(demo.hourly(24 * days)).write_parquet(path)
