"""A store that is older than its witness: refused, or charged by name for what it has forgotten.

**Charging.** Let L be the sum of ε_t over the lost slots, which the witness knows. Every account, future ones included,
is charged L. A user's true spending is what the old copy says plus at most L, so after the charge no account has more
left than it truly has, and the promise holds as if nothing had been lost. That L is all that is missing needs a store
that has released nothing since the copy was made; a store that was under its witness then cannot have (see
`dpi.store.witness`), any other is refused. Between keeping a release and telling the witness of it, a store is one slot
ahead: should another file have told the witness first, that release stays in this one, and is handed to nobody. So a
store keeps how much of its chain the witness has seen, and one with a release beyond that is refused as well.

Lost slots stay released as they were: the streams go on after them. A tree
of sums is planted anew: the open nodes of the copy hold noise that was released since with other counts, and the
difference of two sums with the same noise would be exact. Where options have changed over the lost slots, estimator and
sums start anew. A converging series in order goes on after the elements that were drawn; one drawn at random does not
know which were, so it cannot go on.

**By class.** Where users pay by class, L is for each account what the lost slots can have taken from its own class and
amount. Which classes they asked followed from releases that are lost, so that any may have been due in each of them,
for the largest share that the witness has seen of it (`dpi.budget.classes.most_taken`). The account's record says so,
and future accounts are charged as newcomers. Nobody changes class: who truly has, pays once more as of the old one,
of what the charge has left. That this has happened after a slot is kept with the bounds, and in the witness.

**With quotas** all of this is of each stream's own accounts, and of those of the rest. A copy from before a quota grew
is refused: in it the difference is in the rest, where it would be spent a second time.
"""

from __future__ import annotations

import json
from dataclasses import replace

from dpi.budget.charge import LostSlots
from dpi.budget.class_allocation import read_snapshot, with_bounds
from dpi.certificates.chain import Entry, extend
from dpi.certificates.declared import DeclaredOptions, declared
from dpi.certificates.signature import Signer
from dpi.errors import OptionError, StateError
from dpi.store.base import Checkpoint, Levy, Store
from dpi.store.ledger_session import stored_accounts
from dpi.store.witness import Seen


def refuse(store: Store, seen: Seen) -> None:
    """Raise, saying what to do."""
    raise StateError(
        f"the store is an old copy: its chain ends at entry {store.head().sequence}, but entry {seen.sequence} was "
        "published. Put the newest copy back; or open it with `charge_lost=True`, which charges every account for the "
        "lost slots.",
        options=("charge_lost",),
    )


def refuse_unsigned(store: Store, signer: Signer | None) -> None:
    """Raise if the chain is signed and the entry about the restoration would not be: it could never be verified."""
    newest = store.head().sequence
    if signer is None and newest >= 0 and store.link(newest).signature is not None:
        raise OptionError(
            "the chain of this store is signed, and so is what it says of lost slots: give its private key, which a "
            "service keeps as `signing.pem`, with `--sign` (`signer` in Python)."
        )


def charge(store: Store, seen: Seen, signer: Signer | None = None) -> None:
    """Charge every account for the lost slots, and say so in the chain."""
    if store.head().sequence >= seen.sequence:
        raise StateError(
            "the store and its witness have different histories: the sum of what accounts have spent is not known. Put "
            "the newest copy back, or start a new store."
        )
    refuse_unsigned(store, signer)
    _check_confirmed(store)
    _check_quotas(store, seen)
    progress: dict[str, Checkpoint] = {}
    lost: dict[str, dict[str, LostSlots]] = {}
    for name, last in seen.last.items():
        if name not in store.streams():
            raise StateError(f"the stream {name!r} began after this copy was made: start a new store.")
        here, ledger = store.progress(name), DeclaredOptions.from_text(store.streams()[name]).accounts
        if here is None:
            raise StateError(f"the stream {name!r} had no release when this copy was made: start a new store.")
        gone, bounds, spent = range(here.last + 1, last + 1), read_snapshot(here.allocation)[0], seen.spent[name]
        allocation = here.allocation if ledger is not None else _skip(here.allocation, len(gone))
        again = tuple(seen.restored.get(name, ()))
        if bounds is not None:
            held = DeclaredOptions.from_text(store.options(name).at(last)).held
            bounds = bounds.grown(held).after_lost(gone, seen.largest.get(name, ()), again)
            allocation, spent = with_bounds(here.allocation, bounds), bounds.most_spent
        if ledger is not None:
            largest = None if bounds is None else bounds.largest
            lost.setdefault(ledger, {})[name] = LostSlots(gone, spent - here.spent, largest, again)
        progress[name] = replace(here, last=last, spent=spent, allocation=allocation, tree=b"")
        if store.options(name).at(here.last) != store.options(name).at(last):
            kept = "" if bounds is None else allocation  # nobody's payments are forgotten
            progress[name] = replace(progress[name], allocation=kept, mechanism=bytes, accumulated=b"")
    levies, charges = {}, {}
    for ledger, streams in lost.items():
        slot = max(progress[name].last for name in streams)
        if any(each.largest is not None for each in streams.values()):
            units, charges[ledger] = stored_accounts(store, ledger).charge_lost(streams, slot)
        else:
            units = sum(each.units for each in streams.values())
        levies[ledger] = Levy(slot, units)
    facts: Entry = {
        "kind": "restored",
        "lost_head": seen.digest,
        "lost_sequence": seen.sequence,
        "last": seen.last,
        "spent_units": {name: at.spent for name, at in progress.items()},
        "charged_units": {name: levy.units for name, levy in levies.items()},
    }
    if seen.largest:
        facts |= {"largest_shares": seen.largest, "restored_before": seen.restored}
    store.restored(levies, progress, extend(store.head(), facts, signer), charges)


def _check_confirmed(store: Store) -> None:
    """Refuse a copy with a release that its witness may have refused: its slot was then released by another file."""
    for sequence in range(store.confirmed + 1, store.head().sequence + 1):
        if store.link(sequence).entry["kind"] == "release":
            raise StateError(
                "this copy has a release that its witness is not known to have seen: another copy may have released "
                "the same slot. Put another copy back, or start a new store."
            )


def _check_quotas(store: Store, seen: Seen) -> None:
    """Refuse a copy from before a quota grew: what it got lies in the rest there, and would be spent again."""
    streams = declared(store.streams())
    for name, units in seen.quotas.items():
        if name in streams and streams[name].held < units:
            raise StateError(f"the quota of stream {name!r} grew after this copy was made: start a new store.")


def _skip(allocation: str, slots: int) -> str:
    """Return a converging series after the elements of the lost slots."""
    saved = json.loads(allocation)
    if not saved["rule"].startswith("in order "):
        raise StateError("a series drawn at random does not know what was drawn in the lost slots: start a new store.")
    return json.dumps({**saved, "state": saved["state"] + slots})
