"""What a stream promises, in words: the sentence that stands on every release.

Sees public options of the streams of a store; nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpi.budget.epsilon import UNITS
from dpi.budget.odds import odds
from dpi.certificates.declared import DeclaredOptions, rest_of
from dpi.stream.options import StreamOptions


def guarantee(options: StreamOptions, streams: Mapping[str, DeclaredOptions]) -> str:
    """What is promised for one stream, given all streams of its store."""
    unit = "for ever" if options.period is None else f"per epoch of {options.period} slots"
    kept = "a converging series" if options.ledger is None else "accounts of every user"
    pools = {declared.pool: declared for declared in streams.values()}
    scope, total = "this stream" if len(streams) == 1 else "all streams of this store together", ""
    if len(pools) > 1:
        scope = "this stream alone" if options.ledger != "" else "the streams of the shared ledger together"
        total = f" All streams of this store sum to {_sum(list(pools.values()))}."
    means = odds(float(options.epsilon), epochs=options.period is not None)
    return (
        f"Pure differential privacy, ε = {float(options.epsilon):g} per user {unit}, for {scope}; "
        f"neighbours differ in all events of one user. {means} Kept by {kept}.{_quotas(options, streams)}{total}"
    )


def _quotas(options: StreamOptions, streams: Mapping[str, DeclaredOptions]) -> str:
    """What this stream has of an ε that is shared by quotas."""
    if options.quota is not None:
        return f" This stream has a quota of {float(options.held):g} of it, and takes no more from anybody."
    others = [each for each in streams.values() if each.quota is not None and each.ledger == options.ledger]
    left = f"{rest_of(others[0], streams) / UNITS:g}" if others else ""
    return f" Other streams have quotas of it; this one takes at most the {left} that are left." if others else ""


def assuming(promise: str, assumption: str) -> str:
    """The promise with what the curator declared and no program can check."""
    return promise + (f" Assumed: {assumption}." if assumption else "")


def _sum(pools: Sequence[DeclaredOptions]) -> str:
    """What pools of budget cost a user together: what is lost for ever, and what every epoch of each other adds."""
    kept = [options.epsilon.units for options in pools if options.period is None]
    parts = [(sum(kept), "for ever")] if kept else []
    for options in pools:
        if options.period is not None:
            stream = f"stream '{options.name}'" if options.name else "the stream without a name"
            parts.append((options.epsilon.units, f"per epoch of {options.period} slots of {stream}"))
    (first, unit), *others = [(f"{units / UNITS:g}", unit) for units, unit in parts]
    return ", and ".join([f"{first} per user {unit}", *(f"{amount} more {unit}" for amount, unit in others)])
