"""The audit's report: rows, the published accounting's excess, a plain table, JSON, and the verdict on all of it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from dpi.theory import claimed_loss, true_loss
from dpi_audit.exact import Finding, loss_on
from dpi_audit.neighbours import alone
from dpi_audit.small import VALUES
from dpi_audit.zoo.published_accounting import MU, ZETA, BrokenAlgorithm1

TIGHT = 0.9
"""Where a bound is tight, less than this share of it means that budget is wasted."""


@dataclass(frozen=True)
class Row:
    """One mechanism: what it claims, what was found, and whether that is what should be."""

    kind: str
    """"shipped", "broken", or "twin" of a broken one."""
    name: str
    claimed: float
    exact: float | None
    """The largest loss found, exactly; None if there is no likelihood."""
    empirical: float | None
    """A lower confidence bound; None if it was not run."""
    violated: bool
    witness: str = ""
    note: str = ""
    tight: bool = False

    @classmethod
    def of(
        cls,
        kind: str,
        name: str,
        finding: Finding,
        empirical: float | None = None,
        told: bool = False,
        *,
        note: str = "",
        tight: bool = False,
    ) -> Row:
        """Return the row of a finding, and of a lower bound beside it that may have `told` the streams apart."""
        claimed, loss, violated = float(finding.claimed), float(finding.loss), finding.violates or told
        return cls(kind, name, claimed, loss, empirical, violated, finding.witness, note, tight)

    @property
    def ratio(self) -> float | None:
        """Exact loss over claim."""
        if self.exact is None:
            return None
        return self.exact / self.claimed if self.claimed else (0.0 if self.exact == 0 else math.inf)

    @property
    def wasteful(self) -> bool:
        """Whether a bound that should be tight is not."""
        return self.tight and self.ratio is not None and self.ratio < TIGHT

    @property
    def as_expected(self) -> bool:
        """Broken mechanisms are caught, all others hold; a tight bound is used up."""
        return (self.violated == (self.kind == "broken")) and not self.wasteful

    @property
    def verdict(self) -> str:
        """In one word."""
        if self.kind == "broken":
            return "caught" if self.violated else "MISSED"
        return "VIOLATED" if self.violated else "WASTEFUL" if self.wasteful else "holds"


@dataclass(frozen=True)
class AuditReport:
    """All rows; `ok` decides the exit code."""

    rows: tuple[Row, ...]
    accounting: tuple[Excess, ...]
    quick: bool
    seconds: float
    error: float
    """Probability that an empirical bound of one row is too high."""

    @property
    def ok(self) -> bool:
        """Whether every row is as it should be."""
        return all(row.as_expected for row in self.rows)

    @property
    def exit_code(self) -> int:
        """0, or 1 on any violation, missed break or wasted budget."""
        return 0 if self.ok else 1

    @property
    def violations(self) -> tuple[Row, ...]:
        """Rows that are not as they should be."""
        return tuple(row for row in self.rows if not row.as_expected)

    def to_json(self) -> str:
        """Everything, as JSON; an infinite loss is the text "infinite"."""
        rows = [
            {**asdict(row), "ratio": row.ratio, "verdict": row.verdict, "as_expected": row.as_expected}
            for row in self.rows
        ]
        record = {
            "ok": self.ok,
            "quick": self.quick,
            "seconds": self.seconds,
            "error": self.error,
            "rows": rows,
            "accounting": [{**asdict(row), "excess": row.excess} for row in self.accounting],
        }
        return json.dumps(_finite(record), ensure_ascii=False, sort_keys=True, allow_nan=False)

    def __str__(self) -> str:
        rows = [
            (row.name, row.kind, *map(_number, (row.claimed, row.exact, row.ratio, row.empirical)), row.verdict)
            for row in self.rows
        ]
        losses = [
            (str(e.slots), str(e.draws), *map(_number, (e.claimed, e.bound, e.found)), f"{e.excess:.3g}×", e.printed)
            for e in self.accounting
        ]
        parts = [
            _table(("mechanism", "kind", "claimed", "exact worst", "ratio", "empirical ≥", "verdict"), rows),
            "Algorithm 1 by its own accounting (ε = 1, μ = ζ = 0.1), beside the corrected bound (docs/published.md):",
            _table(("slots", "draws", "claimed", "true bound", "exact found", "excess", "in the docs"), losses),
        ]
        notes = [f"* {row.name}: {row.note}." for row in self.rows if row.note and row.kind == "shipped"]
        if notes:
            parts.append("Notes\n" + "\n".join(notes))
        wrong = [f"* {row.name}: {row.verdict}. Witness: {row.witness}" for row in self.violations]
        parts.append("\n".join(["Not as it should be", *wrong]) if wrong else "All as it should be.")
        parts.append(
            f"{'Quick form. ' if self.quick else ''}{self.seconds:.0f} s. Each empirical bound is too high with "
            f"probability at most {self.error:g}."
        )
        return "\n\n".join(parts)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return "∞" if math.isinf(value) else f"{value:.4g}"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(line[i]) for line in [head, *rows]) for i in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in [head, *rows]
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return "infinite" if isinstance(value, float) and math.isinf(value) else value


PRINTED = {(10, 1): "0.06/0.35", (100, 1): "0.58/0.61", (1000, 1): "5.2/0.86"}
"""The corrected bound over the claim of Theorem 1 for ε = 1 and μ = ζ = 0.1 (docs/published.md)."""


@dataclass(frozen=True)
class Excess:
    """Losses of Algorithm 1 after some slots with some draws a slot, for ε = 1 and μ = ζ = 0.1."""

    slots: int
    draws: int
    claimed: float
    """By Theorem 1."""
    bound: float
    """The true worst case over all pools."""
    found: float
    """The exact loss for a user who is alone in every slot, with a pool of a million."""
    printed: str
    """The corrected bound over the claim, as docs/published.md has it."""

    @property
    def excess(self) -> float:
        """How many times the claim is lost."""
        return self.found / self.claimed


def excesses() -> tuple[Excess, ...]:
    """Return the losses after 10, 100 and 1,000 slots, for 1 and 20 draws.

    >>> [round(row.excess, 1) for row in excesses() if row.slots == 1000]
    [6.0, 120.5]
    """
    rows = []
    for slots in (10, 100, 1000):
        for draws in (1, 20):
            finding = loss_on(lambda s=slots, d=draws: BrokenAlgorithm1(d, s), alone(slots, VALUES))  # type: ignore[misc]
            claimed, bound = claimed_loss(slots, 1, MU, ZETA), true_loss(slots, draws, 1, MU, ZETA)
            printed = PRINTED.get((slots, draws), "exceeded")
            rows.append(Excess(slots, draws, claimed, bound, float(finding.loss), printed))
    return tuple(rows)
