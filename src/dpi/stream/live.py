"""Live streams: events as they arrive, slots as the public clock closes them.

Sees events on their way into a store, and the releases that come out. Which events count is decided by
`dpi.stream.input_positions`; here inputs are read up to one mark after the other, and slots are closed behind them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from itertools import chain

from dpi.errors import OptionError
from dpi.events.slots import Window
from dpi.release import Release
from dpi.sources import FollowedEvents
from dpi.sources.live import Block
from dpi.stream import Stream
from dpi.stream.input_positions import Journal, Mark, Timer, newest_reaches
from dpi.stream.options import need_clock

Whole = Callable[[], AbstractContextManager[None]]
"""Is entered around what should not be interrupted halfway."""

LOST = (
    "part of an input had arrived and can no longer be read: it was cut, removed, deleted by its broker, or the "
    "program ended before standard input was stored. The slots are closed without it."
)
AWAY = (
    "a broker cannot be reached at the moment, or is too slow to answer: slots wait for it, and close late. Those of "
    "MQTT close with what it has delivered."
)
BACK = "the broker can be reached again."


def follow(
    stream: Stream,
    events: FollowedEvents,
    *,
    end: str | datetime | None = None,
    stop: threading.Event | None = None,
    whole: Whole = nullcontext,
    tell: Callable[[str], None] | None = None,
) -> Generator[Release, None, None]:
    """Keep events as they arrive, and release every slot when the system's clock has closed it.

    `events` are CSV or NDJSON files that grow or standard input (`dpi.read`), or those of a broker (`dpi.broker`). Goes
    on up to the slot that begins at `end`, until `stop` is set or standard input ends, or for ever. A slot holds what
    had arrived when it closed, whatever of it has been read by then; what arrived while nobody followed belongs to the
    slots that are still open. What is kept and how far it was read is stored together, so that a line counts once, over
    any stop.

    `whole` is entered around every write and every release; `tell` hears, in words for the curator alone, that
    something was lost.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from threading import Event
    >>> import dpi
    >>> stop = Event()
    >>> stop.set()                                # or Ctrl-C, or an `end`
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = Path(folder, "log.ndjson")
    ...     log.touch()
    ...     stream = dpi.Stream(domain=dpi.Categories(["DE"]), epsilon=1, slot="1h", start="2100-01-01")
    ...     list(dpi.follow(stream, dpi.read(log), stop=stop))
    []
    """
    follower = Follower(stream, events, whole=whole, tell=tell)
    last = None if end is None else follower.slots.boundary(end, "end")
    timer = Timer(follower.slots, follower.inputs, follower.journal, stop=stop, held=follower.hold)
    try:
        for number, mark in chain(follower.journal.kept, timer.start()):
            yield from follower.reach(number, mark, last)
            if last is not None and stream.next_slot >= last:
                return
    finally:
        stream.leave()  # others of its ledger would wait for a slot that nobody closes
        timer.stop()
        follower.close()


class Follower:
    """Reads inputs up to one mark after the other, and closes the slots that each mark closes."""

    def __init__(
        self,
        stream: Stream,
        events: FollowedEvents,
        *,
        whole: Whole = nullcontext,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.slots = need_clock(stream.slots, "follow")
        self.journal = Journal(stream.store, stream.name)
        known = newest_reaches(mark for _, mark in self.journal.kept)
        self.inputs = events.live(lambda producer: stream.store.sequence(stream.name, producer), known)
        self._stream, self._events, self._whole, self._tell = stream, events, whole, tell
        self._before: Mark | None = None
        self._away: set[str] = set()

    def reach(self, number: int, mark: Mark, last: int | None = None) -> Iterator[Release]:
        """Store what had arrived by a mark, and release the slots that it closes, up to before `last`."""
        stream = self._stream
        window = mark.window(self._before, self.slots, stream.next_slot)
        for each in self.inputs:
            for block in each.read(mark.reached.get(each.name, ())):
                self._keep(block, window, mark)
        self._hear()
        end = self.slots.first_open(mark.moment)
        releases = stream.close_before(end if last is None else min(end, last))
        while True:
            with self._whole():  # what is done with a release is part of it
                release = next(releases, None)
                if release is None:
                    break
                yield release
        if stream.next_slot >= end:
            self.journal.settled(number)
        self._before = mark

    def hold(self) -> None:
        """Tell the curator, once, that slots wait: a look was not answered, though the input may be back by now."""
        self._hear(held=True)

    def _hear(self, *, held: bool = False) -> None:
        """Tell the curator, and nobody else, what has become of the inputs."""
        said = []
        for each in self.inputs:
            said += [LOST] * each.lost
            each.lost, away = False, held or each.away
            if away != (each.name in self._away):
                self._away ^= {each.name}
                said.append(AWAY if away else BACK)
        if self._tell is not None:
            for words in said:
                self._tell(words)

    def _keep(self, block: Block, window: Window, mark: Mark) -> None:
        # A slot that waits for its turn on a ledger is closed all the same.
        window = self._events.narrow(window, block.events, self.slots, mark.until)
        with self._whole():
            self._stream.admit(self._events.events(block.events), window, block.producer, block.sequence)

    def close(self) -> None:
        """Let go of the inputs."""
        for each in self.inputs:
            each.close()


def advance(streams: Sequence[Stream], now: str | datetime | None = None) -> Iterator[tuple[Stream, Release]]:
    """Release every slot of several live streams that the public clock has closed, in one public order.

    Streams that share a ledger take from the same accounts, so what one slot takes changes what another can. The order
    is that of closing times, and of names where they are equal: never that in which streams happen to be ready, which
    would be a matter of how much data each has.

    >>> import dpi
    >>> store, options = dpi.MemoryStore(), dict(domain=dpi.Categories(["a"]), epsilon=1, start="2026-01-01")
    >>> days = dpi.Stream(**options, slot="1d", store=store, name="days")
    >>> halves = dpi.Stream(**options, slot="12h", store=store, name="halves")
    >>> [(stream.name, release.slot) for stream, release in advance([halves, days], now="2026-01-02")]
    [('halves', 40908), ('days', 20454), ('halves', 40909)]
    """
    moment = datetime.now(UTC) if now is None else now
    waiting = {stream.name: stream for stream in streams}
    if len(waiting) < len(streams):
        raise OptionError("`streams` must have names of their own.")
    ends = {name: stream.open_at(moment) for name, stream in waiting.items()}
    while waiting:
        stream = min(waiting.values(), key=lambda each: each.upcoming)
        release = next(stream.close_before(min(stream.next_slot + 1, ends[stream.name])), None)
        if release is None:
            del waiting[stream.name]
        else:
            yield stream, release
