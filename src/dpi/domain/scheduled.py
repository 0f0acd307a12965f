"""Values of slots whose domain is a function of the slot's number: each is told by the domain of its own slot.

Knows public domains, and rows by themselves.
"""

from __future__ import annotations

import numpy as np

from dpi.domain.domain import Domain
from dpi.errors import SchemaError
from dpi.exact.integers import Integers
from dpi.options.schedule import Schedule

Domains = Domain | Schedule[Domain]
"""One domain for all slots, or domains by the first slot that each holds for."""


def by_slot(domains: Domains) -> Schedule[Domain]:
    """Domains by slot, also where there is one alone."""
    return Schedule.of(domains) if isinstance(domains, Domain) else domains


def encode(domains: Domains, slots: Integers, values: object) -> Integers:
    """Codes of a column of values of these slots.

    Whether a column can be read follows from its type and from the domains, never from the slots of its rows.

    >>> from dpi.domain import Categories
    >>> encode(Schedule.of(Categories(["DE"])).changed(7, Categories(["FR"])), np.array([6, 7]), ["FR", "FR"]).tolist()
    [1, 0]
    """
    (_, first), *later = by_slot(domains).entries
    codes = first.encode(values)
    if codes.size != slots.size:
        raise SchemaError("`values` must have as many rows as the other columns.")
    for begins, domain in later:
        codes = np.where(slots >= begins, domain.encode(values), codes)
    return codes
