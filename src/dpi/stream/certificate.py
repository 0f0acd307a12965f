"""What the certificate of a release states: public facts, collected from the state after the slot.

How entries are chained and signed is `dpi.certificates`. Sees no event, no histogram and no account.
"""

from __future__ import annotations

from dpi._version import __version__
from dpi.budget.adaptive_allocation import classes_of
from dpi.budget.classes import ClassBudget
from dpi.budget.epsilon import UNITS, Epsilon
from dpi.certificates.chain import Entry
from dpi.release import content_digest
from dpi.store.base import PaidSlot
from dpi.stream.state import StreamState

PROGRAM = f"dpi {__version__}"


def facts(state: StreamState, paid: PaidSlot, content: bytes) -> Entry:
    """The entry of the slot that was just released; `state` is that after it."""
    options, spent = state.setting, state.most_spent
    classes = classes_of(paid.allocation)
    return {
        "kind": "release",
        "format": 2,
        "stream": options.name,
        "slot": paid.slot,
        "first": state.first,
        "mechanism": options.mechanism.name,
        "parameters": options.parameters,
        "adjacency": "all events of one user",
        "epsilon": float(Epsilon(paid.epsilon)),
        "epsilon_spent": spent / UNITS,  # with refills it may be more than one `Epsilon` can be
        "epsilon_total": float(options.epsilon),
        "epsilon_units": paid.epsilon,
        "epsilon_spent_units": spent,
        "epsilon_total_units": options.epsilon.units,
        "options": options.digest,
        "measurement": paid.digest,
        "release": content_digest(content),
        "program": PROGRAM,
        **({} if options.quota is None else _quota(options.held)),
        **({"classes": [_stated(due) for due in classes]} if classes else {}),
    }


def _quota(held: Epsilon) -> Entry:
    """What of ε is this stream's alone, and so the most that it can cost a user."""
    return {"epsilon_quota": float(held), "epsilon_quota_units": held.units}


def _stated(due: ClassBudget) -> Entry:
    """The budget of one class."""
    return {
        "epsilon": float(due.epsilon),
        "epsilon_units": due.epsilon.units,
        "share_steps": due.steps,
        "most_left_units": due.most_left,
    }
