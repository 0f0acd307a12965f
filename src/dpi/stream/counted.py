"""The stream that counts the active users of another one: a companion with a part of every user's ε for itself.

It has the slots of the stream that it counts for, and closes each of them first, with the same users; what it says of
them is in both releases. A stream of its own in every other respect: accounts, entries of the chain, a state.

**Guarantee.** That of two streams of one ledger: the companion has a quota, the other stream the rest
(`dpi.budget.billing`), and what it tells is its own release, a public thing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from dpi.budget.epsilon import Amount
from dpi.budget.ledger import Ledger
from dpi.certificates.declared import DeclaredOptions
from dpi.domain import Categories, Discovered
from dpi.errors import OptionError
from dpi.events.slots import duration
from dpi.histogram.compression import normalise
from dpi.mechanism.active_users import LONGEST, ActiveUsers
from dpi.mechanism.base import Mechanism
from dpi.stream.options import StreamOptions

SEASONS = {duration("1d"): 7, duration("1h"): 24}
"""After how many slots of a length people do the same again, unless a stream says otherwise."""


def name_counted(name: str) -> str:
    """Return the name of the stream that counts the users of another.

    >>> name_counted(""), name_counted("visits")
    ('users', 'visits users')
    """
    return f"{name} users".strip()


def counts(name: str, streams: Mapping[str, str]) -> bool:
    """Return whether a store has a stream that counts the users of this one."""
    text = streams.get(name_counted(name))
    return text is not None and not DeclaredOptions.from_text(text).asked


def count_users(of: StreamOptions, part: Amount) -> StreamOptions:
    """Return the options of the stream that counts the users of another, for a part of ε."""
    if not isinstance(of.budget, Ledger) or of.ledger != "" or of.budget.period is not None:
        raise OptionError(
            "`people` is a part of the ε of a store's ledger: leave out `converging`, `separate` and `period`.",
            options=("people", "converging", "separate", "period"),
        )
    if isinstance(of.domain, Discovered):
        raise OptionError(
            "`people` needs a declared domain: leave it out where values are discovered.", options=("people",)
        )
    try:
        whole = Ledger(quota=part).held(of.epsilon) == of.epsilon
    except OptionError:
        whole = True
    if whole:
        raise OptionError(f"`people` must be a part of ε, above 0 and below 1. Got {part!r}.", options=("people",))
    return replace(
        of,
        domain=Categories(["active"], other=None),
        mechanism=cast("Mechanism[object]", ActiveUsers(_season(of))),
        compression=normalise,
        budget=Ledger(quota=part),
        accumulate=None,
        name=name_counted(of.name),
    )


def _season(of: StreamOptions) -> int | None:
    """Return after how many slots activity repeats: as declared, else a week of days or a day of hours.

    A season that is not there does no harm: how much of it is believed is learned (`dpi.estimator`).
    """
    declared: int | None = getattr(of.mechanism, "season", None)
    if declared is not None:
        return declared if declared <= LONGEST else None
    return None if of.slots is None else SEASONS.get(of.slots.about)
