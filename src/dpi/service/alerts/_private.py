"""Alerts for curators: lag, silence, unusable rows, accounts that run dry, slots that cannot be closed.

Private: events decide them.

An alert is told when its condition begins, once, and again if it ends and comes back; not what it was before a restart.
Sees what an operator sees (`dpi.service.operations`); no user.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dpi.service.alerts._delivery import Fact, Message, make_id
from dpi.service.operations import Operations, StreamOperations


@dataclass(frozen=True)
class PrivateAlert(Message):
    """Something that an operator should look at."""

    @classmethod
    def of(cls, kind: str, stream: str, slot: int | None, sentence: str, **facts: Fact) -> PrivateAlert:
        """Say what is wrong with a stream, with one who sends to it, or with all streams."""
        sender = [facts["sender"]] if "sender" in facts else []
        return cls(make_id(kind, stream, slot, *sender), kind, stream, slot, sentence, facts)


class Conditions:
    """The conditions that hold at the moment.

    lag: seconds after its closing moment at which a slot that is not released is an alert.
    dry: the part of all accounts that cannot pay the next slot in full, from which on it is one.
    """

    def __init__(self, lag: float, dry: float) -> None:
        self._lag, self._dry = lag, dry
        self._hold: set[tuple[str, str, Fact | None]] = set()

    def look(self, now: Operations) -> list[PrivateAlert]:
        """Return the alerts whose condition has begun since the last look."""
        alerts = {(alert.kind, alert.stream, alert.facts.get("sender")): alert for alert in self._find(now)}
        begun = [alert for key, alert in alerts.items() if key not in self._hold]
        self._hold = set(alerts)
        return begun

    def _find(self, now: Operations) -> Iterator[PrivateAlert]:
        if now.failing is not None:
            slots = [each.next for each in now.streams if each.next is not None]
            sentence = f"slots cannot be closed at the moment ({now.failing})."
            yield PrivateAlert.of("stopped", "", min(slots, default=None), sentence, error=now.failing)
        for each in now.streams:
            if now.failing is None and each.failing is not None:
                sentence = f"{each.stream}: slot {each.begins or each.next} cannot be closed ({each.failing})."
                yield PrivateAlert.of("stopped", each.stream, each.next, sentence, error=each.failing)
            yield from self._find_of(each)

    def _find_of(self, stream: StreamOperations) -> Iterator[PrivateAlert]:
        name, slot, held = stream.stream, stream.next, stream.accounts
        if stream.lag is not None and stream.lag > self._lag:
            sentence = f"{name}: slot {stream.begins or slot} should have been closed {stream.lag:.0f} s ago."
            yield PrivateAlert.of("lag", name, slot, sentence, seconds=round(stream.lag, 1))
        if stream.silent and stream.quiet is not None:
            sentence = f"{name}: no batch has come for {stream.quiet} slots."
            yield PrivateAlert.of("silence", name, slot, sentence, slots=stream.quiet)
        for sender in stream.unusable:
            sentence = f"{name}: most rows that {sender} has sent of late lack a column, or are not in time."
            yield PrivateAlert.of("unusable", name, slot, sentence, sender=sender)
        if held is not None and held.number and held.dry >= self._dry * held.number:
            part = f"{held.dry / held.number:.0%} of {held.number} accounts"
            sentence = f"{name}: {part} cannot pay slot {stream.begins or slot} in full."
            yield PrivateAlert.of("dry", name, slot, sentence, accounts=held.number, dry=held.dry)
