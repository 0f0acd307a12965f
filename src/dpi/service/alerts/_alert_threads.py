"""Two threads that do not know of each other: one watches releases for analysts, one the service for curators.

Each has hooks with an outbox each, so that neither what is private nor a receiver that is away delays what analysts are
told, or a slot.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from dpi.files import write_file
from dpi.service import logs
from dpi.service._publication import Reading
from dpi.service._watch_blocks import WatchBlocks
from dpi.service.alerts._delivery import Message, Outbox, Webhook, make_id
from dpi.service.alerts._private import Conditions, PrivateAlert
from dpi.service.alerts._public import PublicAlert
from dpi.service.config import AlertConfig, WebhookAddress, read_secret
from dpi.service.operations import Operations

EVERY = {"analysts": 1.0, "curators": 5.0}  # seconds between two looks
NEVER = -(1 << 62)  # a slot before the first one of any stream


class AlertThread(threading.Thread):
    """Looks again and again, and has alerts of one kind delivered, and never another, from `start` to `stop`."""

    def __init__(
        self, role: str, kind: type[Message], find: Callable[[], Iterable[Message]], boxes: Sequence[Outbox]
    ) -> None:
        super().__init__(name=f"dpi alerts for {role}", daemon=True)
        self._role, self._kind, self._find, self._boxes = role, kind, find, tuple(boxes)
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End after the look that is being taken; outboxes keep what they could not deliver."""
        self._stopped.set()
        if self.is_alive():
            self.join()
        for box in self._boxes:
            box.stop()

    def tell(self, alert: Message) -> None:
        """Have an alert delivered; refuses anything that is not of its kind, also what is derived from it."""
        if type(alert) is not self._kind:
            raise TypeError(f"those who are told a {self._kind.__name__} are told nothing else")
        for box in self._boxes:
            box.put(alert)

    def run(self) -> None:
        for box in self._boxes:
            box.start()
        failing = False
        while not self._stopped.is_set():
            try:
                for alert in self._find():
                    self.tell(alert)
                failing = False
            except Exception as error:  # the store's, or a fault: the next look may fare better
                if not failing:
                    logs.failed("alerts cannot be looked for", error, role=self._role)
                failing = True
            self._stopped.wait(EVERY[self._role])


class ReleaseWatch:
    """Watches what is public: the releases of all streams, as they are seen."""

    def __init__(self, streams: Iterable[str], reading: Reading, mark: Path, options: Mapping[str, object]) -> None:
        self._streams, self._reading, self._mark = streams, reading, mark
        self._blocks = WatchBlocks(options)
        try:
            self._told = {str(name): int(slot) for name, slot in json.loads(mark.read_bytes()).items()}
        except (OSError, ValueError, TypeError, AttributeError):
            self._told = {}

    def find(self) -> Iterator[PublicAlert]:
        """Give the alerts of releases that were not told before; those from before there were hooks are not."""
        for name in sorted(self._streams):
            upto = self._reading.publication.upto(name)
            told = self._told.get(name)
            if told is None:
                self._note(name, NEVER if upto is None else upto)
            elif upto is not None and upto > told:
                with self._reading.releases(name) as releases:
                    alerts = self._blocks.find_alerts(releases, told + 1, upto)
                for alert in alerts:
                    yield PublicAlert.of(name, alert)
                self._note(name, upto)  # after all of them were told, and are durable: at least once

    def _note(self, name: str, slot: int) -> None:
        self._told[name] = slot
        write_file(self._mark, json.dumps(self._told, sort_keys=True).encode())


def make_alert_threads(
    config: AlertConfig, folder: Path, streams: Iterable[str], reading: Reading, look: Callable[[], Operations]
) -> list[AlertThread]:
    """Return the threads that a configuration asks for; secrets are read here, and what is wrong with them is told."""

    def make_boxes(role: str, hooks: Sequence[WebhookAddress]) -> list[Outbox]:
        """Make an outbox for each hook, in a folder whose name is the same after a restart, and not its address."""
        places = [folder / role / make_id(each.url)[:16] for each in hooks]
        sends = [Webhook(each.url, read_secret(each.secret_file)).send for each in hooks]
        return [Outbox(place, send, role) for place, send in zip(places, sends, strict=True)]

    threads: list[AlertThread] = []
    if config.analysts:
        boxes = make_boxes("analysts", config.analysts)
        watch = ReleaseWatch(streams, reading, folder / "analysts" / "told.json", config.watch)
        threads.append(AlertThread("analysts", PublicAlert, watch.find, boxes))
    if config.curators:
        boxes, conditions = make_boxes("curators", config.curators), Conditions(config.lag, config.dry)
        threads.append(AlertThread("curators", PrivateAlert, lambda: conditions.look(look()), boxes))
    return threads
