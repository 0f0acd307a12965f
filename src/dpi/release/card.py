"""What a distribution or a release looks like in a notebook: shares with intervals. Sees public estimates only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpi.display.card import bar, card, table
from dpi.display.markup import Html, element
from dpi.release.choice import choose
from dpi.release.interval import LEVEL_TEXT
from dpi.release.queries import Floats

if TYPE_CHECKING:
    from dpi.release.queries import Distribution
    from dpi.release.release import Release

SHOWN = 12
"""How many bins have a row."""


def distribution_card(found: Distribution) -> Html:
    """The largest bins of a distribution, ordered ones in their order; what is left out is told in a sentence."""
    return card("Distribution", {"bins": f"{found.domain.size:,}"}, *_shares(found, *found.interval()))


def release_card(release: Release) -> Html:
    """The slot, what it cost, its largest bins and the guarantee."""
    spent = f"{release.epsilon_spent:.4g} by this stream"
    facts = {"ε of this slot": f"{release.epsilon:.4g}", "spent at most, per user": spent}
    title = f"Slot {release.slot:,}" + (f", {release.start_text}" if release.start else "")
    fresh = [element("p", release.freshness)] if release.freshness else []
    return card(title, facts, *_shares(release, *release.interval()), *fresh, element("p", release.guarantee))


def _shares(found: Distribution, lower: Floats, upper: Floats) -> list[Html]:
    codes = [int(code) for code in choose(found.domain, found.pdf, SHOWN)]
    widest = max(float(upper[codes].max()), 1e-300)
    rows = [
        [
            found.domain.label(code),
            f"{found.pdf[code]:.4f}",
            f"{lower[code]:.4f} … {upper[code]:.4f}",
            bar(*(float(end[code]) / widest for end in (found.pdf, lower, upper))),
        ]
        for code in codes
    ]
    shares = table(["value", "share", f"{LEVEL_TEXT} interval", ""], rows)
    rest = found.domain.size - len(codes)
    return [shares, *([element("p", left_out(found, codes))] if rest else [])]


def left_out(found: Distribution, codes: list[int]) -> str:
    """A sentence about the bins that have no row."""
    inside = np.zeros(found.domain.size, dtype=np.bool_)
    inside[codes] = True
    outside = np.flatnonzero(~inside)
    share = f"{100 * float(found.pdf[outside].sum()):.3g} %"
    if outside.size == 1:
        return f"Left out: {found.domain.label(int(outside[0]))}, {share}."
    return f"Left out: {outside.size:,} more values, {share} together."
