"""Figures of tests are drawn, but not laid out, which is most of the work; `DPI_SLOW` lays them out as a page does."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True, scope="session")
def quick_figures() -> Iterator[None]:
    """Save figures without the search for the places of their panels."""
    if os.environ.get("DPI_SLOW"):
        yield
        return
    figure = pytest.importorskip("matplotlib.figure")
    save = figure.Figure.savefig

    def save_as_it_is(self: object, *arguments: object, **options: object) -> None:
        self.set_layout_engine("none")  # type: ignore[attr-defined]
        save(self, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figure.Figure, "savefig", save_as_it_is)
        yield
