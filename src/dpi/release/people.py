"""All that a release says of its users as people: how many are new, returned or ever came, and how they go on.

Which of it is there follows from public options and released numbers, so it tells nothing more.
"""

from __future__ import annotations

from dpi.mechanism.base import ACROSS, AFTER, ENGAGEMENT, HORIZON, SPANS, STICKY, People
from dpi.release.queries import Answer, Distribution

COUNTS = ("newcomers", "returning", "reach")
"""Numbers that are always told together."""
NUMBERS = (*COUNTS, *(f"active_{n}" for n in SPANS))
"""What is told as a number of users, and not as a part of them."""
_IN_EVERY_SLOT = ("newcomers", "reach", "active")
_BY_A_COUNT = ("total", "returning", "stickiness")
_LATER = {n: "1 slot later" if n == 1 else f"{n} slots later" for n in AFTER}
LABELS = {
    "newcomers": "users who are new to this stream",
    "returning": "users who came before",
    "reach": "users who ever came",
    **{
        f"retention_{n}": f"share of this slot's newcomers who are active {later}, expected"
        for n, later in _LATER.items()
    },
    **{
        f"first_retention_{n}": f"share of the first slot's users who were active {later}"
        for n, later in _LATER.items()
    },
    **{f"stickiness_{n}": f"active users over distinct users of the last {n} slots" for n in STICKY},
    **{f"active_{n}": f"distinct users of the last {n} slots" for n in SPANS},
    "further_activity": f"active slots of the next {HORIZON}, expected of each active user",
}
"""What each number is, in words."""


def tell_people(of: Distribution) -> dict[str, Answer]:
    """Return all numbers that are known, by name; none where newcomers cannot be distinguished."""
    if of.people is None:
        return {}
    told: dict[str, Answer | None] = {name: getattr(of, name)() for name in COUNTS}
    told |= {f"retention_{n}": of.retention(n) for n in AFTER}
    told |= {f"first_retention_{n}": of.retention(n, "first") for n in AFTER}
    told |= {f"stickiness_{n}": of.stickiness(n) for n in STICKY}
    told |= {f"active_{n}": of.active(n) for n in SPANS}
    told["further_activity"] = of.further_activity()
    return {name: answer for name, answer in told.items() if answer is not None}


def is_of_its_slot(question: str, of: Distribution) -> bool:
    """Return whether a question's number is measured in every slot, whatever else of the picture is carried forward.

    First payments are. So is how many are active where users are counted: what a count alone knows is then told.
    """
    counted = any(name in (of.people or ()) for name in ACROSS if name not in ENGAGEMENT)
    return question in _IN_EVERY_SLOT or (counted and question in _BY_A_COUNT)


def is_people(told: object) -> bool:
    """Return whether an object has the numbers of people that a release can have, each with its variance."""
    if not isinstance(told, dict) or any(type(value) is not float for value in told.values()):
        return False
    known = [name for name in (*ENGAGEMENT, *ACROSS) if name in told]
    return told.keys() == {*People._fields, *known, *(f"{name}_variance" for name in known)}
