"""A discovery under audit: a universe of three texts, so that the law of all of them can be written down."""

from __future__ import annotations

import dpi
from dpi.audit.exact import Open
from dpi.audit.session import MakeStream, StreamSession
from dpi.audit.small import VALUES, stream
from dpi.discovery.driver import DiscoveryDriver, TextEngine
from dpi.mechanism.sparse import SparseHistogram
from dpi.release import Release
from dpi.sources import SlotRows

UNIVERSE = dpi.Texts(1, characters="".join(VALUES))


class DiscoverySession(StreamSession):
    """Rows go by their texts, as in `dpi.Discovery`."""

    def _release(self) -> Release:
        driver = self.stream.driver
        assert isinstance(driver, DiscoveryDriver)  # noqa: S101 - of its engine
        rows = SlotRows.of([user for user, _ in self.rows], [value for _, value in self.rows], driver.seen())
        return driver.close_rows(driver.meant(None), rows)


def discovered(mechanism: SparseHistogram | None = None, **options: object) -> MakeStream:
    """A small stream of discovery."""
    chosen = SparseHistogram(most=len(VALUES)) if mechanism is None else mechanism
    return stream(domain=UNIVERSE, mechanism=chosen, engine=TextEngine(), **options)


def discovery_session(mechanism: SparseHistogram | None = None, **options: object) -> Open:
    """Sessions of it."""
    return lambda: DiscoverySession(discovered(mechanism, **options))
