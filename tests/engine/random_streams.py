"""Random streams that every engine must close in the same way: late, doubled and disordered events, ids of both kinds.

Ten kinds of streams, each with random users, times and values; what is fed, and when, is a function of the seed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import dpi
from dpi.budget.account_records import merged
from dpi.noise import UnsafeSeededSource
from dpi.store import Store
from dpi.store.sql import SQLStore
from dpi.verification import check_accounts, verify

DOMAIN = dpi.Categories([f"v{number}" for number in range(6)], other="else")
WIDER = dpi.Categories([f"v{number}" for number in range(9)], other="else")
KEY = bytes(range(32))
SLOTS = 4
STREAMS: dict[str, dict[str, object]] = {
    "clocked": {"budget": dpi.Ledger(policy=dpi.budget.clocked(3))},
    "default": {},
    "spend first": {"budget": dpi.Ledger(policy=dpi.budget.spend_first)},
    "per slot": {"budget": dpi.Ledger(per_slot="0.3")},
    "refilled": {"budget": dpi.Ledger(per_slot="0.6", period=2)},
    "fading": {"budget": dpi.Ledger(per_slot="0.2", every=2, policy=dpi.budget.fade())},
    "converging": {"budget": dpi.Converging(dpi.budget.Zeta(2), draw=dpi.budget.RBA(4.0))},
    "whole pdf": {"budget": dpi.Ledger(per_slot="0.3"), "compression": dpi.histogram.whole_pdf},
    "truncate": {"budget": dpi.Ledger(per_slot="0.3"), "compression": dpi.histogram.truncate(2, KEY)},
    "tree": {"budget": dpi.Ledger(per_slot="0.3"), "accumulate": dpi.stream.PrefixTree(per_slot="0.1", arity=2)},
}
STREAMS["whole pdf"]["mechanism"] = dpi.Published(dpi.mechanism.published.Multinomial(8, 6))


def opened(kind: str, seed: int, store: Store, **options: object) -> dpi.Stream:
    """A stream of a kind, with noise that is a function of the seed."""
    default = {
        "domain": DOMAIN,
        "epsilon": 1,
        "slot": "1h",
        "lateness": "10m",
        "start": "2026-01-01T00:00",
        "unsafe_source": UnsafeSeededSource(seed),
    }
    return dpi.Stream(store=store, **(default | STREAMS[kind] | options))


def batches(seed: int, slot: int) -> Iterator[tuple[list[object], list[str], list[object], str, int]]:
    """What arrives in an hour, in three batches: users, times, values, when, and the sequence; one comes twice."""
    rng = np.random.default_rng([seed, slot])
    numbers = rng.integers(0, 60, 12).tolist()
    for part in range(3):
        size = int(rng.integers(0, 80))
        users: list[object] = []
        for kind in rng.integers(0, 5, size):
            number = numbers[int(rng.integers(len(numbers)))] if kind else int(rng.integers(0, 400))
            users.append([number, str(number), f"user {number}", f"{number}.0", None][int(rng.integers(0, 5))])
        users += ["busy"] * int(rng.integers(0, 40))
        minutes = rng.integers(-90, 90, len(users))  # late, from the future, out of order
        at = np.datetime64("2026-01-01T00:00") + np.timedelta64(60 * slot, "m")
        times = [str(at + np.timedelta64(int(minute), "m")) for minute in minutes]
        values: list[object] = [None if n == 11 else f"v{n}" for n in rng.integers(0, 12, len(users))]
        now, sequence = f"2026-01-01T{slot:02d}:{20 * part + 15:02d}", 3 * slot + part
        yield users, times, values, now, sequence
        if rng.integers(0, 2):
            yield users, times, values, now, sequence  # delivered twice


def run(stream: dpi.Stream, seed: int, slots: range = range(SLOTS)) -> None:
    """Feed a stream hour by hour, and release what the clock closes."""
    for slot in slots:
        for users, times, values, now, sequence in batches(seed, slot):
            stream.append(users, times, values, now=now, producer="p", sequence=sequence)
        list(stream.advance(now=f"2026-01-01T{slot + 1:02d}:12"))


def outcome(store: SQLStore) -> dict[str, object]:
    """Everything that engines must agree on; under equal noise, measurements are equal if histograms are."""
    return {
        "ledgers": {name: merged(store.load_ledger(name, text)[0]).hex() for name, text in store.ledgers().items()},
        "payments": {name: merged(store.payments(name)).hex() for name in store.streams()},
        "measurements": {name: [each.values.hex() for each in store.measurements(name)] for name in store.streams()},
        "trees": {name: _tree(store, name) for name in store.streams()},
        "releases": {name: [content.hex() for content, _ in store.releases(name)] for name in store.streams()},
        "chain": [link.text for link in store.links()],
        "problems": [*verify(store).problems, *check_accounts(store)],
    }


def _tree(store: SQLStore, name: str) -> str:
    at = store.progress(name)
    return "" if at is None else at.tree.hex()
