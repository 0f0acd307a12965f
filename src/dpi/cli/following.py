"""`run --follow`: files that grow or a broker, released by the system's clock."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime

from dpi.cli.outfile import OutFile
from dpi.cli.output import note
from dpi.cli.signals import Signals
from dpi.sources import FollowedEvents
from dpi.stream import Stream
from dpi.stream.live import follow as follow_stream


def follow(stream: Stream, events: FollowedEvents, end: datetime | None, out: OutFile | None, signals: Signals) -> None:
    """Keep events as they arrive, and release slots as the clock closes them, up to `end`."""
    with closing(follow_stream(stream, events, end=end, whole=signals.deferred, tell=note)) as releases:
        for release in releases:
            if out is not None:
                out.add(release)
