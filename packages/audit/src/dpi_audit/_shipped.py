"""Every mechanism that DPI ships, as something to audit: how to open it, which values it takes, what to expect.

`tight` says that the proof's bound is met by some neighbours, so the worst found should be at least nine tenths of the
claim. Where it is not, `note` says what part of the budget buys nothing, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import dpi
from dpi.noise import SystemSource
from dpi.testing.class_sums import ClassSums, SharedSums
from dpi_audit._distinguishers import Floats
from dpi_audit.empirical import BlackBox
from dpi_audit.exact import Finding, Open
from dpi_audit.neighbours import Family, Neighbours, Rows, alone, giant
from dpi_audit.samplers import exponential_loss, noise_loss, permute_and_flip_loss
from dpi_audit.session import DeclaredCounts, MakeStream, SeveralStreams
from dpi_audit.small import (
    AMOUNTS,
    EPSILON,
    FLOOR_BINS,
    UNIVERSE,
    VALUES,
    ChangedSession,
    bin_names,
    discovery_session,
    growing_session,
    stored_session,
    stream,
    stream_session,
    tight_published,
    tight_questions,
    tight_with_floor,
)


@dataclass(frozen=True)
class Shipped:
    """A mechanism that must hold what it claims."""

    name: str
    open: Open
    values: Sequence[object] = VALUES
    tight: bool = True
    one_sided: bool = False
    """Whether the two directions of a pair lose differently, so that both are tried."""
    also: tuple[Family, ...] = ()
    """Neighbours that are tried in the quick form too, because others do not reach the bound."""
    note: str = ""


def _stream(
    name: str, note: str = "", *, tight: bool = True, also: tuple[Family, ...] = (), **options: object
) -> Shipped:
    return Shipped(name, stream_session(**options), tight=tight, also=also, note=note)


def _published(
    name: str, mechanism: dpi.Published, note: str = "", *, tight: bool = True, bins: int = 3, **options: object
) -> Shipped:
    names = bin_names(bins)
    opened = stream_session(mechanism=mechanism, domain=dpi.Categories(names, other=None), **options)
    return Shipped(name, opened, names, tight, one_sided=True, note=note)


def _open_two(*options: dict[str, object]) -> Open:
    """Return how to open two streams with one ledger."""

    def open_both() -> SeveralStreams:
        store, named = dpi.MemoryStore(), zip(("visits", "orders"), options, strict=True)
        return SeveralStreams([stream(store=store, name=name, **each) for name, each in named], EPSILON)

    return open_both


CLOCKED = dpi.Ledger(policy=dpi.budget.clocked(top=4))
ZETA_2 = dpi.budget.Zeta(2)
COUNTED = stream(budget=dpi.Converging(ZETA_2))
BY_CLASS: dict[str, object] = {"budget": CLOCKED, "mechanism": ClassSums()}
BY_COST: dict[str, object] = {"budget": dpi.Ledger(per_slot="0.15")}
SEVEN_HUNDREDTHS = dpi.Ledger(per_slot="0.07")

STREAMS: tuple[Shipped, ...] = (
    _stream("boosted, ledger 0.05 a slot"),
    _stream("boosted, ledger 0.07 a slot", budget=SEVEN_HUNDREDTHS),
    _stream("boosted, ledger", budget=dpi.Ledger(), mechanism=dpi.Boosted()),
    _stream("boosted, ledger spent first", budget=dpi.Ledger(policy=dpi.budget.spend_first), mechanism=dpi.Boosted()),
    _stream("boosted, ledger every 5th slot", budget=dpi.Ledger(slots=20, every=5)),
    _stream(
        "boosted, ledger that fades",
        "weights of 1/j² add up to 1.6 slots of 0.25; the rest of ε stays on the account for slots to come",
        budget=dpi.Ledger(per_slot="0.25", policy=dpi.budget.fade()),
        tight=False,
    ),
    _stream("sums by class, clocked ledger", budget=CLOCKED, mechanism=ClassSums()),
    _stream("sums of shared histograms, clocked ledger", budget=CLOCKED, mechanism=SharedSums()),
    _stream("boosted, ledger in epochs of 6 slots", "ε per epoch", budget=dpi.Ledger(per_slot="0.3", period=6)),
    _stream("boosted, three events a user", also=(giant,), compression=dpi.histogram.truncate(3, bytes(range(32)))),
    _stream("boosted, Spence in order", budget=dpi.Converging(dpi.budget.Spence(mu=0.1, zeta=0.1))),
    _stream("boosted, Zeta(2) in order", budget=dpi.Converging(ZETA_2)),
    _stream("boosted, LogSquared in order", budget=dpi.Converging(dpi.budget.LogSquared())),
    _stream("boosted, Geometric in order", budget=dpi.Converging(dpi.budget.Geometric(0.9))),
    _stream("boosted, Zeta(2) by RBA", budget=dpi.Converging(ZETA_2, dpi.budget.RBA(4))),
    _stream(
        "boosted, Zeta(2) by RBA(1e8)",
        "the published Λ spends almost nothing: the claim is what was drawn, not ε",
        budget=dpi.Converging(ZETA_2, dpi.budget.RBA(1e8)),
    ),
    _stream("boosted, Zeta(2) by ranges", budget=dpi.Converging(ZETA_2, dpi.budget.RBA.ranges(0.1, 0.01))),
    _published("published, one query", tight_published(3)),
    _published("published, one query, accumulative", tight_published(3, accumulative=True)),
    _published("published, floor of 50 users", tight_with_floor(), bins=FLOOR_BINS),
    _published(
        "published, three queries",
        tight_questions(3),
        "half of the budget buys the choice of queries, which a user moves all alike here: its two halves cancel",
        tight=False,
    ),
    _published(
        "published, multinomial pool, 4 draws",
        dpi.Published(dpi.mechanism.published.Multinomial(32, 20), draws=4, total_share=0.2),
        "no synopsis of a random pool gains what all others lose; the bound is for the worst pool",
        tight=False,
    ),
    _published("published, whole PDFs", tight_published(3), compression=dpi.histogram.whole_pdf),
    Shipped("boosted, amounts summed by user", stream_session(domain=dpi.Amounts(1)), values=AMOUNTS, also=(giant,)),
    Shipped("discovery over all texts, ledger 0.05 a slot", discovery_session(), one_sided=True),
    Shipped("discovery for ever beside what was found, ledger 0.05 a slot", growing_session(), one_sided=True),
    Shipped("two streams with one ledger", _open_two(BY_COST, BY_COST)),
    Shipped(
        "two streams with one clocked ledger",
        _open_two(BY_CLASS, BY_CLASS),
        tight=False,
        note="the claim is ε, of which a clocked account always keeps some",
    ),
    Shipped("a stream by class and one with a cost, one ledger", _open_two(BY_CLASS, BY_COST)),
    Shipped(
        "boosted, declared counts, Zeta(2) in order",
        lambda: DeclaredCounts(COUNTED, VALUES, per_user=400),
        tight=False,
        also=(giant,),
        note="a user who adds less than declared loses less; the declaration itself cannot be audited",
    ),
    Shipped("boosted, restarted after every 5 slots", stream_session(5, budget=SEVEN_HUNDREDTHS)),
    Shipped("boosted, in a store on disk, reopened after every 5 slots", stored_session(5, budget=SEVEN_HUNDREDTHS)),
    Shipped("boosted, another domain in every second slot, while that is open", ChangedSession),
    Shipped("sums by class, in a store on disk, reopened after every 5 slots", stored_session(5, **BY_CLASS)),
)


DRAWS: dict[str, Callable[[], Finding]] = {
    "discrete Laplace noise": noise_loss,
    "exponential mechanism": exponential_loss,
    "permute-and-flip": permute_and_flip_loss,
}
"""Shipped samplers, by name: their laws are read off their own draws."""


def black_box(make: MakeStream, neighbours: Neighbours) -> BlackBox:
    """Return runs of whole streams with the system's randomness: released PDFs and totals of every slot."""

    def one_run(slots: Sequence[Rows]) -> list[float]:
        opened = make(lambda mechanism: mechanism)
        releases = [opened.release([user for user, _ in rows], [value for _, value in rows]) for rows in slots]
        return [number for release in releases for number in (*release.pdf.tolist(), release.total)]

    return _repeat(one_run, neighbours)


def _discovery_box(epsilon: int, neighbours: Neighbours) -> BlackBox:
    """Return runs of a discovery with the system's randomness: what every slot shows of every text, or zero."""

    def one_run(slots: Sequence[Rows]) -> list[float]:
        store = dpi.MemoryStore()
        opened = dpi.Discovery(texts=UNIVERSE, epsilon=epsilon, quota=1, slots=len(slots), failure=1, store=store)
        by_slot = [opened.release([user for user, _ in rows], [value for _, value in rows]).users for rows in slots]
        return [users.get(value, 0.0) for users in by_slot for value in VALUES]

    return _repeat(one_run, neighbours)


def _repeat(one_run: Callable[[Sequence[Rows]], list[float]], neighbours: Neighbours) -> BlackBox:
    def run(with_user: bool, runs: int) -> Floats:
        return np.array([one_run(neighbours.one if with_user else neighbours.other) for _ in range(runs)])

    return run


def _box(**options: object) -> BlackBox:
    make = stream(unsafe_source=SystemSource(), budget=dpi.Ledger(slots=1), **options)
    return black_box(make, alone(1, VALUES))


BOXES: tuple[tuple[str, float, BlackBox], ...] = (
    ("boosted, ledger, as a black box", 1.0, _box(mechanism=dpi.Boosted())),
    ("published, ledger, as a black box", 1.0, _box(mechanism=tight_published(3, size=2))),
    ("discovery over all texts, as a black box", 1.0, _discovery_box(1, alone(1, VALUES))),
)
"""Name, claimed ε, runs. The claim is small enough for the quick form to refute: 64 runs that all tell the streams
apart prove ε ≥ 1.2."""
