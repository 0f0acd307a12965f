"""Pictures of releases (matplotlib, the extra `plot`)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from dpi.errors import OptionError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dpi.plan import Plan
    from dpi.release import Release

_COLOURS = ("#1b3a5c", "#c8553d", "#588157", "#8d6a9f", "#e0a458", "#5fa8d3", "#6c757d", "#b5838d")
_LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))


def _figure(width: float, height: float) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise OptionError("plots need matplotlib: install the extra `plot`.") from None
    return Figure(figsize=(width, height), layout="constrained")


def plot_release(release: Release, bins: int = 20) -> Figure:
    """The largest bins of one release with 95 % intervals."""
    order = np.argsort(-release.pdf, kind="stable")[:bins][::-1]
    lower, upper = release.interval()
    figure = _figure(7, 0.6 + 0.27 * order.size)
    axes = figure.subplots()
    errors = np.stack([release.pdf[order] - lower[order], upper[order] - release.pdf[order]])
    axes.barh(np.arange(order.size), release.pdf[order], color=_COLOURS[0], alpha=0.85)
    axes.errorbar(
        release.pdf[order], np.arange(order.size), xerr=errors, fmt="none", ecolor=_COLOURS[1], capsize=2, lw=1.2
    )
    axes.set_yticks(np.arange(order.size), [release.domain.label(int(i)) for i in order])
    axes.set_xlabel("share of users, with 95 % interval")
    axes.set_title(f"slot {release.slot}" + (f", {release.start}" if release.start else ""), loc="left")
    return figure


def plot_series(releases: Sequence[Release], values: int = 5) -> Figure:
    """The largest bins over time with 95 % bands, and below them the budget of each slot."""
    if not releases:
        raise OptionError("there are no releases to draw.")
    starts = [release.start for release in releases]
    timed = all(starts)
    slots = np.array([datetime.fromisoformat(str(s)) for s in starts] if timed else [r.slot for r in releases])
    pdf = np.stack([release.pdf for release in releases])
    bounds = [release.interval() for release in releases]
    figure = _figure(9, 5.2)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    for rank, code in enumerate(np.argsort(-pdf.mean(axis=0), kind="stable")[:values]):
        colour, line = _COLOURS[rank % len(_COLOURS)], _LINES[rank % len(_LINES)]
        above.plot(slots, pdf[:, code], color=colour, ls=line, lw=1.6, label=releases[0].domain.label(int(code)))
        low, high = (np.array([bound[side][code] for bound in bounds]) for side in (0, 1))
        above.fill_between(slots, low, high, color=colour, alpha=0.13, lw=0)
    above.set_ylabel("share of users (95 % band)")
    above.set_ylim(bottom=0)
    above.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    below.step(slots, [release.epsilon for release in releases], where="mid", color=_COLOURS[0], lw=1.2)
    below.set_ylabel("ε of the slot")
    below.set_ylim(bottom=0)
    below.set_xlabel("start of the slot" if timed else "slot")
    if timed:
        below.tick_params(axis="x", rotation=20)
    return figure


def plot_plan(plan: Plan) -> Figure:
    """Error and paying users over the budget of a slot; for a population that stays, how long its accounts last."""
    cost = [option.per_slot for option in plan.options]
    lasting = plan.population is not None
    figure = _figure(7, 4.6)
    above, below = figure.subplots(2, 1, sharex=True)
    above.loglog(cost, [option.half_width for option in plan.options], "o-", color=_COLOURS[0], lw=1.6)
    above.plot(plan.best.per_slot, plan.best.half_width, "o", color=_COLOURS[1], ms=9)
    above.set_ylabel("± share (95 %), one slot")
    second = [option.dry_after if lasting else option.paying for option in plan.options]
    below.semilogx(cost, second, "o-", color=_COLOURS[2], lw=1.6)
    below.set_ylim(bottom=0)
    below.set_ylabel("slots until accounts\nare empty" if lasting else "paying users in a slot")
    below.set_xlabel("ε of a slot")
    return figure
