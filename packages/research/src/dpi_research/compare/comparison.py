"""The result of a comparison: errors and losses, slot after slot, of every system that took part.

Errors are made from the true data. They are for made-up or public streams, or for the curator's eyes: nothing here is a
release.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

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
