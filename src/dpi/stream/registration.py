"""Entering a stream, or a change of its options, into the chain of a store.

**When a change begins.** Options are a function of the slot's number, and a change begins with a slot that has not
begun: slots that are open keep theirs, and with them the events that were kept for them. Which slot that is follows
from the public clock, from what was released, and from what the caller says; never from which events there are, since
the chain tells it to everybody. `change=True` means the first slot that begins after now, by the system's clock. A
stream that is played from tables or files gets its slots whole, long after they have begun: `change="next"` means the
slot that is released next, and so does any change of a stream without a clock. A time means the slot that begins then.
No change begins before the next slot to be released.

Should events lie in a later slot all the same (the clock was set back, or "next" is said of a stream that is fed as
events arrive), they are told by the new bin that takes their old one (`dpi.domain.overlap`), each by itself.

Sees public options and what a store says of its streams; no event and no account.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from dpi.budget.billing import assignable
from dpi.budget.epsilon import UNITS
from dpi.budget.ledger import Ledger
from dpi.certificates.chain import Entry, canonical, extend
from dpi.certificates.declared import DeclaredOptions, declared, rest_of
from dpi.certificates.signature import Signer
from dpi.domain.file import describe, lacks_key
from dpi.domain.overlap import recoding
from dpi.errors import OptionError, StateError
from dpi.exact.integers import Integers
from dpi.options.schedule import BEGINNING, Schedule
from dpi.store.base import Store
from dpi.store.ledger_session import LedgerSession
from dpi.stream._option_history import Forgotten, make_earlier, read_domain
from dpi.stream._statements import PROGRAM
from dpi.stream.options import STOPPED, StreamOptions, other_epsilon

Change = bool | str | datetime
"""Whether options may change, and with which slot: True, "next", or when that slot begins."""


def declare(
    given: StreamOptions, session: LedgerSession, signer: Signer | None, *, separate: bool, change: Change
) -> StreamOptions:
    """Enter the stream, or a change of its options, unless the store has it just so.

    Returns the options as they are meant beside the streams that are there.
    """
    session.settle()
    store = session.store
    streams = declared(store.streams())
    known = streams.get(given.name)
    setting = keep_domain(given.resolved(streams), store)
    first, recoded = BEGINNING, None
    if known is None:
        setting.check_new(streams, separate=separate)
    elif known.text == setting.text:
        return setting
    else:
        setting.check_change(known, change=change is not False)
        before = read_domain(known.text, store)
        if (before.grows or setting.domain.grows) and not before.same_rows(setting.domain):
            raise OptionError(
                "amounts, and values that are discovered, are not changed into others: use another `name`."
            )
        _check_classes(setting, known, store)
        following = _following(setting, store)
        if following is not None:
            first = _first(setting, store, change, following)
            recoded = _recoded(setting, store, first)
    _check_ledger(setting, store, streams)
    _check_quota(setting, store, streams)
    return enter(setting, session, signer, first, recoded)


def keep_domain(given: StreamOptions, store: Store) -> StreamOptions:
    """Return options with the domain that a stream has reached, where it grows: who opens it names its kind alone."""
    text = store.streams().get(given.name)
    if text is None or not given.domain.grows:
        return given
    reached = read_domain(text, store)
    return replace(given, domain=reached) if given.domain.same_rows(reached) else given


def enter(
    setting: StreamOptions,
    session: LedgerSession,
    signer: Signer | None,
    first: int,
    recoded: Schedule[Integers] | None,
) -> StreamOptions:
    """Write options into the chain and the store, from a first slot on, with the bins that open slots have then."""
    facts: Entry = {"kind": "options", "stream": setting.name, "options": setting.to_options(), "program": PROGRAM}
    if first != BEGINNING:
        facts["from"] = first
    link = extend(session.store.head(), facts, signer)
    domain = (setting.domain.digest, canonical(describe(setting.domain)))
    with session.writing():
        session.store.declare(setting.name, setting.text, domain, link, first, recoded)
    return setting


def stop(newest: StreamOptions, session: LedgerSession, signer: Signer | None) -> StreamOptions:
    """Enter that a stream ends before the slot that would be released next; returns its options from there on.

    It is a change of options like any other: one entry of the chain, in one transaction with the erasure of what was
    kept for open slots. Which slot is the first that is never released follows from what was released. Accounts stay as
    they are: what was spent stays spent, and a quota stays the stream's.
    """
    session.settle()
    store = session.store
    if newest.end is not None:
        raise StateError(STOPPED)
    known = declared(store.streams())[newest.name]
    if known.end is not None:  # it was entered, and the answer was lost
        return replace(newest, end=known.end)
    end = _following(newest, store)
    if end is None:
        raise OptionError("a stream is stopped after its first slot: this one has no beginning yet.")
    nothing = (
        store.options(newest.name).since(end).of_each(lambda text: np.full(read_domain(text, store).row_codes, -1))
    )
    return enter(replace(newest, end=end), session, signer, end, nothing)


def _following(setting: StreamOptions, store: Store) -> int | None:
    """Return the slot after the last that is paid for; None if none is, and the first one was not declared."""
    pending, reached = store.pending(setting.name), store.reached(setting.name)
    if pending is not None:
        return pending.slot + 1
    return setting.start if reached is None else reached[0] + 1


def _first(setting: StreamOptions, store: Store, change: Change, following: int) -> int:
    """Return the slot with which a change begins: a function of public facts alone."""
    slots, stated = setting.slots, store.options(setting.name)
    if change == "next" or (change is True and slots is None):
        first = following
    elif slots is None:
        raise OptionError("`change` names a time, and the stream has no clock: say `change=True`.", options=("change",))
    elif change is True:
        first = max(following, slots.at(slots.instant(datetime.now(UTC))) + 1)
    else:
        assert not isinstance(change, bool)  # noqa: S101 - without a change nothing begins
        first = slots.boundary(change, "change")
        if first < following:
            raise OptionError(
                "`change` must not be before the slot that is released next, which begins at "
                f"{slots.start(following).isoformat()}.",
                options=("change",),
            )
    unreleased = following if store.pending(setting.name) is None else following - 1
    if first > unreleased:
        for _, text in stated.since(unreleased, first).entries:
            before = make_earlier(setting, text, store)
            if lacks_key(before.domain):
                raise StateError(
                    "slots that are not released yet have a hashed domain whose key is not here: release them first, "
                    "or begin the change with the slot that is released next."
                )
            if isinstance(before.mechanism, Forgotten):
                raise StateError(
                    "slots that are not released yet have options that this program cannot make again: release them "
                    "with the options they were declared with, or begin the change with the slot that is released next."
                )
    return first


def _recoded(setting: StreamOptions, store: Store, first: int) -> Schedule[Integers] | None:
    """Return the new bins of what is kept for slots from the first on, in the bins of the domains they had."""
    before = store.options(setting.name).since(first)
    if all(read_domain(text, store).same_rows(setting.domain) for _, text in before.entries):
        return None
    return before.of_each(lambda text: recoding(read_domain(text, store), setting.domain))


def _check_classes(setting: StreamOptions, known: DeclaredOptions, store: Store) -> None:
    """Refuse to begin, or to cease, to measure users by class: what was spent by class is not what slots cost."""
    before, by_class = make_earlier(setting, known.text, store), setting.classes > 1
    if not isinstance(before.mechanism, Forgotten):
        by_class = before.classes > 1
    elif store.reached(setting.name) is not None:
        by_class = store.bounds(setting.name) is not None
    if by_class != (setting.classes > 1):
        raise OptionError("a stream measures users by class from its first slot on, or never: use another `name`.")


def _check_ledger(setting: StreamOptions, store: Store, streams: Mapping[str, DeclaredOptions]) -> None:
    """Refuse a ledger of another promise, before anything is said in the chain."""
    if not isinstance(setting.budget, Ledger):
        return
    described = setting.budget.accounts(setting.epsilon, store.key).description
    others = [each for name, each in streams.items() if name != setting.name and each.ledger == setting.ledger]
    for each in others:
        if each.epsilon != setting.epsilon:
            raise OptionError(
                other_epsilon(each.epsilon, setting.epsilon) + " Streams of a store share it, unless one has "
                "`separate=True`.",
                options=("epsilon", "separate"),
            )
    if store.ledgers().get(str(setting.accounts), described) != described:
        raise OptionError(
            "`policy` and `period` must be those of the ledger that streams share; a `policy` that is left out is the "
            "ledger's.",
            options=("policy", "period"),
        )
    if any(each.ids != setting.ids for each in others):
        raise OptionError(
            f"`ids` must be {others[0].ids}, as of the streams that share the accounts: one person would have two. Use "
            "it, or say `separate=True`.",
            options=("ids", "separate"),
        )
    if others and any(period is not None for period in (setting.period, *(each.period for each in others))):
        raise OptionError(
            "accounts with a `period` serve one stream: others would count their epochs differently.",
            options=("period",),
        )


def _check_quota(setting: StreamOptions, store: Store, streams: Mapping[str, DeclaredOptions]) -> None:
    """Refuse a quota that shrinks, or that takes what is another's or may be spent (`dpi.budget.billing`)."""
    if setting.quota is None:
        return
    known = streams.get(setting.name)
    before = 0 if known is None else known.held
    if setting.ledger != "":
        raise OptionError("a `quota` is a part of the ε that streams of a store share: leave out `separate`.")
    if setting.held.units < before:
        raise OptionError("a `quota` never shrinks: what it had may be spent.", options=("quota",))
    pool = [each for each in streams.values() if each.ledger == setting.ledger]
    free = setting.epsilon.units
    if pool:
        spent = sum(_most_spent(store, each.name) for each in pool if each.quota is None)
        free = assignable(rest_of(pool[0], streams), spent)
    if setting.held.units - before > free:
        raise OptionError(
            f"`quota` asks for {(setting.held.units - before) / UNITS:g} of ε = {float(setting.epsilon):g}, and "
            f"{free / UNITS:g} is in no other quota and not spent by streams without one.",
            options=("quota",),
        )


def _most_spent(store: Store, stream: str) -> int:
    """Return what a stream can have cost one user, in units, with a slot paid for and not yet released: public."""
    reached, pending = store.reached(stream), store.pending(stream)
    spent = 0 if reached is None else reached[1]
    return spent if pending is None else pending.spent_after(spent)
