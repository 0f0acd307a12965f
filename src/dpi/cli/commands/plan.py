"""`dpi plan`: which errors to expect, or which ε is enough: from stated numbers alone."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from dpi.cli.options import Json
from dpi.cli.output import document, say, table
from dpi.errors import OptionError
from dpi.events.slots import Slots
from dpi.planning import AGES, USUAL
from dpi.planning import plan as make_plan
from dpi.settings.declaration import Setting


def plan(
    users: Annotated[int, Setting("N", "Active users of one slot.")],
    bins: Annotated[int, Setting("N", "Bins of the domain.")],
    epsilon: Annotated[str | None, Setting("NUMBER", "ε per user.")] = None,
    want: Annotated[str | None, Setting("NAME=ERROR", "Instead of --epsilon: find it, such as active=10.")] = None,
    stickiness: Annotated[float, Setting("PART", "Active users over distinct users of 28 slots.")] = USUAL,
    slot: Annotated[str | None, Setting("DURATION", "Length of a slot, such as 1h, to print times.")] = None,
    plot: Annotated[Path | None, Setting("FILE", "Draw the plan as .svg, .png or .pdf (needs matplotlib).")] = None,
    json: Json = False,
) -> None:
    """Compute the errors to expect, before there are data; or the smallest ε for an error that you want.

    The figures are those of simulated streams with the default budget and --people 0.2.

    Examples:
      dpi plan --epsilon 1 --users 20000 --bins 50 --slot 1d
      dpi plan --want active=10 --users 20000 --bins 50
      dpi plan --epsilon 1 --users 20000 --bins 50 --stickiness 0.5 --plot plan.svg
    """
    made = make_plan(epsilon=epsilon, want=want, users=users, bins=bins, stickiness=stickiness)
    if plot is not None:
        if plot.suffix not in (".svg", ".png", ".pdf"):
            raise OptionError(f"`--plot` must end in .svg, .png or .pdf. Got {str(plot)!r}.")
        made.plot().savefig(plot)
    if json:
        document(asdict(made) | {"ages": AGES, "errors": [row._asdict() for row in made.errors]})
        return
    width = None if slot is None else Slots(slot).about
    if want is not None:
        say(f"ε = {made.epsilon:g} is enough for {want} after each of these times.")
    say(f"{made.stated}.", "")
    table(made.headings([_time(age, width) for age in AGES]), made.rows())
    say("", *made.notes, made.doubt, *([] if plot is None else ["", f"Look at {plot}."]))


def _time(slots: float, width: int | None) -> str:
    seconds = None if width is None else slots * width / 1e6
    for size, name in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds is not None and seconds >= 2 * size:
            return f"{seconds / size:,.0f} {name}"
    return f"{slots:,.0f} slots" if seconds is None else f"{seconds:,.0f} seconds"
