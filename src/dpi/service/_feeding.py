"""Feeding: a stream that is served takes its events from a broker, by the same marks as `dpi.follow`.

A timer notes how far the broker has got, at every closing time and in between (`dpi.stream.input_positions`); one
thread reads up to each mark and keeps what it admits, with its position. A slot waits until everything up to the first
mark after its closing time is kept. So what a slot holds is what had arrived at the broker by then, however long
reading takes.

What fails is begun again from what is stored: the marks are durable, and the same ones are used. Slots wait meanwhile,
and so they do while a broker does not answer. What arrives until it does counts for them: the log says that they wait.

Sees events on their way into the store.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import chain
from logging import WARNING

from dpi.service import logs
from dpi.service._receipts import Clock
from dpi.sources import Admission, FollowedEvents, Understood
from dpi.sources.live import Block
from dpi.store.base import Arrival, Store
from dpi.stream.input_positions import Journal, Mark, Timer, newest_reaches

AGAIN = 1.0  # seconds after which a broker that failed is begun again
LEAVING = 5.0  # seconds that a reader has to end; one that waits for a broker is left


class Feeding(threading.Thread):
    """One stream's broker, from `start` to `stop`."""

    def __init__(
        self,
        stream: str,
        events: FollowedEvents,
        store: Store,
        admission: Callable[[], AbstractContextManager[Admission]],
        clock: Clock,
        heard: Callable[[str, Understood], None],
    ) -> None:
        super().__init__(name=f"dpi feeding {stream}", daemon=True)
        self._stream, self._events, self._store = stream, events, store
        self._admission, self._clock, self._heard = admission, clock, heard
        self._leaving, self._moment = threading.Event(), -(1 << 62)
        self._waits = False
        self.turn = threading.Lock()  # held while events are written

    def leave(self) -> None:
        """Keep nothing more. The caller holds `turn`."""
        self._leaving.set()

    def stop(self) -> None:
        self._leaving.set()
        if self.is_alive():
            self.join(LEAVING)

    def settled(self, moment: int) -> bool:
        """Whether what had arrived by a moment is kept."""
        return self._moment >= moment

    def run(self) -> None:
        while not self._leaving.is_set():
            try:
                self._follow()
            except BaseException as error:  # a panic of polars is no `Exception`
                logs.failed("a broker cannot be read", error, stream=self._stream)
                self._leaving.wait(AGAIN)

    def _follow(self) -> None:
        journal = Journal(self._store, self._stream)
        known = newest_reaches(mark for _, mark in journal.kept)
        inputs = self._events.live(lambda producer: self._store.sequence(self._stream, producer), known)
        with self._admission() as admission:
            slots = admission.slots
        timer = Timer(slots, inputs, journal, stop=self._leaving, clock=self._clock, held=self._wait)
        before: Mark | None = None
        try:
            for number, mark in chain(journal.kept, timer.start()):
                for each in inputs:
                    for block in each.read(mark.reached.get(each.name, ())):
                        self._keep(block, before, mark)
                    if each.lost:
                        logs.tell("part of a broker's events is lost", WARNING, stream=self._stream)
                    each.lost = False
                journal.settled(number)
                before = mark
                self._moment, self._waits = max(self._moment, mark.moment), False
                if self._leaving.is_set():
                    return
        finally:
            timer.stop()
            for each in inputs:
                each.close()

    def _wait(self) -> None:
        """Tell the operator, once, that slots wait for an answer."""
        if not self._waits:
            logs.tell("a broker does not answer: slots wait", WARNING, stream=self._stream)
        self._waits = True

    def _keep(self, block: Block, before: Mark | None, mark: Mark) -> None:
        events = self._events
        with self._admission() as admission:
            window = mark.window(before, admission.slots, admission.first)
            window = events.narrow(window, block.events, admission.slots, mark.until)
            kept, understood = admission.understand(events.events(block.events), window)
            with self.turn:
                if not self._leaving.is_set():
                    self._store.append_all([Arrival(self._stream, kept, block.producer, block.sequence)])
        self._heard(block.producer, understood)
