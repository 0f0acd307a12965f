"""Builds the technical report: out/paper.pdf, from docs/paper and the figures of results/ (`make paper`).

    python tools/paper.py            # write it
    python tools/paper.py --png      # and its pages as pictures beside it

Typst reads results itself. This tool adds what is computed and not measured: the exact losses of the published
accounting, which results are there, and which of them are older than the program.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict
from pathlib import Path

import dpi
import dpi_audit
from dpi.theory import claimed_loss, true_loss
from results import names, read

ROOT = Path(__file__).resolve().parent.parent
SOURCE, PDF = ROOT / "docs" / "paper" / "dpi.typ", ROOT / "out" / "paper.pdf"
QUOTED = re.compile(r"\"([\w-]+)\"")
ASKED = re.compile(r"\b(?:rows|cell|value|there|read)\(\s*\"([\w-]+)\"")
"""A result that the report names, whether it is there or not."""
SLOTS = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1_000, 3_000, 10_000, 30_000, 100_000)
EPSILON, MU, ZETA, DRAWS = 1, 0.1, 0.1, 20
"""The setting of the published experiments that `dpi_audit.excesses` takes."""


def named() -> list[str]:
    """Return the results that the report names, in alphabetical order."""
    text = SOURCE.read_text("utf-8")
    return sorted({*ASKED.findall(text), *(set(QUOTED.findall(text)) & set(names()))})


def compute() -> dict[str, object]:
    """Return what the report takes from the program and not from a result."""
    measured = {name: result for name in names() if (result := read(name)).measured}
    return {
        "version": dpi.__version__,
        "measured": [*measured],
        "read": named(),
        "stale": {name: bool(measured[name].stale) for name in named() if name in measured},
        "excesses": [asdict(row) | {"excess": row.excess} for row in dpi_audit.excesses()],
        "slots": SLOTS,
        "claimed": [claimed_loss(slots, EPSILON, MU, ZETA) for slots in SLOTS],
        "one draw": [true_loss(slots, 1, EPSILON, MU, ZETA) for slots in SLOTS],
        "all draws": [true_loss(slots, DRAWS, EPSILON, MU, ZETA) for slots in SLOTS],
    }


def main(options: list[str]) -> int:
    """Write the report, and say where it is and what it lacks."""
    try:
        import typst
    except ImportError:
        sys.exit("tools/paper.py needs Typst: `make paper` installs it.")
    computed = compute()
    inputs = {"computed": json.dumps(computed, ensure_ascii=False)}
    PDF.parent.mkdir(exist_ok=True)
    typst.compile(str(SOURCE), str(PDF), root=str(ROOT), ignore_system_fonts=True, sys_inputs=inputs)
    if "--png" in options:
        page = str(PDF.with_name("paper-{0p}.png"))
        typst.compile(
            str(SOURCE), page, root=str(ROOT), ignore_system_fonts=True, sys_inputs=inputs, format="png", ppi=110
        )
    for name in named():
        if name not in names() or not read(name).measured:
            print(f"results/{name}.json is not measured yet: the report says so where its figures belong.")
    print(f"The report is {PDF.relative_to(ROOT) if PDF.is_relative_to(ROOT) else PDF}.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
