"""What a stream says of itself: the promise in words, the entry of a release in the chain, and a card for notebooks.

How entries are chained and signed is `dpi.certificates`. Sees public options, and the public part of a stream's state:
no event, no histogram, no account, no key, and no address of a store, which may hold a password.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from dpi._version import __version__
from dpi.budget.billing import SHARE_STEPS
from dpi.budget.classes import GroupBudget
from dpi.budget.epsilon import UNITS
from dpi.budget.odds import odds
from dpi.certificates.chain import Entry
from dpi.certificates.declared import DeclaredOptions, rest_of
from dpi.display.card import card
from dpi.display.markup import Html, element
from dpi.events.slots import Slots
from dpi.release import content_digest
from dpi.store.base import PaidSlot
from dpi.store.spent import sum_of
from dpi.stream.options import StreamOptions
from dpi.stream.state import StreamState


def write_guarantee(options: StreamOptions, streams: Mapping[str, DeclaredOptions]) -> str:
    """Return what is promised for one stream, given all streams of its store."""
    unit = "for ever" if options.period is None else f"per epoch of {options.period} slots"
    kept = "A converging series of budgets" if options.ledger is None else "An account of each user"
    scope, total = "this stream" if len(streams) == 1 else "all streams of this store together", sum_of(streams)
    if total:
        scope = "this stream alone" if options.ledger != "" else "the streams of the shared ledger together"
    means = odds(float(options.epsilon), epochs=options.period is not None)
    return (
        f"Pure differential privacy, ε = {float(options.epsilon):g} per user {unit}, for {scope}; "
        f"neighbours differ in all events of one user. {means} {kept} enforces it.{_quotas(options, streams)}{total}"
    )


def _quotas(options: StreamOptions, streams: Mapping[str, DeclaredOptions]) -> str:
    """Say what this stream has of an ε that is shared by quotas."""
    if options.quota is not None:
        return f" This stream has a quota of {float(options.held):g} of ε: it takes no more from any user."
    others = [each for each in streams.values() if each.quota is not None and each.ledger == options.ledger]
    left = f"{rest_of(others[0], streams) / UNITS:g}" if others else ""
    return f" Other streams have quotas of ε; this one takes at most the remaining {left}." if others else ""


PROGRAM = f"dpi {__version__}"


def make_entry(state: StreamState, paid: PaidSlot, content: bytes, groups: Sequence[GroupBudget]) -> Entry:
    """Return the entry of the slot that was just released, by these groups; `state` is that after it."""
    options, spent = state.setting, state.most_spent
    entry: Entry = {
        "kind": "release",
        "stream": options.name,
        "slot": paid.slot,
        "first": state.first,
        "mechanism": options.mechanism_name,
        "parameters": options.parameters,
        "adjacency": "all events of one user",
        "epsilon": paid.epsilon / UNITS,
        "epsilon_spent": spent / UNITS,  # with refills it may be more than one `Epsilon` can be
        "epsilon_total": options.epsilon.units / UNITS,
        "epsilon_units": paid.epsilon,
        "epsilon_spent_units": spent,
        "epsilon_total_units": options.epsilon.units,
        "options": options.digest,
        "measurement": paid.digest,
        "release": content_digest(content),
        "program": PROGRAM,
    }
    if groups:
        entry["classes"] = [
            {
                "class": due.number,
                "group": number,
                "epsilon": due.epsilon.units / UNITS,
                "epsilon_units": due.epsilon.units,
                "share_steps": int(due.share * SHARE_STEPS),
                "most_left_units": due.most_left,
            }
            for number, group in enumerate(groups)
            for due in group.classes
        ]
    if options.quota is not None:  # what of ε is this stream's alone, and so the most that it can cost a user
        entry |= {"epsilon_quota": options.held.units / UNITS, "epsilon_quota_units": options.held.units}
    return entry


_UNKNOWN = "The state of the stream is in its store, which is closed, or a slot was interrupted: ask `next_slot`."


def make_card(course: StreamState, guarantee: str | None) -> Html:
    """Return a card of public facts; without a guarantee, where the store cannot tell, only what does not change."""
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
    """Say how long the slot of a number is, in hours, minutes and seconds, and whose time it is."""
    if slots is None:
        return "without a clock"
    late = f", closed {timedelta(microseconds=slots.lateness)} after their end" if slots.lateness else ""
    return f"{slots.start(number + 1) - slots.start(number)} each, zone {slots.zone}{late}"


def _words(facts: dict[str, str]) -> list[str]:
    return [f"{text} bins" if name == "bins" else f"{name}: {text}" for name, text in facts.items()]
