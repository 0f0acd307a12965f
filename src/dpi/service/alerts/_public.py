"""Alerts for analysts: anomalies, computed from releases that are seen, and from nothing else.

**Guarantee.** What an analyst's hook gets, and that it gets something, is a function of releases and of public options.
*Why:* a `PublicAlert` is made of an alert of `dpi.apps.Watch` alone, which sees releases; the thread of analysts tells
nothing else; and this module imports nothing that knows more (a contract of imports holds it).

Sees releases; no store, no account, no metric.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from dpi.apps import Alert
from dpi.service.alerts._delivery import Message, make_id


@dataclass(frozen=True)
class PublicAlert(Message):
    """Something that releases show."""

    @classmethod
    def of(cls, stream: str, alert: Alert) -> PublicAlert:
        """Say what was found in a release of a stream."""
        facts = asdict(alert)
        slot, value = facts.pop("slot"), alert.value
        sentence = (
            f"{stream}, slot {alert.start or slot}: the share of {value} is {alert.share:.4g}, {alert.severity} beside "
            f"{alert.before:.4g} before."
        )
        return cls(make_id("anomaly", stream, slot, value), "anomaly", stream, slot, sentence, facts)
