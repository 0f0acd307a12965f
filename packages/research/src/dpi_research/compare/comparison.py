"""The result of a comparison: errors and losses, slot after slot, of every system that took part; and its pictures.

Errors are made from the true data. They are for made-up or public streams, or for the curator's eyes: nothing here is a
release.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpi.errors import OptionError
from dpi.release.plots import COLOURS, LINES, blank

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Series = tuple[float, ...]


@dataclass(frozen=True)
class Result:
    """How one system fared.

    l1, kl: Σ|p - q| and KL(p ‖ q) from the slot's own PDF p to the released q, in every slot; NaN if it is empty.
    accumulated_l1, accumulated_kl: the same for all records so far.
    loss: what a user in every slot has lost after each slot.
    """

    guarantee: str
    delta: float
    l1: Series
    kl: Series
    accumulated_l1: Series
    accumulated_kl: Series
    loss: Series
    seconds: float

    def means(self) -> dict[str, float]:
        """Means over the slots, the accumulative errors at the end, and the loss at the end."""
        return {
            "l1": _mean(self.l1),
            "kl": _mean(self.kl),
            "accumulated_l1": self.accumulated_l1[-1],
            "accumulated_kl": self.accumulated_kl[-1],
            "loss": self.loss[-1],
            "delta": self.delta,
            "ms_per_slot": 1e3 * self.seconds / len(self.l1),
        }


@dataclass(frozen=True)
class Comparison:
    """All systems on one stream, under one kind of guarantee."""

    stream: str
    mode: str
    epsilon: float
    slots: int
    settings: Mapping[str, object]
    """What else was declared: cap, records a slot, δ, churn, seed."""
    courses: Mapping[str, Result]

    def rows(self) -> list[dict[str, object]]:
        """One row for each system."""
        return [{"mechanism": name, **course.means()} for name, course in self.courses.items()]

    def table(self) -> str:
        """The rows as text, the lowest divergence first."""
        words = "equal user-level guarantee" if self.mode == "user" else "as published"
        declared = ", ".join(f"{name} {value}" for name, value in self.settings.items() if value is not None)
        lines = [
            f"{self.stream}: {self.slots} slots, {words}, ε = {self.epsilon:g}"
            + (f" ({declared})" if declared else ""),
            f"{'mechanism':14s}{'L1':>9s}{'KL':>10s}{'L1 all':>9s}{'KL all':>10s}"
            f"{'user loss':>11s}{'δ':>9s}{'ms/slot':>9s}",
        ]
        for name, course in sorted(self.courses.items(), key=lambda item: item[1].means()["kl"]):
            m = course.means()
            lines.append(
                f"{name:14s}{m['l1']:9.4f}{m['kl']:10.5f}{m['accumulated_l1']:9.4f}{m['accumulated_kl']:10.5f}"
                f"{m['loss']:11.4g}{m['delta']:9.1g}{m['ms_per_slot']:9.2f}"
            )
        return "\n".join(lines)

    def to_json(self) -> str:
        """Everything, as JSON; NaN and infinity are null and "infinity"."""
        return json.dumps(_plain(asdict(self)), ensure_ascii=False, allow_nan=False)


def _mean(series: Series) -> float:
    values = np.array(series)
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else math.nan


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "infinity"
    return value


Error = Literal["l1", "kl", "accumulated_l1", "accumulated_kl"]
_LABELS = {
    "l1": "L1 from the slot's PDF",
    "kl": "KL from the slot's PDF",
    "accumulated_l1": "L1 from the PDF of all so far",
    "accumulated_kl": "KL from the PDF of all so far",
}


def plot_loss(comparison: Comparison) -> Figure:
    """What a user in every slot has lost, over time; infinite losses are not drawn."""
    return _over_time(comparison, {n: c.loss for n, c in comparison.courses.items()}, "loss of a user, ε")


def plot_error(comparison: Comparison, error: Error = "kl") -> Figure:
    """An error over time."""
    return _over_time(comparison, {n: getattr(c, error) for n, c in comparison.courses.items()}, _LABELS[error])


def _over_time(comparison: Comparison, series: dict[str, tuple[float, ...]], label: str) -> Figure:
    figure = blank(8, 4.2)
    axes = figure.subplots()
    slots = np.arange(1, comparison.slots + 1)
    for rank, (name, values) in enumerate(series.items()):
        known = np.where(np.isfinite(values) & (np.array(values) > 0), values, np.nan)
        axes.plot(slots, known, color=COLOURS[rank % len(COLOURS)], ls=LINES[rank % len(LINES)], lw=1.4, label=name)
    axes.set_yscale("log")
    axes.set_xlabel("slot")
    axes.set_ylabel(label)
    axes.set_title(f"{comparison.stream}, ε = {comparison.epsilon:g}, {comparison.mode}", loc="left")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    return figure


def plot_trade_off(comparisons: Sequence[Comparison], error: Error = "kl") -> Figure:
    """Mean error against the loss of a user at the end; one point for each comparison, lines join a system."""
    if not comparisons:
        raise OptionError("there are no comparisons to draw.")
    figure = blank(7, 4.2)
    axes = figure.subplots()
    names = list(dict.fromkeys(name for comparison in comparisons for name in comparison.courses))
    for rank, name in enumerate(names):
        courses = [c.courses[name].means() for c in comparisons if name in c.courses]
        points = sorted((m["loss"], m[error]) for m in courses if np.isfinite(m["loss"]))
        if points:
            colour = COLOURS[rank % len(COLOURS)]
            axes.plot(*zip(*points, strict=True), marker="o", ms=5, lw=1, color=colour, label=name)
    axes.set_xscale("symlog", linthresh=1e-3)
    axes.set_yscale("log")
    axes.set_xlabel("loss of a user in every slot, at the end, ε")
    axes.set_ylabel(_LABELS[error])
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    return figure
