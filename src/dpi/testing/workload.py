"""Four streams on one store, with noise that is a function of stream and slot: a slot measured anew is the same.

Two streams share the ledger; the third has a random series of its own, the fourth a ledger whose users pay by class.
One of them is live (`append`, `advance`). The accounts run empty on the way, and one slot has no events.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TypedDict

from dpi.budget.account_records import merged
from dpi.budget.allocation import RBA
from dpi.budget.epsilon import Amount
from dpi.budget.ledger import Converging, Ledger
from dpi.budget.policy import clocked
from dpi.budget.series import Zeta
from dpi.domain import Categories, Domain
from dpi.mechanism.base import Mechanism
from dpi.noise import RandomSource, UnsafeSeededSource
from dpi.release import Release
from dpi.store import Store
from dpi.stream import Stream
from dpi.stream.prefix_tree import PrefixTree
from dpi.stream.slot_closer import Engine
from dpi.testing.class_sums import ClassSums
from dpi.verification import check_accounts, verify


class Options(TypedDict, total=False):
    """Some options of a stream."""

    domain: Domain
    epsilon: Amount
    budget: Ledger | Converging
    mechanism: Mechanism[object]
    accumulate: PrefixTree
    unsafe_source: RandomSource
    name: str
    separate: bool
    change: bool | str
    slot: str
    start: str


KEY = bytes(range(32))
DOMAIN = Categories(["DE", "FR", "IT"], other="elsewhere")
SLOTS = 4
CLOCK: Options = {"slot": "1h", "start": "2026-01-01T00:00"}
CLASS_SUMS: Mechanism[object] = ClassSums()  # type: ignore[assignment]
STREAMS: dict[str, Options] = {
    "visits": {"budget": Ledger(per_slot="0.3"), **CLOCK},
    "orders": {"budget": Ledger(per_slot="0.2"), "accumulate": PrefixTree(per_slot="0.1", arity=2)},
    "alone": {"budget": Converging(Zeta(2), draw=RBA(4.0)), "separate": True, "epsilon": 2},
    "members": {"budget": Ledger(policy=clocked(top=3)), "mechanism": CLASS_SUMS, "separate": True},
}


def open_streams(store: Store, engine: Engine | None = None) -> list[Stream]:
    """Open the streams of the workload, new or where they stopped; a tree is planted with the same noise each time."""
    default: Options = {"domain": DOMAIN, "epsilon": 1, "unsafe_source": UnsafeSeededSource(9)}
    return [
        Stream(store=store, engine=engine, **(default | options | {"name": name})) for name, options in STREAMS.items()
    ]


def seeded(stream: Stream, slot: int) -> None:
    """Give the stream the noise of this slot."""
    label = hashlib.blake2b(f"{stream.name}/{slot}".encode(), digest_size=6).digest()
    stream.driver.source = UnsafeSeededSource(int.from_bytes(label, "big"))


def events(name: str, slot: int) -> tuple[list[str], list[str]]:
    """Users and values of a slot: regulars, newcomers and one who does too much; none in slot 2 of the orders."""
    if (name, slot) == ("orders", 2):
        return [], []
    users = [f"regular {number}" for number in range(12)] + [f"{name} {slot} {number}" for number in range(5)]
    users += ["busy"] * 20
    return users, [["DE", "FR", "IT", "XX"][(len(user) + row) % 4] for row, user in enumerate(users)]


def close_slot(stream: Stream, slot: int) -> Release:
    """Release one slot; what a process did before it was killed is not done again."""
    users, values = events(stream.name, slot)
    if stream.name != "visits":
        seeded(stream, slot)
        return stream.release(users, values)
    half = len(users) // 2
    now, later = f"2026-01-01T{slot:02d}:30", f"2026-01-01T{slot + 1:02d}:00"
    for part, rows in enumerate((slice(0, half), slice(half, None))):
        stream.append(users[rows], [now] * len(users[rows]), values[rows], now=now, sequence=2 * slot + part)
    seeded(stream, slot)
    (release,) = stream.advance(now=later)
    return release


def run(store: Store, slots: int = SLOTS, engine: Engine | None = None) -> Iterator[Release]:
    """Go on with all streams until each has released its slots."""
    streams = open_streams(store, engine)
    for slot in range(slots):
        for stream in streams:
            first = 0 if stream.slots is None else stream.slots.boundary(CLOCK["start"], "start")
            if stream.next_slot - first <= slot:
                yield close_slot(stream, slot)


def outcome(store: Store) -> dict[str, object]:
    """Everything that two runs must agree on: ledgers, releases, certificates; and what the checks say."""
    ledgers = store.ledgers()
    return {
        "ledgers": {name: _sorted(store.load_ledger(name, options)[0]) for name, options in ledgers.items()},
        "payments": {name: _sorted(store.payments(name)) for name in store.streams()},
        "trees": {name: _tree(store, name) for name in store.streams()},
        "releases": {name: [content.hex() for content, _ in store.releases(name)] for name in store.streams()},
        "chain": [[link.text, link.digest] for link in store.links()],
        "problems": [*verify(store).problems, *check_accounts(store)],
    }


def _tree(store: Store, name: str) -> str:
    """Return the tree of sums of a stream."""
    progress = store.progress(name)
    return "" if progress is None else progress.tree.hex()


def _sorted(records: bytes) -> str:
    """Return a log of changes as the accounts it amounts to."""
    return merged(records).hex()
