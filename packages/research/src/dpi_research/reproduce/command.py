"""`dpi reproduce`: the published evaluation, computed again, as one page. Public and made-up data alone."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

from dpi.cli.options import Json
from dpi.cli.output import Steps, document, note, say, table
from dpi.cli.signals import Interrupted, Signals
from dpi.errors import OptionError
from dpi.settings.declaration import Setting


def reproduce(
    names: Annotated[
        list[str] | None, Setting("NAME", "Names of experiments, or all; listed unless given.", argument=True)
    ] = None,
    quick: Annotated[bool, Setting("", "Fewer slots, seeds and values: minutes, not hours.")] = False,
    folder: Annotated[Path, Setting("FOLDER", "Folder for the page, figures, data and results.")] = Path(
        "out/reproduction"
    ),
    fresh: Annotated[bool, Setting("", "Compute again what the folder already has.")] = False,
    processes: Annotated[int, Setting("N", "Cores to use.")] = min(2, os.cpu_count() or 1),
    json: Json = False,
) -> None:
    """Compute the published evaluation again and write one page: stated results beside those of each system.

    Results are kept in the folder, each with its options and seed: an interrupted run goes on where it was. Streams
    of real data are read from the folder that DPI_DATA names; what is not there is left out, and the page says so.

    Examples:
      dpi reproduce
      dpi reproduce remaining accounting
      dpi reproduce all --quick
      dpi reproduce all --folder out/full
    """
    from dpi_research import experiments
    from dpi_research.reproduce import run, write
    from dpi_research.reproduce._running import left

    if processes < 1:
        raise OptionError(f"`processes` must be at least 1. Got {processes}.")
    if not names:
        titles = {name: experiments.experiment(name).title for name in experiments.NAMES}
        if json:
            document({"experiments": [{"name": name, "title": title} for name, title in titles.items()]})
        else:
            table(("experiment", "what"), titles.items(), left=2)
        return
    wanted = [experiments.experiment(name) for name in dict.fromkeys(experiments.NAMES if names == ["all"] else names)]
    start = time.perf_counter()
    todo = left(wanted, folder, quick=quick, fresh=fresh)
    try:
        with Signals(), Steps("cases", todo) as steps:
            outcomes = run(wanted, folder, quick=quick, fresh=fresh, processes=processes, progress=steps.another)
    except Interrupted as stop:
        text = f"stopped; what is computed is kept in {folder}, and is not computed again."
        raise Interrupted(stop.number, text) from None
    whole = todo == sum(len(outcome.results) for outcome in outcomes)  # a run that found some done tells no time
    page = write(outcomes, folder, quick=quick, elapsed=time.perf_counter() - start if whole else None)
    missing = dict.fromkeys(name for outcome in outcomes for name in outcome.missing)
    if missing:
        note(f"left out: {', '.join(missing)}. Set DPI_DATA to the folder with these data sets.")
    if json:
        computed = [
            {
                "name": outcome.experiment.name,
                "cases": len(outcome.results),
                "seconds": round(outcome.seconds, 1),
                "missing": list(outcome.missing),
            }
            for outcome in outcomes
        ]
        document({"page": str(page), "experiments": computed})
    else:
        say(f"Look at {page}.")
