"""A row of the heat map as a small picture, and the colours it is made of.

A picture of one pixel a column is a tenth of the size of drawn rectangles, is averaged by the browser where a column
is narrower than a dot, and is there without a script.

The palettes have one hue and equal steps of lightness (OKLCH), so equal steps look equal and a grey print keeps the
order. On paper and in the light theme a large share is dark, in the dark theme it is bright; the style sheet shows one
of the two pictures.
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
from dpi.release.queries import Floats

LEVELS = 64
THEMES = {"light": (0.975, 0.30), "dark": (0.235, 0.95)}
"""Lightness of no share and of the largest."""
_HUE, _CHROMA = math.radians(252), 0.115


@cache
def palette(theme: str) -> tuple[tuple[int, int, int], ...]:
    """The colours from no share to the largest, as red, green and blue from 0 to 255."""
    start, end = THEMES[theme]
    return tuple(_colour(start + (end - start) * level / (LEVELS - 1)) for level in range(LEVELS))


def _colour(lightness: float) -> tuple[int, int, int]:
    """OKLCH to sRGB (Ottosson 2020); most colour in the middle, where the screen can show it."""
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
    red, green, blue = (round(255 * _gamma(min(max(value, 0.0), 1.0))) for value in linear)
    return red, green, blue


def _gamma(value: float) -> float:
    return 12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055


def level(share: Floats, largest: float) -> Floats:
    """Where shares lie in the palette, from 0 to 1: by their square root, so that small ones can be told apart."""
    return np.sqrt(np.clip(share / largest, 0, 1)) if largest > 0 else np.zeros_like(share)


def pictures(levels: Floats, alt: str) -> Html:
    """One row of pixels, for either theme; clear where there is no number."""
    there = np.isfinite(levels)
    pixels = np.where(there, np.rint(np.where(there, levels, 0.0) * (LEVELS - 1)), LEVELS).astype(np.uint8).tobytes()
    return join(*(element("img", src=_png(pixels, theme), alt=alt, class_=f"on-{theme}") for theme in THEMES))


def mask(where: npt.NDArray[np.bool_]) -> str:
    """The columns in which something is drawn, as the address of a picture that is clear in all others."""
    return _stored(where.astype(np.uint8).tobytes(), (b"PLTE", bytes(6)), (b"tRNS", b"\x00\xff"))


def _png(pixels: bytes, theme: str) -> str:
    colours = bytes(value for colour in palette(theme) for value in colour)
    if max(pixels, default=0) < LEVELS:
        return _stored(pixels, (b"PLTE", colours))
    return _stored(pixels, (b"PLTE", colours + bytes(3)), (b"tRNS", b"\xff" * LEVELS + b"\x00"))


def _stored(pixels: bytes, *colours: tuple[bytes, bytes]) -> str:
    """A `data:` address. The bytes are stored, not compressed: the same with every compression library."""
    header = struct.pack(">IIBBBBB", len(pixels), 1, 8, 3, 0, 0, 0)
    parts = (b"IHDR", header), *colours, (b"IDAT", zlib.compress(b"\0" + pixels, 0)), (b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(map(_chunk, parts))).decode()


def _chunk(part: tuple[bytes, bytes]) -> bytes:
    kind, body = part
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
