"""Releases with made-up numbers, for tests of what is done with releases."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import numpy as np

import dpi

GUARANTEE = "Pure differential privacy, ε = 1 per user for ever, for this stream."


def release(domain, slot, rng, *, clock=True, **changes):
    """One release with a random PDF."""
    pdf = rng.dirichlet(np.full(domain.size, 0.5))
    start = (datetime(2026, 3, 1, tzinfo=UTC) + timedelta(hours=slot)) if clock else None
    values = {
        "domain": domain,
        "pdf": pdf,
        "variance": rng.uniform(1e-6, 1e-4, domain.size),
        "skew": rng.uniform(0, 1, domain.size),
        "accumulated": np.arange(domain.size, 0, -1) / (domain.size * (domain.size + 1) / 2),
        "total": float(rng.uniform(1000, 2000)),
        "total_variance": 400.0,
        "slot": slot,
        "start": start,
        "epsilon": 0.05,
        "epsilon_spent": min(1.0, 0.05 * (slot + 1)),
        "guarantee": GUARANTEE,
        "certificate": {"epsilon_total_units": 1 << 40, "scope": "stream"},
    }
    return dpi.Release(**(values | changes))


def releases(domain, slots, *, seed=1, **changes):
    """A stream of releases with random PDFs."""
    rng = np.random.default_rng(seed)
    return [release(domain, slot, rng, **changes) for slot in range(slots)]


def without_total(domain, slots):
    """A stream whose totals were not measured."""
    return releases(domain, slots, total=math.nan, total_variance=math.nan)
