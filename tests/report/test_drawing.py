import base64
import re
import shutil
import struct
import subprocess
import zlib
from datetime import datetime, timedelta
from importlib import resources
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.release.quality import SMALL, WEEK
from dpi.report import _drawing, _figures, _times

DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
shares = st.floats(0, 1)


def ends(a, b, c):
    """Three numbers in the order share, lower, upper."""
    lower, share, upper = sorted((a, b, c))
    return share, lower, upper


@given(shares, shares, shares)
def test_packed_cells_hold_the_digits_that_are_shown(a, b, c):
    """Six characters give back exactly the text of a share with its interval."""
    share, lower, upper = ends(a, b, c)
    cell = _figures.pack(np.array([share]), np.array([lower]), np.array([upper]))
    number = 0
    for digit in cell:
        number = 64 * number + DIGITS.index(digit)
    number, high = divmod(number, 1001)
    number, low = divmod(number, 1001)
    d, value = divmod(number, 1001)
    assert len(cell) == 6
    assert _figures.share_text(share, lower, upper) == "{} % ({} … {})".format(
        *(f"{n / 10**d:.{d}f}" for n in (value, low, high))
    )


@given(shares, shares, shares)
def test_a_shown_share_is_within_half_a_unit_of_its_last_digit(a, b, c):
    """Each number in the text is the nearest one with that many decimals."""
    text = _figures.share_text(*ends(a, b, c))
    for shown, true in zip(re.findall(r"[\d.]+", text.replace("…", " ")), ends(a, b, c), strict=True):
        decimals = len(shown.split(".")[1])
        assert abs(float(shown) - 100 * true) <= 0.5000001 * 10.0**-decimals


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node to run the page's script")
def test_the_script_shows_the_same_digits():
    """The page's own script decodes a cell to the text that the page's tables show."""
    rng = np.random.default_rng(5)
    rows = np.sort(rng.uniform(0, 1, (3, 300)) ** rng.integers(1, 12, 300), axis=0)
    lower, share, upper = rows
    source = resources.files("dpi.report").joinpath("script.js").read_text(encoding="utf-8")
    function = re.search(r"  function reason.*?\n  }\n\n  function cell.*?\n  }\n", source, re.DOTALL)[0]
    codes = np.zeros(300)
    codes[:3], codes[3:60], codes[60:90] = SMALL, np.linspace(0.1, 100, 57).round(2), WEEK
    share[:60] = lower[:60] = upper[:60] = np.nan
    data = f'{{cells: ["{_figures.pack(share, lower, upper, codes)}"]}}'
    program = f"""const DIGITS = "{DIGITS}", RADIX = 1001, data = {data};
    {function}
    for (let i = 0; i < 300; i++) console.log(cell(0, i).text);"""
    shown = subprocess.run([shutil.which("node"), "-e", program], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines() == [_figures.share_text(*e) for e in zip(share, lower, upper, codes, strict=True)]


@pytest.mark.parametrize("theme", _drawing.THEMES)
def test_colours_change_in_equal_steps_of_lightness(theme):
    """Lightness moves one way in steps that are equal up to the rounding of a screen's 8 bits: grey keeps the order."""
    rgb = np.array(_drawing.palette(theme)) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    cones = linear @ np.array(
        [[0.4122214708, 0.2119034982, 0.0883024619], [0.5363325363, 0.6806995451, 0.2817188376],
         [0.0514459929, 0.1073969566, 0.6299787005]]
    )  # fmt: skip
    lightness = np.cbrt(cones) @ np.array([0.2104542553, 0.7936177850, -0.0040720468])
    start, end = _drawing.THEMES[theme]
    assert np.abs(lightness - np.linspace(start, end, _drawing.LEVELS)).max() < 0.004
    steps = np.diff(lightness) / ((end - start) / (_drawing.LEVELS - 1))
    assert steps.min() > 0.5
    assert steps.max() < 1.5
    grey = linear @ np.array([0.2126, 0.7152, 0.0722])
    assert (np.diff(grey) * np.sign(end - start) > 0).all()


def test_a_strip_is_a_picture_of_its_levels():
    """The PNG is valid, one pixel high, and its pixels are the rounded levels."""
    levels = np.array([0.0, 0.5, 1.0, 0.25])
    addresses = re.findall(r'src="data:image/png;base64,([^"]*)"', _drawing.pictures(levels, "x"))
    assert len(addresses) == len(_drawing.THEMES)
    for address in addresses:
        png = base64.b64decode(address)
        chunks, at = {}, 8
        while at < len(png):
            (length,) = struct.unpack(">I", png[at : at + 4])
            kind, body = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
            assert struct.unpack(">I", png[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + body)
            chunks[kind] = body
            at += 12 + length
        assert struct.unpack(">II", chunks[b"IHDR"][:8]) == (4, 1)
        assert list(zlib.decompress(chunks[b"IDAT"])) == [0, 0, 32, 63, 16]


def points(path):
    """The corners of a path of M, h, v, V and z commands."""
    x = y = 0
    corners = []
    for command, arguments in re.findall(r"([MhvVz])([-\d ]*)", path):
        numbers = [int(n) for n in arguments.split()]
        if command == "M":
            x, y = numbers
        elif command == "h":
            x += numbers[0]
        elif command in "vV":
            y = numbers[0] + (y if command == "v" else 0)
        corners.append((x, y))
    return corners


@given(st.lists(st.one_of(st.floats(0, 1), st.just(float("nan"))), min_size=1, max_size=30))
def test_a_line_of_steps_passes_every_known_number(values):
    """Each column's piece lies at the height of its number; columns without one are left out."""
    path = re.search(r'd="([^"]*)"', _drawing.line(np.array(values), 1.0))[1]
    heights = {}
    for piece in re.findall(r"M[^M]*", path):
        for (x, y), (to_x, to_y) in pairwise(points(piece)):
            if y == to_y:
                heights |= dict.fromkeys(range(x, to_x), y)
    assert heights == {i: round(1000 * (1 - v)) for i, v in enumerate(values) if v == v}


@given(st.lists(st.tuples(shares, shares), min_size=1, max_size=30))
def test_a_band_is_a_closed_area_between_its_ends(pairs):
    """Twice the area of the polygon is that of the columns between the lower and the upper ends."""
    lower, upper = (np.array([f(pair) for pair in pairs]) for f in (min, max))
    path = re.search(r'd="([^"]*)"', _drawing.band(lower, upper, 1.0))[1]
    corners = points(path)
    x, y = np.array(corners).T
    area = abs(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))) / 2
    assert path.endswith("z")
    assert area == np.sum(np.rint(1000 * (1 - lower)) - np.rint(1000 * (1 - upper)))


@given(st.integers(1, 3000), st.sampled_from([1, 60, 900, 3600, 86400, 7 * 86400, 31 * 86400]), st.integers(0, 10**8))
def test_time_marks_are_few_and_in_order(count, seconds, shift):
    """There is at least one mark, at most the bound, at growing columns."""
    start = datetime(2020, 1, 1) + timedelta(seconds=shift)
    marks = _times.time_marks([start + i * timedelta(seconds=seconds) for i in range(count)])
    columns = [column for column, _ in marks]
    assert 1 <= len(marks) <= _times.MARKS
    assert columns == sorted(set(columns))
    assert 0 <= columns[0] <= columns[-1] < count


@given(st.integers(0, 10**9), st.integers(1, 3000), st.integers(1, 9))
def test_slot_marks_are_few_and_name_their_slot(first, count, step):
    """The same for streams without a clock."""
    slots = range(first, first + step * count, step)
    marks = _times.slot_marks(slots)
    assert 1 <= len(marks) <= _times.MARKS
    assert all(text == f"{slots[column]:,}" for column, text in marks)


def test_times_that_change_their_offset_keep_it():
    """Where clocks are changed, two slots of the same wall-clock time have different names."""
    starts = ["2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00"]
    moments = _times.moments(starts)
    assert _times.names(moments) == ["2026-10-25 02:00+02:00", "2026-10-25 02:00+01:00"]
    assert _times.width(moments) == "1 h"
    assert _times.zone(moments) == "local time"
