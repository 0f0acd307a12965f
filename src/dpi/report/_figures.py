"""Numbers as people read them, and the same numbers pack for the page's script.

Rounding happens here and nowhere else, so that a tooltip and a table show the same digits.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dpi.exact.integers import Integers
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


def share_text(share: float, lower: float, upper: float) -> str:
    """Return a share with its interval, in per cent.

    >>> share_text(0.1234, 0.118, 0.1291), share_text(0.00021, 0, 0.00052)
    ('12.3 % (11.8 … 12.9)', '0.0210 % (0.0000 … 0.0520)')
    >>> share_text(math.nan, math.nan, math.nan)
    'no such value'
    """
    if not math.isfinite(share):
        return "no such value"
    whole, d = round_ends(np.array([share]), np.array([lower]), np.array([upper]))
    value, low, high = (f"{n / 10 ** int(d[0]):.{int(d[0])}f}" for n in whole[:, 0].tolist())
    return f"{value} % ({low} … {high})"


def pack(share: Floats, lower: Floats, upper: Floats) -> str:
    """Return shares and intervals, six characters each: the number ((d·R + share)·R + lower)·R + upper in base 64.

    R = 1,001; at d ≤ 6 that is below 64^6. Where there is no such value it is 0, which no share is: d is at least 1.

    >>> pack(np.array([0.1234]), np.array([0.118]), np.array([0.1291]))
    'BDIwCL'
    """
    there = np.isfinite(share)
    whole, d = round_ends(*(np.where(there, end, 0.0) for end in (share, lower, upper)))
    number = ((d * _RADIX + whole[0]) * _RADIX + whole[1]) * _RADIX + whole[2]
    number = np.where(there, number, 0)
    places = 64 ** np.arange(5, -1, -1)
    digits: npt.NDArray[np.uint8] = _DIGITS[number[:, None] // places % 64]
    return digits.tobytes().decode()


def percent_text(share: float) -> str:
    """Return a round share, as on an axis.

    >>> percent_text(0.25), percent_text(0.0005), percent_text(0)
    ('25 %', '0.05 %', '0 %')
    """
    return f"{100 * share:.6g} %"


def count_text(value: float, lower: float, upper: float) -> str:
    """Return a number of users with its interval.

    >>> count_text(2345.2, 2300, 2390), count_text(3.25, 0, 9.5), count_text(math.nan, math.nan, math.nan)
    ('2,345 (2,300 … 2,390)', '3.2 (0.0 … 9.5)', 'not measured')
    >>> count_text(2345.2, 2300, math.inf)
    '2,345 (at least 2,300)'
    """
    if not math.isfinite(value):
        return "not measured"
    d = 0 if not upper < 100 else 1
    return f"{value:,.{d}f} ({interval_text(f'{lower:,.{d}f}', f'{upper:,.{d}f}', upper)})"


def part_text(value: float, lower: float, upper: float) -> str:
    """Return a share of users, or a number of slots, with its interval.

    >>> part_text(0.34, 0.2, 0.481), part_text(12.34, 8, 16)
    ('0.34 (0.20 … 0.48)', '12.3 (8.0 … 16.0)')
    """
    d = 2 if value < 1.5 else 1
    return f"{value:.{d}f} ({lower:.{d}f} … {upper:.{d}f})"


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
