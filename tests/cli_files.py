"""Rows that must never be printed, and the public period they lie in."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import dpi

SECRETS = ("secret-user", "SECRET-VALUE", "1999-12-31")
"""What stands in the rows and nowhere else."""

PERIOD = ("--from", "2026-01-01", "--to", "2026-01-01T06:00")


def rows(hours: int = 6, users: int = 40) -> list[dict[str, object]]:
    """Visits of some users in every hour, and rows that cannot be read."""
    found: list[dict[str, object]] = [
        {
            "user": f"secret-user-{user}",
            "at": f"2026-01-01T{hour:02d}:10:00",
            "country": ("DE", "FR", "IT", "SECRET-VALUE")[(user + hour) % 4],
            "age": 20 + user,
        }
        for hour in range(hours)
        for user in range(users)
    ]
    found.append({"user": None, "at": "2026-01-01T01:00:00", "country": "DE", "age": 30})
    found.append({"user": "secret-user-odd", "at": "SECRET-VALUE", "country": "DE", "age": None})
    found.append({"user": "secret-user-old", "at": "1999-12-31T23:59:59", "country": "FR", "age": 1})
    return found


PROGRAM = (sys.executable, "-m", "dpi.cli")
"""The command line as a process of its own."""

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(dpi.__file__).parents[1]), "COLUMNS": "120"}
"""With the package under test, whatever the working folder."""


def kept() -> int:
    """How many events the store live.db keeps for open slots."""
    try:
        with dpi.open_store("live.db", read_only=True) as store:
            slots = {slot for (slot,) in store.engine.rows("SELECT slot FROM events")}
            return sum(int(store.events("", slot).counts.sum()) for slot in slots)
    except (dpi.StateError, dpi.StoreError):
        return 0
