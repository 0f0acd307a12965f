"""Short seeded populations for tests/mechanism/class_estimator/test_slot.py, and how the estimator by class does.

    PYTHONPATH=src python tests/clocked_streams.py [--write]

prints one row a stream; `--write` stores them in tests/mechanism/class_estimator/guard.json, which the guard compares
with. Rewrite it in the commit that means to change them, and say why there. They are the streams of
benchmarks/populations.py, cut short.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np

HERE = Path(__file__).parent
BENCHMARKS = HERE.parent / "benchmarks"


def benchmark(name: str) -> ModuleType:
    """A benchmark as a module that is called other than those of the tests."""
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sys.path.append(str(BENCHMARKS))  # for as long as they import each other: some are called as folders of tests are
import populations as made  # noqa: E402

clocked = benchmark("clocked")
sys.path.remove(str(BENCHMARKS))
STORED = HERE / "mechanism" / "class_estimator" / "guard.json"


@dataclass(frozen=True)
class Guarded:
    """A population: how its slots are drawn, its bins, what a user has in all, and the declared season."""

    draw: Callable[[np.random.Generator], made.Draw]
    bins: int
    epsilon: float = 2.0
    season: int | None = None


def kind(name: str) -> Guarded:
    """Newcomers of another kind, 3 % in each of 80 slots."""
    return Guarded(lambda r: made.kinds(r, name, 0.03, count=80, users=2500, bins=40), 40)


def replaced(share: float, slots: int, epsilon: float = 2.0, users: int = 2500) -> Guarded:
    """One law that walks, for newcomers as for all: with bins for life, a share of the users replaced in each slot."""

    def draw(rng: np.random.Generator) -> made.Draw:
        return made.trend(rng, count=slots, users=users, bins=40, share=share)

    return Guarded(draw, 40, epsilon)


STREAMS = {
    "a trend, nobody leaves": replaced(0.0, 80),
    "a trend, everybody is new": replaced(1.0, 50),
    "kind A": kind("A"),
    "kind B": kind("B"),
    "kind C": kind("C"),
    "uniform": Guarded(partial(made.even, count=60, users=4000, bins=50), 50),
    "swap": Guarded(partial(made.swap, count=80, bins=40, users=2000), 40),
    "growth": Guarded(partial(made.growth, count=60, bins=60), 60),
    "weekly": Guarded(partial(made.weekly, count=70, bins=40, users=6000), 40),
    "bursts": Guarded(partial(made.bursts, count=80, bins=40, users=1500), 40),
    "a season, declared": Guarded(
        lambda r: made.seasonal(r, 0.05, count=4 * made.DAY, bins=40, users=4000), 40, season=made.DAY
    ),
    "survey": Guarded(made.survey, 12),
    "offers": Guarded(partial(made.offers, count=90), 30),
    "few users, little ε": Guarded(partial(made.survey, count=80, users=1500), 12, 0.1),
    "very few users": Guarded(partial(made.offers, count=80, users=60), 30),
}
"""From 60 to 50,000 users."""


def measured(stream: Guarded, seed: int = 0) -> dict[str, float]:
    """Mean divergence from the slots' own PDFs, the uniform guess's, and the shares of truths in 95 % intervals."""
    population = made.made(stream.draw(np.random.default_rng(seed)), stream.bins, stream.season)
    score, even = clocked.play(population, seed, stream.epsilon), np.full(stream.bins, 1 / stream.bins)
    truths = [slot.histogram(stream.bins) for slot in population.slots]
    uniform = [clocked.divergence(truth / truth.sum(), even) for truth in truths if truth.sum()]
    means = {"divergence": score.errors, "uniform": uniform, "bins": score.covered, "total": score.sized}
    return {name: round(float(np.mean(values)), 6) for name, values in means.items()} | {"slots": len(truths)}


def main() -> None:
    """Print, and with `--write` store, a row for each stream."""
    rows = {}
    for name, stream in STREAMS.items():
        rows[name] = measured(stream)
        print(f"{name:28s}", rows[name], flush=True)
    if "--write" in sys.argv:
        STORED.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
