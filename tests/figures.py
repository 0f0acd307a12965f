"""Figures are drawn, as they are for a page or only so far that a mistake in them shows."""

from __future__ import annotations

from pathlib import Path

from dpi_research.reproduce.experiment import Sheet


def saved(sheet: Sheet, folder: Path) -> None:
    """Write every figure, as a page does."""
    for name, (figure, _) in sheet.figures.items():
        figure.savefig(folder / f"{name}.svg")
        assert (folder / f"{name}.svg").stat().st_size > 1_000


def drawn(sheet: Sheet) -> None:
    """Draw every line and text of the figures, wherever they come to stand: placing them is most of the work.

    Nor are small marks between those of an axis drawn, which say nothing and are many.
    """
    for figure, _ in sheet.figures.values():
        figure.set_layout_engine("none")
        for axes in figure.axes:
            axes.minorticks_off()
        figure.draw_without_rendering()
