"""Alerts of a stream: what `dpi query --alerts` would say, in blocks that follow from numbers of slots.

Slots are watched in blocks of so many. A block's watch learns from the block before it and speaks of its own slots, so
that what is an alert follows from releases and numbers of slots, and not from when somebody asked or a process began.
A watch goes on where it was as slots are released; whole blocks are remembered. Hooks are told the same.

Sees releases that are seen.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import Any

from dpi.apps import Alert, Watch
from dpi.reader import Releases

BLOCK = 128  # slots of a block: somewhat more than a watch remembers
BLOCKS = 4  # blocks of one answer, at most
KEPT = 64  # blocks that are remembered
CELLS = 200_000  # values times slots that a watch learns from, about; and of one answer ten times as many


def make_watch(size: int, options: Mapping[str, Any]) -> Watch:
    """Return the watch of a domain of so many bins: with many, it learns from fewer slots, and anew less often.

    >>> make_watch(100, {})._scorer._renew, make_watch(10_000, {})._scorer._renew
    (7, 64)
    """
    memory = min(100, max(14, CELLS // size))
    return Watch(memory=memory, renew=7 if memory == 100 else 64, **options)


def count_blocks(size: int) -> int:
    """Return how many blocks one answer has, at most.

    >>> count_blocks(100), count_blocks(10_000)
    (4, 1)
    """
    return max(1, min(BLOCKS, 10 * CELLS // (BLOCK * size)))


class _Block:
    """The alerts of one block, as far as it is released."""

    def __init__(self, number: int) -> None:
        self.begin = number * BLOCK
        self.next = self.begin - BLOCK
        self.watch: Watch | None = None
        self.alerts: list[Alert] = []

    def go_on(self, releases: Releases, options: Mapping[str, object]) -> None:
        for release in releases.between(self.next, self.begin + BLOCK):
            self.watch = self.watch or make_watch(release.domain.size, options)
            alerts = self.watch(release)
            self.alerts += alerts if release.slot >= self.begin else []
            self.next = release.slot + 1


class WatchBlocks:
    """The blocks of all streams of a service, with options of `dpi.apps.Watch`."""

    def __init__(self, options: Mapping[str, object] | None = None) -> None:
        self._options = options or {}
        self._blocks: OrderedDict[tuple[str, int], _Block] = OrderedDict()
        self.turn = Lock()
        """Taken before a connection is: one does the work at a time, and whoever waits holds nothing others need."""

    def find_alerts(self, releases: Releases, first: int, last: int) -> list[Alert]:
        """Return the alerts of slots, of releases that are seen by now; asked for by whoever has the `turn`."""
        extent = releases.store.extent(releases.name, first, last)
        if extent is None:
            return []
        numbers = range(extent[1] // BLOCK, extent[2] // BLOCK + 1)
        alerts = [alert for number in numbers for alert in self._go_on(releases, number)]
        return [alert for alert in alerts if first <= alert.slot <= last]

    def _go_on(self, releases: Releases, number: int) -> list[Alert]:
        key = releases.name, number
        block = self._blocks.setdefault(key, _Block(number))
        self._blocks.move_to_end(key)
        try:
            block.go_on(releases, self._options)
        except BaseException:
            del self._blocks[key]
            raise
        while len(self._blocks) > KEPT:
            self._blocks.popitem(last=False)
        return block.alerts
