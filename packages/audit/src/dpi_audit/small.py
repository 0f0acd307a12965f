"""A small stream to audit: three values, ε = 1, a mechanism of two trackers. What differs is an option."""

from __future__ import annotations

from fractions import Fraction

import dpi
from dpi.mechanism.base import Mechanism
from dpi.noise import UnsafeSeededSource
from dpi_audit.exact import Open
from dpi_audit.session import MakeStream, StreamSession, Wrap

VALUES = ("a", "b", "c")
DOMAIN = dpi.Categories(VALUES, other=None)
SLOTS = 24
EPSILON = Fraction(1)


def stream(**options: object) -> MakeStream:
    """A small stream; its mechanism has two trackers, since experts see nothing private."""
    mechanism = options.pop("mechanism", dpi.Boosted(drifts=(0.003, 0.1)))

    def make(wrap: Wrap) -> dpi.Stream:
        defaults: dict[str, object] = {
            "domain": DOMAIN,
            "epsilon": EPSILON,
            "budget": dpi.Ledger(per_slot="0.05"),
            "unsafe_source": UnsafeSeededSource(1),
            # Neighbours differ in one user and not in the key that names accounts.
            "store": dpi.MemoryStore(secret=bytes(range(32)), history=1),
        }
        wrapped: Mechanism[object] = wrap(mechanism)  # type: ignore[arg-type]
        return dpi.Stream(mechanism=wrapped, **(defaults | options))  # type: ignore[arg-type]

    return make


def stream_session(**options: object) -> Open:
    """Sessions of a small stream."""
    return lambda: StreamSession(stream(**options))
