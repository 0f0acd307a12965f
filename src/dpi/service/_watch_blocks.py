"""Alerts of a stream: what `dpi watch` would say, in blocks that follow from numbers of slots.

Slots are watched in blocks of so many. A block's watch learns from the block before it and speaks of its own slots, so
that what is an alert follows from releases and numbers of slots, and not from when somebody asked or a process began.
A watch goes on where it was as slots are released; whole blocks are remembered.

Sees releases that are seen.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import asdict
from threading import Lock

from dpi.apps import Watch
from dpi.reader import Releases

BLOCK = 128
"""Slots of a block: somewhat more than a watch remembers."""
BLOCKS = 4
"""Blocks of one answer, at most."""
KEPT = 64
"""Blocks that are remembered."""
CELLS = 200_000
"""Values times slots that a watch learns from, about; and of one answer ten times as many."""


def make_watch(size: int) -> Watch:
    """Return the watch of a domain of so many bins: with many, it learns from fewer slots, and learns anew less often.

    >>> make_watch(100)._scorer._renew, make_watch(10_000)._scorer._renew
    (7, 64)
    """
    memory = min(100, max(14, CELLS // size))
    return Watch(memory=memory, renew=7 if memory == 100 else 64)


def count_blocks(size: int) -> int:
    """Return how many blocks one answer has, at most.

    >>> count_blocks(100), count_blocks(10_000)
    (4, 1)
    """
    return max(1, min(BLOCKS, 10 * CELLS // (BLOCK * size)))


class _Block:
    """The alerts of one block, as far as it is released."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.watch: Watch | None = None
        self.next: int | None = None
        self.alerts: list[dict[str, object]] = []

    def go_on(self, releases: Releases) -> None:
        """Take up the releases that are new."""
        begin, end = self.number * BLOCK, (self.number + 1) * BLOCK
        first = begin - BLOCK if self.next is None else self.next
        for release in releases.between(first, end):
            self.watch = self.watch or make_watch(release.domain.size)
            alerts = self.watch(release)
            self.alerts += [asdict(alert) for alert in alerts if release.slot >= begin]
            self.next = release.slot + 1


class WatchBlocks:
    """The blocks of all streams of a service."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[tuple[str, int], _Block] = OrderedDict()
        self.turn = Lock()
        """Taken before a connection is: one does the work at a time, and whoever waits holds nothing others need."""

    def find_alerts(self, releases: Releases, number: int) -> list[dict[str, object]]:
        """Return the alerts of a block, of releases that are seen by now; asked for by whoever has the `turn`."""
        key = releases.name, number
        block = self._blocks.setdefault(key, _Block(number))
        self._blocks.move_to_end(key)
        try:
            block.go_on(releases)
        except BaseException:
            del self._blocks[key]
            raise
        while len(self._blocks) > KEPT:
            self._blocks.popitem(last=False)
        return list(block.alerts)
