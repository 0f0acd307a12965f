"""Entering a stream, or a change of its options, into the chain of a store.

Sees public options and what a store says of its streams; no event and no account.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from dpi.budget.options import Ledger
from dpi.chain import canonical, extend
from dpi.course import PROGRAM, Course
from dpi.domain_file import describe
from dpi.errors import OptionError, StateError
from dpi.noise import Source
from dpi.setting import Options, Setting
from dpi.signature import Signer
from dpi.store.base import Store


def streams_of(store: Store) -> dict[str, Options]:
    """The options of all streams of a store, by name."""
    return {name: json.loads(text) for name, text in store.streams().items()}


def declare(
    setting: Setting, store: Store, signer: Signer | None, source: Source, *, separate: bool, change: bool
) -> None:
    """Enter the stream, or a change of its options, unless the store has it just so."""
    streams = streams_of(store)
    known = streams.get(setting.name)
    if known is None:
        setting.check_new(streams, separate=separate)
    elif known == setting.options():
        return
    else:
        setting.check_change(known, change=change)
        if store.pending(setting.name) is not None:
            raise StateError("a slot is paid and not yet released: open the stream once with its old options.")
    _check_ledger(setting, store, streams)
    facts = {"kind": "options", "format": 1, "stream": setting.name, "options": setting.options()}
    link = extend(store.head(), {**facts, "program": PROGRAM}, signer)
    domain = (setting.domain.digest, canonical(describe(setting.domain)))
    before, after = None if known is None else store.progress(setting.name), None
    if known is not None and before is not None:
        after = Course.initial(setting, source).changed(before, setting.different(known))
    store.declare(setting.name, setting.text, domain, link, after)


def _check_ledger(setting: Setting, store: Store, streams: Mapping[str, Options]) -> None:
    """Refuse a ledger of another promise, before anything is said in the chain."""
    if not isinstance(setting.budget, Ledger):
        return
    described = setting.budget.accounts(setting.epsilon, store.key).description
    if store.ledgers().get(str(setting.ledger), described) != described:
        raise OptionError("`epsilon`, `policy` and `period` must be those of the ledger that streams share.")
    others = [options for name, options in streams.items() if name != setting.name]
    if setting.period is not None and any(options["ledger"] == setting.ledger for options in others):
        raise OptionError("accounts with a `period` serve one stream: others would count their epochs differently.")
