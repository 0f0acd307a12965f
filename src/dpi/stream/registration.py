"""Entering a stream, or a change of its options, into the chain of a store.

Sees public options and what a store says of its streams; no event and no account.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpi.budget.ledger import Ledger
from dpi.certificates.chain import canonical, extend
from dpi.certificates.declared import DeclaredOptions, declared
from dpi.certificates.signature import Signer
from dpi.domain.file import describe
from dpi.errors import OptionError, StateError
from dpi.noise import RandomSource
from dpi.store.bank import Bank
from dpi.store.base import Store
from dpi.stream.options import StreamOptions
from dpi.stream.state import PROGRAM, StreamState


def declare(
    setting: StreamOptions, bank: Bank, signer: Signer | None, source: RandomSource, *, separate: bool, change: bool
) -> None:
    """Enter the stream, or a change of its options, unless the store has it just so, in whichever format."""
    bank.settle()
    store = bank.store
    streams = declared(store.streams())
    known = streams.get(setting.name)
    if known is None:
        setting.check_new(streams, separate=separate)
    elif known.stated == setting.to_options(known.format):
        return
    else:
        setting.check_change(known, change=change)
        if store.pending(setting.name) is not None:
            raise StateError("a slot is paid and not yet released: open the stream once with its old options.")
    _check_ledger(setting, store, streams)
    facts = {"kind": "options", "format": 2, "stream": setting.name, "options": setting.to_options()}
    link = extend(store.head(), {**facts, "program": PROGRAM}, signer)
    domain = (setting.domain.digest, canonical(describe(setting.domain)))
    before, after = None if known is None else store.progress(setting.name), None
    if known is not None and before is not None:
        after = StreamState.initial(setting, source).changed(before, setting.different(known))
    with bank.writing():
        store.declare(setting.name, setting.text, domain, link, after)


def _check_ledger(setting: StreamOptions, store: Store, streams: Mapping[str, DeclaredOptions]) -> None:
    """Refuse a ledger of another promise, before anything is said in the chain."""
    if not isinstance(setting.budget, Ledger):
        return
    described = setting.budget.accounts(setting.epsilon, store.key).description
    if store.ledgers().get(str(setting.ledger), described) != described:
        raise OptionError(
            "`epsilon`, `policy` and `period` must be those of the ledger that streams share.",
            options=("epsilon", "policy", "period"),
        )
    others = [options for name, options in streams.items() if name != setting.name]
    if setting.period is not None and any(options.ledger == setting.ledger for options in others):
        raise OptionError(
            "accounts with a `period` serve one stream: others would count their epochs differently.",
            options=("period",),
        )
