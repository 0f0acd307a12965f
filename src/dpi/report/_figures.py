"""Numbers as people read them, and the same numbers pack for the page's script.

Rounding happens here and nowhere else, so that a tooltip and a table show the same digits.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dpi.exact.integers import Integers
from dpi.release.quality import SMALL, WEEK, note, width_text
from dpi.release.queries import Floats, interval_text

_DIGITS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", dtype=np.uint8)
_RADIX = 1001  # each end of a rounded share is a whole number from 0 to 1,000


def round_ends(share: Floats, lower: Floats, upper: Floats) -> tuple[Integers, Integers]:
    """Return shares and interval ends as whole numbers of 10^-d per cent (stacked), and d, row by row.

    d gives the upper end three significant digits, but is at least 1 and at most 6; no number is above 1,000.
    """
    percent = 100 * np.stack([share, lower, upper])
    with np.errstate(divide="ignore"):
        d = np.clip(2 - np.floor(np.log10(percent[2])), 1, 6).astype(np.int64)
    return np.rint(percent * 10.0**d).astype(np.int64), d


def share_text(share: float, lower: float, upper: float, code: float = 0.0) -> str:
    """Return a share with its interval, in per cent; under rules, why it is not shown, or that it is a week's.

    >>> share_text(0.1234, 0.118, 0.1291), share_text(0.00021, 0, 0.00052)
    ('12.3 % (11.8 … 12.9)', '0.0210 % (0.0000 … 0.0520)')
    >>> share_text(math.nan, math.nan, math.nan)
    'no such value'
    >>> share_text(math.nan, math.nan, math.nan, 14.2), share_text(0.1234, 0.118, 0.1291, WEEK)
    ('not shown: ± 14 points', '12.3 % (11.8 … 12.9) of a week')
    """
    said = note(code, "points")
    if not math.isfinite(share):
        return said or "no such value"
    whole, d = round_ends(np.array([share]), np.array([lower]), np.array([upper]))
    value, low, high = (f"{n / 10 ** int(d[0]):.{int(d[0])}f}" for n in whole[:, 0].tolist())
    return f"{value} % ({low} … {high}) {said}".rstrip()


def pack(share: Floats, lower: Floats, upper: Floats, codes: Floats | None = None) -> str:
    """Return shares and intervals, six characters each: the number ((d·R + share)·R + lower)·R + upper in base 64.

    R = 1,001; at d ≤ 6 that is below 64^6. Where there is no such value it is 0, which no share is: d is at least 1. Of
    a week's share d is larger by 10. Where a share is not shown it is how wide its interval is, in hundredths of a
    point as it is told, and one more, or 20,000 if users are too few.

    >>> pack(np.array([0.1234]), np.array([0.118]), np.array([0.1291]))
    'BDIwCL'
    """
    there = np.isfinite(share)
    whole, d = round_ends(*(np.where(there, end, 0.0) for end in (share, lower, upper)))
    number = ((d * _RADIX + whole[0]) * _RADIX + whole[1]) * _RADIX + whole[2]
    codes = np.zeros_like(share) if codes is None else codes
    number = np.where(there, number + 10 * _RADIX**3 * (codes == WEEK), 0)
    for place in np.flatnonzero(~there):
        width = 0 if codes[place] <= 0 else round(100 * float(width_text(codes[place]))) + 1
        number[place] = 20_000 if codes[place] == SMALL else width
    places = 64 ** np.arange(5, -1, -1)
    digits: npt.NDArray[np.uint8] = _DIGITS[number[:, None] // places % 64]
    return digits.tobytes().decode()


def percent_text(share: float) -> str:
    """Return a round share, as on an axis.

    >>> percent_text(0.25), percent_text(0.0005), percent_text(0)
    ('25 %', '0.05 %', '0 %')
    """
    return f"{100 * share:.6g} %"


def count_text(value: float, lower: float, upper: float, code: float = 0.0) -> str:
    """Return a number of users with its interval, or why it is not shown.

    >>> count_text(2345.2, 2300, 2390), count_text(3.25, 0, 9.5), count_text(math.nan, math.nan, math.nan)
    ('2,345 (2,300 … 2,390)', '3.2 (0.0 … 9.5)', 'not measured')
    >>> count_text(2345.2, 2300, math.inf)
    '2,345 (at least 2,300)'
    """
    said = note(code, "%")
    if not math.isfinite(value):
        return said or "not measured"
    d = 0 if not upper < 100 else 1
    return f"{value:,.{d}f} ({interval_text(f'{lower:,.{d}f}', f'{upper:,.{d}f}', upper)}) {said}".rstrip()


def slots_text(value: float, lower: float, upper: float) -> str:
    """Return an expected number of slots with its interval.

    >>> slots_text(12.34, 8, 16)
    '12.3 (8.0 … 16.0)'
    """
    return f"{value:.1f} ({lower:.1f} … {upper:.1f})"


def budget_text(epsilon: float) -> str:
    """Return an amount of budget.

    >>> budget_text(0.0499999999)
    '0.05'
    """
    return f"{epsilon:.4g}"


def fact_text(value: object) -> str:
    """Return a fact of a certificate in words.

    >>> fact_text({"name": "blocks", "count": 16, "season": None}), fact_text([0, 0.5]), fact_text("")
    ('name blocks, count 16, season none', '0, 0.5', 'none')
    """
    if isinstance(value, dict):
        return ", ".join(f"{name} {fact_text(part)}" for name, part in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(fact_text, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None or value == "" else str(value)
