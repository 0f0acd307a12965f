"""The table of the baselines in the documentation, made from their own facts.

python -m dpi_research.baselines.table docs/baselines.md

writes it between the two marks of the page.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dpi_research.baselines.base import Baseline
from dpi_research.baselines.binary import Binary
from dpi_research.baselines.blt import BufferedToeplitz
from dpi_research.baselines.boosting import QueryBoosting
from dpi_research.baselines.budget_absorption import BudgetAbsorption
from dpi_research.baselines.budget_distribution import BudgetDistribution
from dpi_research.baselines.cgm_spirit import CgmSpirit
from dpi_research.baselines.demo import Demo
from dpi_research.baselines.dong_spirit import DongSpirit
from dpi_research.baselines.fast import Fast
from dpi_research.baselines.honaker import Honaker
from dpi_research.baselines.hybrid import Hybrid
from dpi_research.baselines.key_selection import KeySelection
from dpi_research.baselines.ldp_budget import LBA, LBD, LBU, LSP
from dpi_research.baselines.ldp_population import LPA, LPD, LPU
from dpi_research.baselines.logarithmic import Logarithmic
from dpi_research.baselines.noisy_histogram import NoisyHistogram
from dpi_research.baselines.pegasus import Pegasus
from dpi_research.baselines.perrier import Perrier
from dpi_research.baselines.ranges import RangeCounter
from dpi_research.baselines.rescue import RescueDP
from dpi_research.baselines.square_root import SquareRoot
from dpi_research.baselines.thresh import Thresh
from dpi_research.baselines.topl import ToPL
from dpi_research.baselines.tops import ToPS

MECHANISMS: tuple[type[Baseline], ...] = (
    Binary,
    Logarithmic,
    Hybrid,
    RangeCounter,
    Pegasus,
    Perrier,
    ToPS,
    ToPL,
    QueryBoosting,
    NoisyHistogram,
    Demo,
    BudgetDistribution,
    BudgetAbsorption,
    Fast,
    RescueDP,
    LBU,
    LSP,
    LBD,
    LBA,
    LPU,
    LPD,
    LPA,
    Thresh,
    CgmSpirit,
    DongSpirit,
    SquareRoot,
    BufferedToeplitz,
    Honaker,
    KeySelection,
)

BEGIN, END = "<!-- table: made by dpi_research.baselines.table -->", "<!-- end of table -->"

_PRIVACY = ("unit", "horizon", "delta", "user_loss")
_REST = ("releases", "variance", "memory", "reconstructed")
_HEADS = {
    "unit": "protected with ε",
    "horizon": "horizon",
    "delta": "δ",
    "user_loss": "loss of a user, c records in each of t slots",
    "releases": "releases",
    "variance": "variance of a release",
    "memory": "memory",
    "reconstructed": "changed or reconstructed",
}


def facts_table() -> str:
    """Two tables in Markdown: what each mechanism protects, and what it releases.

    >>> facts_table().splitlines()[2].startswith("| `Binary`: Chan, Shi, Song")
    True
    """
    return "\n\n".join(_table(columns) for columns in (_PRIVACY, _REST))


def _table(columns: tuple[str, ...]) -> str:
    lines = ["| mechanism | " + " | ".join(_HEADS[c] for c in columns) + " |", "|---" * (1 + len(columns)) + "|"]
    for mechanism in MECHANISMS:
        facts = mechanism.facts
        cells = [str(getattr(facts, column)).replace("|", "\\|") for column in columns]
        head = f"`{mechanism.__name__}`: {facts.source}" if columns == _PRIVACY else f"`{mechanism.__name__}`"
        lines.append(f"| {head} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def with_table(page: str) -> str:
    """The page with the current table between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{facts_table()}\n\n{END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_table(path.read_text(encoding="utf-8")), encoding="utf-8")
