"""Sets hypothesis up for a noisy machine, and imports the package before doctests do so module by module."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

import dpi  # noqa: F401 - a module that a doctest imports first, by its path, would exist twice

# What decides whether a change may land is the same on every machine; `make test-slow` looks for new examples.
settings.register_profile("default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("slow", deadline=None, max_examples=2000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("slow" if os.environ.get("DPI_SLOW") else "default")
