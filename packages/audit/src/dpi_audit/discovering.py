"""A discovery under audit: a universe of three texts, so that the law of all of them can be written down."""

from __future__ import annotations

import numpy as np

import dpi
from dpi.discovery.driver import DiscoveryDriver, TextEngine
from dpi.mechanism.sparse import SparseHistogram
from dpi.release import Release
from dpi_audit.distinguishers import Floats
from dpi_audit.empirical import BlackBox
from dpi_audit.exact import Open
from dpi_audit.neighbours import Neighbours
from dpi_audit.session import MakeStream, StreamSession
from dpi_audit.small import VALUES, stream

UNIVERSE = dpi.Texts(1, characters="".join(VALUES))


class DiscoverySession(StreamSession):
    """Rows go by their texts, as in `dpi.Discovery`."""

    def _release(self) -> Release:
        driver = self.stream.driver
        assert isinstance(driver, DiscoveryDriver)  # noqa: S101 - of its engine
        rows = driver.read([user for user, _ in self.rows], [value for _, value in self.rows])
        return driver.close(driver.meant(None), rows)


def discovered(mechanism: SparseHistogram | None = None, **options: object) -> MakeStream:
    """A small stream of discovery."""
    chosen = SparseHistogram(most=len(VALUES)) if mechanism is None else mechanism
    return stream(domain=UNIVERSE, mechanism=chosen, engine=TextEngine(), **options)


def discovery_box(epsilon: int, neighbours: Neighbours) -> BlackBox:
    """Runs of a discovery with the system's randomness: what every slot shows of every text, zero if it does not."""

    def one_run(with_user: bool) -> list[float]:
        slots = neighbours.one if with_user else neighbours.other
        store = dpi.MemoryStore()
        opened = dpi.Discovery(texts=UNIVERSE, epsilon=epsilon, quota=1, slots=len(slots), failure=1, store=store)
        found = [opened.release([user for user, _ in rows], [value for _, value in rows]).users for rows in slots]
        return [users.get(value, 0.0) for users in found for value in VALUES]

    def run(with_user: bool, runs: int) -> Floats:
        return np.array([one_run(with_user) for _ in range(runs)])

    return run


def discovery_session(mechanism: SparseHistogram | None = None, **options: object) -> Open:
    """Sessions of it."""
    return lambda: DiscoverySession(discovered(mechanism, **options))
