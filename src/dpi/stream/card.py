"""What a stream looks like in a notebook: its public options, what it promises, what is spent, and which slot is next.

It sees the public part of a stream's state: no event, no account, no key, and no address of a store, which may hold a
password.
"""

from __future__ import annotations

from datetime import timedelta

from dpi.budget.epsilon import UNITS
from dpi.display.card import card
from dpi.display.markup import Html, element
from dpi.events.slots import Slots
from dpi.stream.state import StreamState

_UNKNOWN = "Where the stream is, the store knows: it is closed, or a slot was interrupted and `next_slot` tells."


def stream_card(course: StreamState, guarantee: str | None) -> Html:
    """A card of public facts; without a guarantee, where the store cannot tell, only what does not change."""
    setting, last = course.setting, course.last
    told = {
        "name": setting.name or "(none)",
        "domain": f"{type(setting.domain).__name__}: " + "; ".join(_words(setting.domain.facts)),
        "ε per user": f"{float(setting.epsilon):g}" + ("" if setting.period is None else " in every epoch"),
        "slots": _clock(setting.slots, last if last is not None else setting.start or 0),
        "budget": repr(setting.budget),
        "mechanism": repr(setting.mechanism),
        "compression": repr(setting.compression),
    }
    if setting.quota is not None:
        told["quota"] = f"{float(setting.held):g} of it, for this stream alone"
    if setting.accumulate is not None:
        told["accumulative PDF"] = repr(setting.accumulate)
    if guarantee is None:
        return card("Stream", told, element("p", _UNKNOWN))
    following = last + 1 if last is not None else setting.start or 0
    begins = "" if setting.slots is None else f", from {setting.slots.start(following).isoformat()}"
    told["spent at most, per user"] = f"{course.most_spent / UNITS:.4g} by this stream"
    told["next slot"] = f"{following:,}{begins}" if last is not None or setting.start is not None else "not yet chosen"
    return card("Stream", told, element("p", guarantee))


def _clock(slots: Slots | None, number: int) -> str:
    """How long the slot of a number is, in hours, minutes and seconds, and whose time it is."""
    if slots is None:
        return "without a clock"
    late = f", closed {timedelta(microseconds=slots.lateness)} after their end" if slots.lateness else ""
    return f"{slots.start(number + 1) - slots.start(number)} each, zone {slots.zone}{late}"


def _words(facts: dict[str, str]) -> list[str]:
    return [f"{text} bins" if name == "bins" else f"{name}: {text}" for name, text in facts.items()]
