"""Curves over the columns of a page, and rows of the heat map as small pictures.

Curves are steps: a slot's number holds from its start to its end. A drawing is stretched to the width of the page, so
texts and marks are not part of it: they are HTML around it and keep their size on a narrow screen.

A picture of one pixel a column is a tenth of the size of drawn rectangles, is averaged by the browser where a column
is narrower than a dot, and is there without a script. The palettes have one hue and equal steps of lightness (OKLCH),
so equal steps look equal and a grey print keeps the order. On paper and in the light theme a large share is dark, in
the dark theme it is bright; the style sheet shows one of the two pictures.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from functools import cache

import numpy as np
import numpy.typing as npt

from dpi.display.markup import Html, element, join
from dpi.exact.integers import Integers
from dpi.release.choice import Floats

HEIGHT = 1000
_ROUND = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)
LEVELS = 64
THEMES = {"light": (0.975, 0.30), "dark": (0.235, 0.95)}  # lightness of no share and of the largest
_HUE, _CHROMA = math.radians(252), 0.115


def round_top(largest: float) -> float:
    """Return the smallest round number that is not below the largest one, so that half of it is round enough too.

    >>> round_top(0.23), round_top(1870.0), round_top(0.0)
    (0.3, 2000.0, 1.0)
    """
    if not 0 < largest < math.inf:
        return 1.0
    power = 10.0 ** math.floor(math.log10(largest))
    step = next(step for step in _ROUND if step * power >= largest * (1 - 1e-9))
    return float(f"{step * power:.6g}")


def draw(columns: int, *paths: Html) -> Html:
    """Return a drawing of paths over the columns, stretched to where it stands."""
    view = f"0 0 {columns} {HEIGHT}"
    return element("svg", join(*paths), viewBox=view, preserveAspectRatio="none", aria_hidden="true")


def line(values: Floats, top: float, kind: str = "line") -> Html:
    """Return a line of steps, interrupted where there is no number."""
    parts = [f"M{start} {heights[0]}{_steps(heights)}" for start, heights in _runs(values, values, top)]
    return element("path", class_=kind, d="".join(parts))


def dots(values: Floats, top: float) -> Html:
    """Return a dot in each column that has a number: lines without length, which the style sheet gives round ends."""
    parts = [
        f"M{start + at}.5 {height}h0"
        for start, heights in _runs(values, values, top)
        for at, height in enumerate(heights)
    ]
    return element("path", class_="dots", d="".join(parts))


def band(lower: Floats, upper: Floats, top: float, kind: str = "band") -> Html:
    """Return the area between two lines of steps; one without an upper end goes beyond the top."""
    upper = np.where(np.isposinf(upper), 2 * top, upper)
    runs = zip(_runs(lower, upper, top), _runs(upper, lower, top), strict=True)
    parts = [f"M{start} {high[0]}{_steps(high)}V{low[-1]}{_steps(low[::-1], -1)}z" for (start, low), (_, high) in runs]
    return element("path", class_=kind, d="".join(parts))


def _runs(values: Floats, also: Floats, top: float) -> list[tuple[int, Integers]]:
    """Return stretches where numbers, and those of the other end, are known: the first column, heights from above."""
    known = np.isfinite(values) & np.isfinite(also)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], known, [False])).astype(np.int8)))
    # What is above the top is drawn a little above it, where it is cut off, whatever its size.
    scaled = HEIGHT * (1 - np.clip(np.where(known, values, 0) / top, -1, 2))
    heights = np.rint(scaled).astype(np.int64)
    return [(int(a), heights[a:b]) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _steps(heights: Integers, direction: int = 1) -> str:
    """Return horizontal runs of columns and the vertical moves between them, in relative commands."""
    ends = np.append(np.flatnonzero(np.diff(heights)), heights.size - 1)
    first, *lengths = (np.diff(ends, prepend=-1) * direction).tolist()
    moves = np.diff(heights[ends]).tolist()
    return f"h{first}" + "".join(f"v{move}h{length}" for move, length in zip(moves, lengths, strict=True))


@cache
def palette(theme: str) -> tuple[tuple[int, int, int], ...]:
    """Return the colours from no share to the largest, as red, green and blue from 0 to 255."""
    start, end = THEMES[theme]
    return tuple(_colour(start + (end - start) * level / (LEVELS - 1)) for level in range(LEVELS))


def _colour(lightness: float) -> tuple[int, int, int]:
    """Turn OKLCH into sRGB (Ottosson 2020); most colour in the middle, where the screen can show it."""
    chroma = _CHROMA * math.sin(math.pi * (1.224 - 1.215 * lightness))
    a, b = chroma * math.cos(_HUE), chroma * math.sin(_HUE)
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    inside = (min(max(value, 0.0), 1.0) for value in linear)
    red, green, blue = (12.92 * v if v <= 0.0031308 else 1.055 * v ** (1 / 2.4) - 0.055 for v in inside)
    return round(255 * red), round(255 * green), round(255 * blue)


def level(share: Floats, largest: float) -> Floats:
    """Return where shares lie in the palette, from 0 to 1: by their square root, so that small ones differ too."""
    return np.sqrt(np.clip(share / largest, 0, 1)) if largest > 0 else np.zeros_like(share)


def pictures(levels: Floats, alt: str) -> Html:
    """Return one row of pixels, for either theme; clear where there is no number."""
    there = np.isfinite(levels)
    pixels = np.where(there, np.rint(np.where(there, levels, 0.0) * (LEVELS - 1)), LEVELS).astype(np.uint8).tobytes()
    clear = max(pixels, default=0) == LEVELS
    drawn = []
    for theme in THEMES:
        colours = bytes(value for colour in palette(theme) for value in colour) + bytes(3 * clear)
        hidden = [(b"tRNS", b"\xff" * LEVELS + b"\x00")] if clear else []
        drawn.append(element("img", src=_png(pixels, (b"PLTE", colours), *hidden), alt=alt, class_=f"on-{theme}"))
    return join(*drawn)


def mask(where: npt.NDArray[np.bool_]) -> str:
    """Return the columns in which something is drawn, as the address of a picture that is clear in all others."""
    return _png(where.astype(np.uint8).tobytes(), (b"PLTE", bytes(6)), (b"tRNS", b"\x00\xff"))


def _png(pixels: bytes, *colours: tuple[bytes, bytes]) -> str:
    """Return a `data:` address. The bytes are stored, not compressed: the same with every compression library."""
    header = struct.pack(">IIBBBBB", len(pixels), 1, 8, 3, 0, 0, 0)
    parts = (b"IHDR", header), *colours, (b"IDAT", zlib.compress(b"\0" + pixels, 0)), (b"IEND", b"")
    chunks = [
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in parts
    ]
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(chunks)).decode()
