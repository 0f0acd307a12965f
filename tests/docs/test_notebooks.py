"""Notebooks run from top to bottom, and what is stored of them holds no machine's paths and no errors."""

from __future__ import annotations

import json
import os
from pathlib import Path

import matplotlib
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))
LONG = () if os.environ.get("DPI_SLOW") else ("published-accounting",)
"""Nearly all of its time goes to a search for neighbours, which docs/audit.md shows as well (see test_blocks.py)."""


@pytest.mark.parametrize("path", [p for p in NOTEBOOKS if p.stem not in LONG], ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cell by cell in one namespace, as a kernel does; the last expression of a cell is shown.

    In the short form the year has 203 days.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPI_DATA", raising=False)
    matplotlib.use("Agg")
    names: dict[str, object] = {"__name__": "__main__"}
    for number, cell in enumerate(json.loads(path.read_text("utf-8"))["cells"]):
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            if not os.environ.get("DPI_SLOW"):
                source = source.replace("days, begin = 364", "days, begin = 203")
            exec(compile(source, f"{path.name}, cell {number}", "exec"), names)  # noqa: S102


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_is_stored_was_run_in_order(path: Path) -> None:
    """All outputs are there, from one run, without errors or places of a machine."""
    cells = [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert any(output["output_type"] != "stream" for output in outputs)
    assert not [output for output in outputs if output["output_type"] == "error"]
    assert str(path.parents[2]) not in json.dumps(outputs)
    assert str(Path.home()) not in json.dumps(outputs)
