"""Silence: how many slots have passed without a batch, and from how many on a stream counts as silent.

**Private**, the curator's and the administrator's alone, as the metrics are. *Why:* whether a batch arrives can depend
on one user: a producer may send events as they come, and one user's may be the only ones of an hour. So neither
releases, nor what analysts or auditors are told, nor `/v1/health` and `/v1/ready`, which need no token, depend on it.
Analysts see how old a measurement is (`Release.measured_ago`), which follows from releases.

A batch counts when it is kept, also if it holds no event that counts, or none at all: a producer can say that it is
there while users are not. What a process has not seen it does not know: silence is counted anew from its start.

Sees that batches were kept; no event.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpi.events.slots import Slots
from dpi.service.receipts import Clock

SILENT = 3
"""Whole slots without a batch from which on a stream is silent, unless `[alerts] silence` says otherwise.

A stream in which a slot has no batch with probability q has so many in a row with q³ in any slot: with q = 1 %, once in
a million slots. A stream that rests at night or at weekends needs more.
"""


@dataclass(frozen=True)
class _Heard:
    slots: Slots
    first: int
    """The first slot of which a batch can be missed."""


class Silence:
    """How many slots have passed since each stream's last batch, by the service's clock."""

    def __init__(self, clock: Clock, limit: int = SILENT) -> None:
        self._clock, self.limit = clock, limit
        self._streams: dict[str, _Heard] = {}

    def begin(self, stream: str, slots: Slots, first: int) -> None:
        """Count for a stream whose first slot this is; one that was changed goes on."""
        before = self._streams.get(stream)
        since = slots.first_open(self._clock()) + 1 if before is None else before.first
        self._streams[stream] = _Heard(slots, max(since, first))

    def end(self, stream: str) -> None:
        """Count no more for a stream that was stopped."""
        self._streams.pop(stream, None)

    def kept(self, stream: str) -> None:
        """Note that a batch was kept."""
        found = self._streams.get(stream)
        if found is not None:
            since = found.slots.first_open(self._clock()) + 1
            self._streams[stream] = _Heard(found.slots, max(since, found.first))

    def quiet(self, stream: str) -> int:
        """Whole slots that have passed without a batch; none of a stream that was stopped."""
        found = self._streams.get(stream)
        return 0 if found is None else max(0, found.slots.first_open(self._clock()) - found.first)

    def silent(self, stream: str) -> bool:
        """Whether these are as many as make an alert."""
        return self.quiet(stream) >= self.limit
