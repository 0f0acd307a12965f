"""Two watches of a service that do not know of each other: of its releases for analysts, of itself for curators.

Each has a thread, and hooks with an outbox each, so that neither what is private nor a receiver that is away delays
what analysts are told, or a slot.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpi.apps import Watch
from dpi.files import whole
from dpi.service import logs
from dpi.service.alerts.config import AlertConfig, HookAddress, MailServer, WebhookAddress, secret
from dpi.service.alerts.hooks import Mail, Server, Webhook
from dpi.service.alerts.message import identity
from dpi.service.alerts.outbox import Hook, Outbox
from dpi.service.alerts.private import Conditions, Curators
from dpi.service.alerts.public import Analysts, Watching
from dpi.service.overview import Overview
from dpi.service.publication import Publication
from dpi.service.reading import Reading

if TYPE_CHECKING:
    from dpi.service.service import Service

EVERY = {"analysts": 1.0, "curators": 5.0}
"""Seconds between two looks."""
NEVER = -(1 << 62)
"""A slot before the first one of any stream."""


class Duty:
    """Looks again and again, and has what it finds delivered, from `start` to `stop`."""

    def __init__(self, name: str, look: Callable[[], None], boxes: Sequence[Outbox]) -> None:
        self._name, self._look, self._boxes = name, look, tuple(boxes)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"dpi alerts for {name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        for box in self._boxes:
            box.start()
        self._thread.start()

    def stop(self) -> None:
        """End after the look that is being taken; outboxes keep what they could not deliver."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        for box in self._boxes:
            box.stop()

    def _run(self) -> None:
        failing = False
        while not self._stopped.is_set():
            try:
                self._look()
                failing = False
            except Exception as error:  # the store's, or a fault: the next look may fare better
                if not failing:
                    logs.failed("alerts cannot be looked for", error, role=self._name)
                failing = True
            self._stopped.wait(EVERY[self._name])


class OfReleases:
    """What is public: the releases of all streams, as they are seen."""

    def __init__(
        self,
        streams: Callable[[], Sequence[str]],
        reading: Reading,
        publication: Publication,
        analysts: Analysts,
        mark: Path,
        watch: Callable[[], Watch],
    ) -> None:
        self._streams, self._reading, self._publication = streams, reading, publication
        self._analysts, self._mark, self._watch = analysts, mark, watch
        self._told = self._read()
        self._watching: dict[str, Watching] = {}

    def look(self) -> None:
        """Tell the alerts of releases that were not told before; those from before there were hooks are not."""
        for name in self._streams():
            upto = self._publication.upto(name)
            if name not in self._told:
                self._told[name] = NEVER if upto is None else upto
                self._write()
            if upto is None:
                continue
            if name not in self._watching:
                self._watching[name] = Watching(name, self._told[name], self._watch())
            watching = self._watching[name]
            if upto < watching.following:
                continue
            try:
                with self._reading.releases(name) as releases:
                    alerts = watching.look(releases.between(watching.following, upto + 1))
                for alert in alerts:
                    self._analysts.tell(alert)
            except BaseException:
                del self._watching[name]  # begun anew after what was told for sure
                raise
            if watching.told != self._told[name]:  # after they are durable: at least once
                self._told[name] = watching.told
                self._write()

    def _read(self) -> dict[str, int]:
        try:
            return {str(name): int(slot) for name, slot in json.loads(self._mark.read_bytes()).items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def _write(self) -> None:
        whole.write(self._mark, json.dumps(self._told, sort_keys=True).encode())


class OfItself:
    """What is private: how the service does."""

    def __init__(self, overview: Overview, conditions: Conditions, curators: Curators) -> None:
        self._overview, self._conditions, self._curators = overview, conditions, curators

    def look(self) -> None:
        """Tell what has begun since the last look."""
        for alert in self._conditions.look(self._overview.now()):
            self._curators.tell(alert)


def duties(service: Service, config: AlertConfig) -> list[Duty]:
    """The watches that a configuration asks for; secrets are read here, and what is wrong with them is told."""
    folder = config.folder if config.folder is not None else service.config.tokens.with_name("alerts")
    found: list[Duty] = []
    if config.analysts:
        boxes = _boxes(folder / "analysts", config.analysts, config.smtp, "analysts")
        made: dict[str, Any] = dict(config.watch)
        releases = OfReleases(
            lambda: sorted(service.closing.streams), service.reading, service.publication, Analysts(boxes),
            folder / "analysts" / "told.json", partial(Watch, **made),
        )  # fmt: skip
        found.append(Duty("analysts", releases.look, boxes))
    if config.curators:
        boxes = _boxes(folder / "curators", config.curators, config.smtp, "curators")
        itself = OfItself(service.overview, Conditions(config.lag, config.dry), Curators(boxes))
        found.append(Duty("curators", itself.look, boxes))
    return found


def _boxes(
    folder: Path, addresses: Sequence[HookAddress], server: MailServer | None, audience: str
) -> tuple[Outbox, ...]:
    return tuple(Outbox(folder / _place(each), _made(each, server), audience) for each in addresses)


def _place(address: HookAddress) -> str:
    """The folder of a hook: the same after a restart, and without its address."""
    return identity(address.url if isinstance(address, WebhookAddress) else sorted(address.to))[:16]


def _made(address: HookAddress, server: MailServer | None) -> Hook:
    if isinstance(address, WebhookAddress):
        return Webhook(address.url, secret(address.secret_file))
    assert server is not None  # noqa: S101 - a configuration without one was refused
    password = None if server.password_file is None else secret(server.password_file).decode()
    return Mail(
        Server(
            server.host, server.sender, server.port, server.starttls, server.user, password, server.ca_file,
        ),
        address.to,
    )  # fmt: skip
