"""`dpi plan`: what error bars, which budget for a slot, how long accounts last: from stated numbers alone."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

from dpi.cli.options import Json
from dpi.cli.output import document, number, say, table
from dpi.errors import OptionError
from dpi.events.slots import Slots
from dpi.planning import HEADINGS, LONGEST, RULE, WALK, Plan
from dpi.planning import plan as make_plan
from dpi.settings.declaration import Setting

_WIDTH = 40


def plan(
    epsilon: Annotated[str, Setting("NUMBER", "ε per user, for ever.")],
    users: Annotated[int, Setting("N", "Users seen in one slot.")],
    bins: Annotated[int, Setting("N", "Bins of the domain.")],
    seen: Annotated[int | None, Setting("N", "Slots in which a user is seen, in total (1).")] = None,
    population: Annotated[int | None, Setting("N", "Instead of --seen: the same N users stay for ever.")] = None,
    lasting: Annotated[int | None, Setting("SLOTS", "With --population: number of slots.")] = None,
    slot: Annotated[str | None, Setting("DURATION", "Length of a slot, such as 1h, to print times.")] = None,
    plot: Annotated[Path | None, Setting("FILE", "Draw the plan as .svg, .png or .pdf (needs matplotlib).")] = None,
    json: Json = False,
) -> None:
    """Compute the accuracy that a budget gives, before there are data.

    The figures are those of one slot's noisy measurement; releases are better, for they learn from slot to slot.

    Examples:
      dpi plan --epsilon 1 --users 50000 --bins 200 --seen 10
      dpi plan --epsilon 1 --users 2000 --bins 50 --population 20000 --lasting 720 --slot 1h
      dpi plan --epsilon 1 --users 50000 --bins 200 --plot plan.svg
    """
    made = make_plan(epsilon=epsilon, users=users, bins=bins, seen=seen, population=population, lasting=lasting)
    if plot is not None:
        if plot.suffix not in (".svg", ".png", ".pdf"):
            raise OptionError(f"`--plot` must end in .svg, .png or .pdf. Got {str(plot)!r}.")
        made.plot().savefig(plot)
    if json:
        best = None if made.best is None else asdict(made.best)
        told = {"best": best, "rule": RULE, "advice": made.advice(), "for_ever": made.for_ever}
        document({**asdict(made), **told})
        return
    _print(made, None if slot is None else Slots(slot).about)
    if plot is not None:
        say("", f"Look at {plot}.")


def _print(made: Plan, width: int | None) -> None:
    say(f"{made.stated}.", "")
    marks = ["*" if option == made.best else "" for option in made.options]
    rows = [[*row, mark] for row, mark in zip(made.rows(partial(_time, width=width)), marks, strict=True)]
    table([*HEADINGS, ""], rows, left=0)
    widths = [option.half_width for option in made.options]
    if max(widths) - min(widths) > 1e-9 * max(widths):  # equal bars would tell nothing
        say("", "± share of one value, by what a slot costs:")
        for option in made.options:
            bar = "█" * max(1, round(_WIDTH * option.half_width / max(widths)))
            say(f"  {number(option.per_slot):>8}  {bar} {number(option.half_width, 3)}")
    elif len(widths) > 1 and widths[0] < 1:
        say("", "The error is the same at every price: at a higher price, proportionally fewer users pay.")
    first, *others = made.payments
    told = [f"{_time(paid.after, width)} later {paid.cost:.3g} (± {paid.half_width:.3g})" for paid in others[:4]]
    clocked = (
        f"With the default budget (policy auto) no account is ever empty: a user of every slot pays {first.cost:.3g} "
        f"at once (± {first.half_width:.3g}), and about {'; '.join(told)}."
    )
    waits = 2**LONGEST
    for_ever = (
        f"If shares drift by {100 * WALK:g} % a slot, a share can be known to about ± {made.for_ever:.2g} of its own "
        f"size{'' if made.population is None else ' for that long'}. A jump is visible at once among newcomers; "
        f"users who return are measured in one of {waits} slots."
    )
    say("", f"* {made.advice(partial(_time, width=width))}", RULE, "", clocked, "", for_ever)


def _time(slots: float, width: int | None) -> str:
    seconds = None if width is None else slots * width / 1e6
    for size, name in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds is not None and seconds >= 2 * size:
            return f"{seconds / size:,.0f} {name}"
    return f"{slots:,.0f} slots" if seconds is None else f"{seconds:,.0f} seconds"
