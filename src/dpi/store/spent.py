"""The most that one user can lose, and can have lost: by one stream, and by all streams of a store together.

A certificate states what one stream has cost. Streams that share a ledger lose at most its ε together; what separate
ledgers and series cost is added. Sees options and certificates, which are public; no account.

In Coq: what a user has lost is at most this sum, `store_loses_what_verify_prints`, `proofs/Store.v`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from decimal import ROUND_CEILING, Context, Decimal
from typing import TYPE_CHECKING

from dpi.budget.epsilon import UNITS
from dpi.certificates.declared import DeclaredOptions, declared

if TYPE_CHECKING:
    from dpi.store.base import Store


def spent_by_all(streams: Mapping[str, DeclaredOptions], units: Mapping[str, int]) -> float:
    """Return the most that one user can have lost by all these streams, each of which can have cost so many units.

    *Why:* a ledger pays at most ε, and no stream took more than it states. One that is refilled has one stream alone.
    """
    pools: dict[tuple[str, str], int] = defaultdict(int)
    most: dict[tuple[str, str], int] = {}
    for name, cost in units.items():
        options = streams[name]
        pools[options.pool] += cost
        most[options.pool] = options.epsilon.units if options.period is None else cost
    return sum(min(most[pool], cost) for pool, cost in pools.items()) / UNITS


def spent_in(store: Store, seen: Mapping[str, int | None] | None = None) -> float:
    """Return the same for a store, by the newest certificate of each stream: of those up to the slots that are seen."""
    units = {}
    for name in store.streams():
        upto = None if seen is None else seen.get(name)
        extent = None if seen is not None and upto is None else store.extent(name, None, upto)
        if extent is not None:
            ((_, link),) = store.releases(name, extent[2], extent[2])
            stated = link.entry.get("epsilon_spent_units")
            units[name] = stated if isinstance(stated, int) else 0
    return spent_by_all(declared(store.streams()), units)


def sum_of(streams: Mapping[str, DeclaredOptions]) -> str:
    """Return what the ε of all these streams sum to, as a further sentence; nothing where they share one.

    What is lost for ever comes first, then what every epoch of each other pool adds.
    """
    pools = {options.pool: options for options in streams.values()}.values()
    if len(pools) < 2:
        return ""
    kept = [options.epsilon.units for options in pools if options.period is None]
    parts = [(sum(kept), "for ever")] if kept else []
    for options in pools:
        if options.period is not None:
            stream = f"stream '{options.name}'" if options.name else "the stream without a name"
            parts.append((options.epsilon.units, f"per epoch of {options.period} slots of {stream}"))
    (first, unit), *others = [(f"{units / UNITS:g}", unit) for units, unit in parts]
    each = ", and ".join([f"{first} per user {unit}", *(f"{amount} more {unit}" for amount, unit in others)])
    return f" All streams of this store sum to {each}."


def sentences(own: float, by_all: float, streams: int) -> str:
    """Return what one user can have lost, in words, with the sum over the store where it has several streams.

    >>> sentences(0.25, 0.3333333, 3)
    'By this stream no user can have lost more than 0.25 so far; by all 3 streams of this store together, 0.3334.'
    """
    together = "" if streams == 1 else f"; by all {streams} streams of this store together, {rounded_up(by_all)}"
    return f"By this stream no user can have lost more than {rounded_up(own)} so far{together}."


def rounded_up(amount: float) -> str:
    """Return an amount of ε with four digits, never below it."""
    return f"{float(Decimal(repr(amount)).normalize(Context(prec=4, rounding=ROUND_CEILING))):g}"
