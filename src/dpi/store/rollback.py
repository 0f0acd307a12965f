"""A store that is older than its witness: refused, or charged by name for what it has forgotten.

**Charging.** Let L be the sum of ε_t over the lost slots, which the witness knows. Every account, future ones included,
is charged L. A user's true spending is what the old copy says plus at most L, so after the charge no account has more
left than it truly has, and the promise holds as if nothing had been lost. That L is all that is missing needs a store
that has released nothing since the copy was made; a store that was under its witness then cannot have (see
`dpi.store.witness`), any other is refused. Lost slots stay released as they were: the streams go on after them. A tree
of sums is planted anew: the open nodes of the copy hold noise that was released since with other counts, and the
difference of two sums with the same noise would be exact. Where options have changed over the lost slots, estimator and
sums start anew. A converging series in order goes on after the elements that
were drawn; one drawn at random does not know which were, so it cannot go on.
"""

from __future__ import annotations

import json
from dataclasses import replace

from dpi.certificates.chain import extend
from dpi.certificates.declared import DeclaredOptions
from dpi.certificates.signature import Signer
from dpi.errors import StateError
from dpi.store.base import Checkpoint, Levy, Store
from dpi.store.witness import Seen


def lost(store: Store, seen: Seen) -> bool:
    """Whether the store does not contain what the witness saw."""
    if seen.sequence < 0:
        return False
    head = store.head()
    if head.sequence >= 0 and store.link(head.sequence).entry.get("lost_head") == seen.digest:
        return False  # charged for already: the process ended before it could tell the witness
    return head.sequence < seen.sequence or store.link(seen.sequence).digest != seen.digest


def refuse(store: Store, seen: Seen) -> None:
    """Raise, saying what to do."""
    raise StateError(
        f"the store is an old copy: its chain ends at entry {store.head().sequence}, but entry {seen.sequence} was "
        "published. Put the newest copy back; or open it with `charge_lost=True`, which charges every account for the "
        "lost slots.",
        options=("charge_lost",),
    )


def charge(store: Store, seen: Seen, signer: Signer | None = None) -> None:
    """Charge every account for the lost slots, and say so in the chain."""
    if store.head().sequence >= seen.sequence:
        raise StateError(
            "the store and its witness went different ways: what accounts have spent in both is not known. Put the "
            "newest copy back, or start a new store."
        )
    levies: dict[str, Levy] = {}
    progress: dict[str, Checkpoint] = {}
    for name, last in seen.last.items():
        if name not in store.streams():
            raise StateError(f"the stream {name!r} began after this copy was made: start a new store.")
        here, ledger = store.progress(name), DeclaredOptions.from_text(store.streams()[name]).ledger
        if here is None:
            raise StateError(f"the stream {name!r} had no release when this copy was made: start a new store.")
        units, slots = seen.spent[name] - here.spent, last - here.last
        if ledger is not None:
            before = levies.get(ledger, Levy(last, 0))
            levies[ledger] = Levy(max(last, before.slot), before.units + units)
        allocation = here.allocation if ledger is not None else _skip(here.allocation, slots)
        progress[name] = replace(here, last=last, spent=seen.spent[name], allocation=allocation, tree=b"")
        if store.options(name).at(here.last) != store.options(name).at(last):
            progress[name] = replace(progress[name], allocation="", mechanism=bytes, accumulated=b"")
    facts = {
        "kind": "restored",
        "format": 1,
        "lost_head": seen.digest,
        "lost_sequence": seen.sequence,
        "last": seen.last,
        "spent_units": seen.spent,
        "charged_units": {name: levy.units for name, levy in levies.items()},
    }
    store.restored(levies, progress, extend(store.head(), facts, signer))


def _skip(allocation: str, slots: int) -> str:
    """A converging series after the elements of the lost slots."""
    saved = json.loads(allocation)
    if not saved["rule"].startswith("in order "):
        raise StateError("a series drawn at random does not know what was drawn in the lost slots: start a new store.")
    return json.dumps({**saved, "state": saved["state"] + slots})
