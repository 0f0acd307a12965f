"""Curves over the columns of a page, drawn as steps: a slot's number holds from its start to its end.

A drawing is stretched to the width of the page, so texts and marks are not part of it: they are HTML around it and
keep their size on a narrow screen.
"""

from __future__ import annotations

import math

import numpy as np

from dpi.display.markup import Html, element, join
from dpi.exact.integers import Integers
from dpi.release.queries import Floats

HEIGHT = 1000
_ROUND = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)


def round_top(largest: float) -> float:
    """The smallest round number that is not below the largest one, so that half of it is round enough too.

    >>> round_top(0.23), round_top(1870.0), round_top(0.0)
    (0.3, 2000.0, 1.0)
    """
    if not 0 < largest < math.inf:
        return 1.0
    power = 10.0 ** math.floor(math.log10(largest))
    step = next(step for step in _ROUND if step * power >= largest * (1 - 1e-9))
    return float(f"{step * power:.6g}")


def drawing(columns: int, *paths: Html) -> Html:
    """A drawing of paths over the columns, stretched to where it stands."""
    view = f"0 0 {columns} {HEIGHT}"
    return element("svg", join(*paths), viewBox=view, preserveAspectRatio="none", aria_hidden="true")


def line(values: Floats, top: float, kind: str = "line") -> Html:
    """A line of steps, interrupted where there is no number."""
    parts = [f"M{start} {heights[0]}{_steps(heights)}" for start, heights in _runs(values, top=top)]
    return element("path", class_=kind, d="".join(parts))


def band(lower: Floats, upper: Floats, top: float, kind: str = "band") -> Html:
    """The area between two lines of steps."""
    parts = []
    for (start, low), (_, high) in zip(_runs(lower, upper, top=top), _runs(upper, lower, top=top), strict=True):
        back = _steps(low[::-1], -1)
        parts.append(f"M{start} {high[0]}{_steps(high)}V{low[-1]}{back}z")
    return element("path", class_=kind, d="".join(parts))


def _runs(values: Floats, also: Floats | None = None, *, top: float) -> list[tuple[int, Integers]]:
    """Stretches where numbers (and those of the other end) are known: the first column, and heights from above."""
    known = np.isfinite(values) if also is None else np.isfinite(values) & np.isfinite(also)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], known, [False])).astype(np.int8)))
    # What is above the top is drawn a little above it, where it is cut off, whatever its size.
    scaled = HEIGHT * (1 - np.clip(np.where(known, values, 0) / top, -1, 2))
    heights = np.rint(scaled).astype(np.int64)
    return [(int(a), heights[a:b]) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _steps(heights: Integers, direction: int = 1) -> str:
    """Horizontal runs of columns and the vertical moves between them, in relative commands."""
    ends = np.append(np.flatnonzero(np.diff(heights)), heights.size - 1)
    lengths = np.diff(ends, prepend=-1) * direction
    moves = np.diff(heights[ends])
    return f"h{lengths[0]}" + "".join(
        f"v{move}h{length}" for move, length in zip(moves.tolist(), lengths[1:].tolist(), strict=True)
    )
