"""Every mechanism that DPI ships, as something to audit: how to open it, which values it takes, what to expect.

`tight` says that the proof's bound is met by some neighbours, so the worst found should be at least nine tenths of the
claim. Where it is not, `note` says what part of the budget buys nothing, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import dpi
from dpi.mechanism.base import Mechanism
from dpi.noise import SystemSource
from dpi.testing.class_sums import ClassSums
from dpi_audit.changing import ChangedSession
from dpi_audit.discovering import discovery_box, discovery_session
from dpi_audit.distinguishers import Floats
from dpi_audit.draws import exponential_loss, noise_loss, permute_and_flip_loss
from dpi_audit.empirical import BlackBox
from dpi_audit.exact import Finding, Open
from dpi_audit.neighbours import Family, Neighbours, alone, giant
from dpi_audit.session import DeclaredCounts, MakeStream, SeveralStreams, StreamSession
from dpi_audit.small import EPSILON, VALUES, stream
from dpi_audit.stored import StoredSession
from dpi_audit.tight import FLOOR_BINS, tight_published, tight_questions, tight_with_floor, values


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
    return Shipped(name, lambda: StreamSession(stream(**options)), tight=tight, also=also, note=note)


def _published(
    name: str, mechanism: dpi.Published, note: str = "", *, tight: bool = True, bins: int = 3, **options: object
) -> Shipped:
    names = values(bins)
    make = stream(mechanism=mechanism, domain=dpi.Categories(names, other=None), **options)
    return Shipped(name, lambda: StreamSession(make), names, tight, one_sided=True, note=note)


def _two_streams() -> SeveralStreams:
    store, budget = dpi.MemoryStore(), dpi.Ledger(per_slot="0.15")
    makes = [stream(budget=budget, store=store, name=name) for name in ("visits", "orders")]
    return SeveralStreams(makes, EPSILON)


def _two_clocked() -> SeveralStreams:
    store = dpi.MemoryStore()
    makes = [stream(budget=CLOCKED, mechanism=ClassSums(), store=store, name=name) for name in ("visits", "orders")]
    return SeveralStreams(makes, EPSILON)


def _by_class_and_by_cost() -> SeveralStreams:
    store = dpi.MemoryStore()
    makes = [
        stream(budget=CLOCKED, mechanism=ClassSums(), store=store, name="visits"),
        stream(budget=dpi.Ledger(per_slot="0.15"), store=store, name="orders"),
    ]
    return SeveralStreams(makes, EPSILON)


CLOCKED = dpi.Ledger(policy=dpi.budget.clocked(top=4))
ZETA_2 = dpi.budget.Zeta(2)
COUNTED = stream(budget=dpi.Converging(ZETA_2))
SEVEN_HUNDREDTHS = dpi.Ledger(per_slot="0.07")
RESTARTED = stream(budget=SEVEN_HUNDREDTHS)

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
    Shipped("discovery over all texts, ledger 0.05 a slot", discovery_session(), one_sided=True),
    Shipped("two streams with one ledger", _two_streams),
    Shipped(
        "two streams with one clocked ledger",
        _two_clocked,
        tight=False,
        note="the claim is ε, of which a clocked account always keeps some",
    ),
    Shipped("a stream by class and one with a cost, one ledger", _by_class_and_by_cost),
    Shipped(
        "boosted, declared counts, Zeta(2) in order",
        lambda: DeclaredCounts(COUNTED, VALUES, per_user=400),
        tight=False,
        also=(giant,),
        note="a user who adds less than declared loses less; the declaration itself cannot be audited",
    ),
    Shipped("boosted, restarted after every 5 slots", lambda: StreamSession(RESTARTED, restart_every=5)),
    Shipped(
        "boosted, in a store on disk, reopened after every 5 slots",
        lambda: StoredSession(lambda store: stream(budget=SEVEN_HUNDREDTHS, store=store), restart_every=5),
    ),
    Shipped("boosted, another domain in every second slot, while that is open", ChangedSession),
    Shipped(
        "sums by class, in a store on disk, reopened after every 5 slots",
        lambda: StoredSession(
            lambda store: stream(budget=CLOCKED, mechanism=ClassSums(), store=store), restart_every=5
        ),
    ),
)


@dataclass(frozen=True)
class Draw:
    """A shipped sampler: its law is read off its own draws."""

    name: str
    exact: Callable[[], Finding]


DRAWS: tuple[Draw, ...] = (
    Draw("discrete Laplace noise", noise_loss),
    Draw("exponential mechanism", exponential_loss),
    Draw("permute-and-flip", permute_and_flip_loss),
)


def black_box(make: MakeStream, neighbours: Neighbours) -> BlackBox:
    """Runs of whole streams with the system's randomness: PDFs and totals of every slot, as an analyst gets them."""

    def one_run(with_user: bool) -> list[float]:
        opened = make(_unwrapped)
        seen: list[float] = []
        for rows in neighbours.one if with_user else neighbours.other:
            release = opened.release([user for user, _ in rows], [value for _, value in rows])
            seen += [*release.pdf.tolist(), release.total]
        return seen

    def run(with_user: bool, runs: int) -> Floats:
        return np.array([one_run(with_user) for _ in range(runs)])

    return run


def _unwrapped(mechanism: Mechanism[object]) -> Mechanism[object]:
    return mechanism


def _box(**options: object) -> BlackBox:
    slots = 2
    make = stream(epsilon=4, unsafe_source=SystemSource(), **options)
    return black_box(make, alone(slots, VALUES))


BOXES: tuple[tuple[str, float, BlackBox], ...] = (
    ("boosted, ledger, as a black box", 4.0, _box(budget=dpi.Ledger(slots=2), mechanism=dpi.Boosted(drifts=(0.1,)))),
    ("published, ledger, as a black box", 4.0, _box(budget=dpi.Ledger(slots=2), mechanism=tight_published(3, size=2))),
    ("discovery over all texts, as a black box", 2.0, discovery_box(2, alone(1, VALUES))),
)
"""Name, claimed ε, runs."""
