"""`run --dry-run`: whether events can be read with these options, for the curator alone.

It reads, and neither pays nor writes. What it says is made from the rows, so it is private: three words (none, few,
most) for each cause, on standard error and nowhere else, and the exit code is the same whatever it finds.

*Why this keeps the promise.* Which column is which, and in which unit a time is written, is a fact about the format of
the events and not about who is in them: to correct that is to read the same rows rightly. The period and the domain are
declared; chosen after a look at the rows, they would be read off the data, and then nothing is promised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import reduce

import numpy as np
import numpy.typing as npt

from dpi.cli.output import Steps, note
from dpi.domain import OUTSIDE, Domain, Product
from dpi.events.identity import users
from dpi.events.slots import UNREADABLE, Slots
from dpi.sources import Events, FileEvents

Rows = npt.NDArray[np.bool_]


def rehearse(events: FileEvents, domain: Domain, slots: Slots, first: int, end: int | None, ids: str) -> None:
    """Read all events, and tell the curator whether none, few or most of the rows can be used, cause by cause."""
    rows, passed = 0, Counter[str]()
    with Steps("MB read", events.size // 10**6) as steps:
        for batch in events.batches(progress=lambda done: steps.over(done // 10**6)):
            tests = _tests(batch, domain, slots, first, end, ids)
            rows += next(iter(tests.values())).size
            passed.update({name: int(passing.sum()) for name, passing in tests.items()})
    words = [f"  {name}: {'few' if 2 * n < rows else 'most'}" if n else f"  {name}: none" for name, n in passed.items()]
    note(
        "dry run: nothing was paid or written. The next lines are computed from rows: they are private, for the "
        "curator only.",
        *(words if rows else ["There are no rows that can be read."]),
        "You may correct columns, unit, format and separator after this. Do not choose a period or a domain by it: "
        "they would depend on the data, and the guarantee would not hold.",
    )


def _tests(batch: Events, domain: Domain, slots: Slots, first: int, end: int | None, ids: str) -> dict[str, Rows]:
    """Which rows pass, for each cause by itself and for all together."""
    numbers = slots.numbers(batch.times, batch.unit)
    user, time = users(batch.users, ids).is_not_null().to_numpy(), numbers != UNREADABLE
    period = time & (numbers >= first) & (numbers < (np.iinfo(np.int64).max if end is None else end))
    return {
        "user id can be read": user,
        "time can be read": time,
        "time lies in the period": period,
        "value is listed in the domain": _listed(domain, batch.values),
        "row counts in a release": user & period & (domain.encode(batch.values) != OUTSIDE),
    }


def _listed(domain: Domain, values: object) -> Rows:
    """Rows whose value the domain names: the bin of everything else does not count."""
    if isinstance(domain, Product) and isinstance(values, Mapping):
        listed = [_listed(part, values[name]) for name, part in domain.parts.items()]
        return reduce(np.ndarray.__and__, listed)
    return np.not_equal(domain.encode(values), domain.outside)
