"""The published comparison, recomputed: the printed numbers beside what the stated formulas give.

Nothing here sees data. What could not be reproduced is said in the notes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cache

from dpi_research.baselines import Baseline, Loss
from dpi_research.baselines.accounting import delta_at, from_law, from_renyi
from dpi_research.baselines.counters import Binary, Hybrid
from dpi_research.baselines.pegasus import Pegasus
from dpi_research.baselines.perrier import Perrier
from dpi_research.baselines.tops import ToPS

EPSILON = Fraction(1, 2)
DELTA = 1e-5
RATE = Fraction(134, 50)
"""Records a second of the most active source: the printed sensitivities 7 and 67 are 1.34·5 and 1.34·50."""
SLOT_SECONDS = (Fraction(1, 2), Fraction(5))
TIMES = (5, 50)
HORIZONS = (50, 2700)
"""Numbers of slots for which a mechanism with a horizon is set up: those of the table, and those of the data set."""


@dataclass(frozen=True)
class MethodRow:
    """A line of the published table of representative methods, and what holds here."""

    method: str
    printed_sensitivity: str
    printed_privacy: str
    printed_error: str
    printed_applications: str
    unit: str
    user_loss: str
    user_loss_over_epsilon_t: tuple[float, ...]
    """The loss of a user with a record in every slot over ε·t, at t = 50 and t = 1,000."""
    variance: str
    deviation: tuple[float | None, ...]
    """Standard deviation of a release at ε = 1, at t = 50 and t = 1,000, where it is known in advance."""


@dataclass(frozen=True)
class LossRow:
    """A line of the published table of sensitivity and privacy loss; pairs are after 5 and after 50 slots.

    pure: the pure loss. law: ε at δ from the law of the loss. renyi: ε at δ by the conversion that the published text
    names (Mironov). delta_of_printed: the δ at which the printed number after 50 slots would hold.
    """

    method: str
    variant: str
    slot_seconds: float
    records: float
    printed_sensitivity: tuple[float, ...]
    sensitivity: tuple[float, ...]
    printed_loss: tuple[float, ...]
    pure: tuple[float, ...]
    law: tuple[float, ...]
    renyi: tuple[float, ...]
    delta_of_printed: float


@dataclass(frozen=True)
class PublishedTables:
    """Both tables and what is to be said about them."""

    methods: tuple[MethodRow, ...]
    losses: tuple[LossRow, ...]
    notes: tuple[str, ...]

    def to_json(self) -> str:
        """Everything, as JSON."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)

    def text(self) -> str:
        """Everything, to be read."""
        lines = ["Representative methods (published table), and what holds at user level", ""]
        for m in self.methods:
            ratios = ", ".join(f"{x:.3g}" for x in m.user_loss_over_epsilon_t)
            spread = ", ".join("not known" if x is None else f"{x:.3g}" for x in m.deviation)
            lines += [
                m.method,
                f"  printed: sensitivity {m.printed_sensitivity}; privacy {m.printed_privacy}; error "
                f"{m.printed_error}; {m.printed_applications}",
                f"  here:    unit {m.unit}; user loss {m.user_loss}; over ε·t at 50 and 1,000 slots: {ratios}",
                f"           variance {m.variance}; deviation at ε = 1: {spread}",
            ]
        lines += [
            "",
            f"Sensitivity and loss after 5 and 50 slots, ε = {float(EPSILON):g}, δ = {DELTA:g}",
            f"{'method':16s}{'variant':24s}{'slot':>6s}{'c':>6s}{'sensitivity':>13s}{'printed':>14s}"
            f"{'pure':>14s}{'at δ, law':>14s}{'at δ, Rényi':>14s}{'δ of printed':>13s}",
        ]
        for r in self.losses:
            cells = "".join(f"{a:7.3g}{b:7.4g}" for a, b in (r.printed_loss, r.pure, r.law, r.renyi))
            sensitivity = f"{r.sensitivity[0]:6.3g}{r.sensitivity[1]:7.3g}"
            lines.append(
                f"{r.method:16s}{r.variant:24s}{r.slot_seconds:5.1f}s{r.records:6.2f}{sensitivity}"
                f"{cells}{r.delta_of_printed:13.2g}"
            )
        return "\n".join([*lines, "", *(f"* {note}" for note in self.notes)])


PRINTED = {
    "Chan et al.": ("O(log t^1.5·log(1/δ)/ε)", "count, top-k, range queries", (0.590, 1.771)),
    "Chen et al.": ("-", "count, event monitoring", (1.841, 2.166)),
    "Perrier et al.": ("O(τ·(log t)^1.5)", "count, range queries, etc.", (1.734, 2.248)),
    "Wang et al.": ("-", "multiple analyses", (1.674, 1.972)),
}
"""Printed error bound, applications, and loss after 5 and 50 slots."""

NOTES = (
    "The printed sensitivities 7 and 67 are reproduced as c·t with c = 1.34 records in a slot of 0.5 s, a rate that "
    "was fitted to them (1.33 to 1.34 do); they are the records of the most active source, not the sensitivity of "
    "a median, which is the range of the values. With slots of 5 s c is 13.4.",
    "The printed losses of the four methods were not reproduced: no closed form that was tried gives any pair of them, "
    "and the authors' repository has no code for them. The last column shows the δ that each would need: as user-level "
    "losses they are not valid.",
    "The printed losses of DPI, 0.001 and 0.005, are t/Λ with Λ = 10⁴ (0.0005 and 0.005); the stated Λ = 10⁸ gives "
    "5·10⁻⁸ and 5·10⁻⁷. They are sums of budget. Its sensitivity of 2 is right: no PDF moves further. Here the "
    "sum of all budgets is at most ε, for ever.",
    "O(ε·t) is right for all four at user level; the constants differ (first table).",
    "Losses of Perrier et al. and Wang et al. are those of their trees. Their thresholds are learnt from a prefix in "
    "which a user's loss is vacuous (Perrier: group privacy with δ) or c·m·ε (Wang).",
    "PeGaSus: the perturber's loss is exact, the grouper's part a bound; at δ the grouper's pure part is added.",
    "Slots: the table's caption says 0.5 s; the data set's 2,700 slots are the second horizon.",
)


def loss_of(mechanism: Baseline, slots: int) -> Loss:
    """Return the loss of a user with a record in every slot; of a tree, so many slots after the prefix."""
    if isinstance(mechanism, Perrier | ToPS):
        return Loss(mechanism.loss(mechanism.prefix + slots).shifts)
    return mechanism.loss(slots)


def _variants() -> Iterator[tuple[str, str, dict[int, Loss]]]:
    """Each method's forms, with the loss of a user of one record a slot after 5 and 50 slots."""

    def both(mechanism: Baseline) -> dict[int, Loss]:
        return {t: loss_of(mechanism, t) for t in TIMES}

    for slots in HORIZONS:
        yield "Chan et al.", f"binary, T = {slots:,}", both(Binary(epsilon=EPSILON, slots=slots))
    yield "Chan et al.", "hybrid", both(Hybrid(epsilon=EPSILON))
    pegasus = Pegasus(epsilon=EPSILON)
    yield "Chen et al.", "perturber and grouper", both(pegasus)
    yield "Chen et al.", "perturber alone", {t: Loss(pegasus.loss(t).shifts) for t in TIMES}
    for slots in HORIZONS:
        perrier = Perrier(epsilon=EPSILON, slots=slots, prefix=1, threshold_delta=1e-9)
        yield "Perrier et al.", f"tree, T = {slots:,}", both(perrier)
    for slots in HORIZONS:
        tops = ToPS(epsilon=EPSILON, slots=slots, prefix=1, dropped=0)
        yield "Wang et al.", f"tree, T = {slots:,}, h = {tops.levels}", both(tops)


def loss_rows() -> Iterator[LossRow]:
    """The table of sensitivity and privacy loss, for both lengths of a slot.

    >>> row = next(loss_rows())
    >>> row.method, row.variant, row.printed_loss, tuple(round(x, 3) for x in row.pure)
    ('Chan et al.', 'binary, T = 50', (0.59, 1.771), (1.005, 18.202))
    """
    for seconds in SLOT_SECONDS:
        records = RATE * seconds
        for method, variant, losses in _variants():
            scaled = [losses[t].scaled(records) for t in TIMES]
            shifts = [{float(r): n for r, n in loss.shifts.items()} for loss in scaled]
            rest = [float(loss.pure) for loss in scaled]
            printed = PRINTED[method][2]
            yield LossRow(
                method=method,
                variant=variant,
                slot_seconds=float(seconds),
                records=float(records),
                printed_sensitivity=(7.0, 67.0),
                sensitivity=tuple(float(records * t) for t in TIMES),
                printed_loss=printed,
                pure=tuple(loss.epsilon() for loss in scaled),
                law=tuple(from_law(s, DELTA) + p for s, p in zip(shifts, rest, strict=True)),
                renyi=tuple(from_renyi(s, DELTA, improved=False) + p for s, p in zip(shifts, rest, strict=True)),
                delta_of_printed=delta_at(shifts[1], max(0.0, printed[1] - rest[1])),
            )


def method_rows() -> Iterator[MethodRow]:
    """The table of representative methods, each in the form that needs least from the stream."""
    times = (50, 1000)
    forms: dict[str, Baseline] = {
        "Chan et al.": Hybrid(epsilon=1),
        "Chen et al.": Pegasus(epsilon=1),
        "Perrier et al.": Perrier(epsilon=1, slots=1000, prefix=1, threshold_delta=1e-9),
        "Wang et al.": ToPS(epsilon=1, slots=1000, prefix=1, dropped=0),
    }
    for method, mechanism in forms.items():
        losses = [loss_of(mechanism, t) for t in times]
        error, applications, _ = PRINTED[method]
        yield MethodRow(
            method=method,
            printed_sensitivity="1, event level",
            printed_privacy="O(ε·t)",
            printed_error=error,
            printed_applications=applications,
            unit=mechanism.facts.unit,
            user_loss=mechanism.facts.user_loss,
            user_loss_over_epsilon_t=tuple(loss.epsilon() / t for loss, t in zip(losses, times, strict=True)),
            variance=mechanism.facts.variance,
            deviation=tuple(None if (v := mechanism.variance(t)) is None else v**0.5 for t in times),
        )


@cache
def published_tables() -> PublishedTables:
    """Both published tables, recomputed once in a process; takes some ten seconds."""
    return PublishedTables(tuple(method_rows()), tuple(loss_rows()), NOTES)
