"""Alerts for analysts: anomalies, computed from releases that are seen, and from nothing else.

**Guarantee.** What an analyst's hook gets, and that it gets something, is a function of releases and of public options.
*Why:* a `PublicAlert` is made of an alert of `dpi.apps.Watch` alone, which sees releases; `Analysts` takes nothing
else; and this module imports nothing that knows more (a contract of imports holds it).

Sees releases; no store, no account, no metric.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from dpi.apps import Alert, Watch
from dpi.release import Release
from dpi.service.alerts._delivery import Box, Message, make_id

LEARN = 300
"""Releases before the first new one from which a watch learns when a service begins."""


@dataclass(frozen=True)
class PublicAlert:
    """Something that releases show."""

    stream: str
    found: Alert

    def message(self) -> Message:
        found, facts = self.found, asdict(self.found)
        slot, value = facts.pop("slot"), found.value
        sentence = (
            f"{self.stream}, slot {slot}: the share of {value} is {found.share:.4g}, {found.severity} beside "
            f"{found.before:.4g} before."
        )
        return Message(make_id("anomaly", self.stream, slot, value), "anomaly", self.stream, slot, sentence, facts)


class Analysts:
    """Those who may know what is public."""

    def __init__(self, boxes: Sequence[Box]) -> None:
        self._boxes = tuple(boxes)

    def tell(self, alert: PublicAlert) -> None:
        """Send an alert to all of them; refuses anything that is not made of releases."""
        if type(alert) is not PublicAlert:
            raise TypeError("analysts are told public alerts alone")
        for box in self._boxes:
            box.put(alert.message())


class StreamWatch:
    """Watches the releases of one stream, each once, after a slot up to which alerts were told before."""

    def __init__(self, stream: str, told: int, watch: Watch) -> None:
        self.stream, self.told = stream, told
        self._watch, self._seen = watch, told - LEARN

    @property
    def following(self) -> int:
        """The first slot whose release is not yet seen."""
        return self._seen + 1

    def look(self, releases: Iterable[Release]) -> list[PublicAlert]:
        """Return the alerts of releases from `following` on that were not told."""
        found: list[PublicAlert] = []
        for release in releases:
            alerts = self._watch(release)
            if release.slot > self.told:
                found += [PublicAlert(self.stream, alert) for alert in alerts]
            self._seen = release.slot
        self.told = max(self.told, self._seen)
        return found
