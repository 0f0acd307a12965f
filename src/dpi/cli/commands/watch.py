"""`dpi watch`: values whose share has changed as it hardly ever does. It sees releases, so alerts are public too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated

import typer

from dpi.apps import Alert, Watch
from dpi.cli.config import Config
from dpi.cli.ending import FOUND
from dpi.cli.options import DomainKeys, Json, StoreArgument, StreamName
from dpi.cli.output import address, document, number, say, table
from dpi.cli.signals import Signals
from dpi.errors import OptionError
from dpi.reader import Releases, open
from dpi.release import Release
from dpi.settings.domains import domain_keys


def watch(
    store: StoreArgument,
    detector: Annotated[
        str, typer.Option("--detector", metavar="NAME", help="hbos, or forest (needs the extra apps).")
    ] = "hbos",
    window: Annotated[int, typer.Option("--window", metavar="SLOTS", help="How many slots to compare with.")] = 7,
    share: Annotated[
        float, typer.Option("--share", metavar="PART", help="Only changes rarer than this are alerts.")
    ] = 0.05,
    level: Annotated[
        float,
        typer.Option("--level", metavar="LEVEL", help="No alert where an interval of this level explains the change."),
    ] = 0.95,
    begin: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="TIME", help="Alerts of slots that begin at this time or later; all are learnt."
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on, and print alerts as slots are released.")] = False,
    poll: Annotated[float, typer.Option("--poll", metavar="SECONDS", help="With --follow: how often to look.")] = 1.0,
    stream: StreamName = None,
    domain_key: DomainKeys = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Print alerts: values whose share moved as it hardly ever does, and by more than the noise explains.

    Exit code 1 if there is an alert. With --follow and --json, one line of JSON for each alert.

    Examples:
      dpi watch visits.db
      dpi watch visits.db --from 2026-01-20 --share 0.01
      dpi watch visits.db --follow --json
    """
    if not poll > 0:
        raise OptionError(f"`--poll` must be above 0. Got {poll!r}.")
    watching = Watch(detector, window=window, share=share, level=level)
    with open(store, stream, keys=domain_keys(domain_key)) as stored:
        first = None if begin is None else stored.first_at(begin)
        if follow:
            with Signals():
                _follow(stored, watching, first, poll, json)
        seen, found = _alerts(stored, watching, first)
    if json:
        document(
            {
                "store": address(store),
                "stream": stored.name,
                "slots": seen,
                "alerts": [asdict(alert) for alert in found],
            }
        )
    elif found:
        table(
            ("slot", "start", "value", "severity", "share", "before", "± 95 %", "one in"),
            [_row(alert) for alert in found],
            left=4,
        )
    else:
        say(_nothing(seen, window))
    if found:
        raise typer.Exit(FOUND)


def _alerts(releases: Iterable[Release], watching: Watch, first: int | None) -> tuple[int, list[Alert]]:
    """How many slots were seen, and the alerts from a slot on."""
    seen, found = 0, []
    for release, alerts in watching.over(releases):
        seen += 1
        found += alerts if first is None or release.slot >= first else []
    return seen, found


def _nothing(seen: int, window: int) -> str:
    if seen <= 2 * window:
        return f"No alert: {seen} slots are released, and the first {2 * window} are learnt from."
    return f"No alert in {seen - 2 * window} slots."


def _row(alert: Alert) -> tuple[str, ...]:
    figures = (alert.share, alert.before, 1.96 * alert.error, 1 / alert.rarity)
    return (
        str(alert.slot),
        alert.start or "–",
        alert.value,
        alert.severity,
        *(number(figure, 3) for figure in figures),
    )


def _follow(stored: Releases, watching: Watch, first: int | None, poll: float, json: bool) -> None:
    """Print alerts as slots are released, until the process is stopped."""
    from json import dumps

    for release, alerts in watching.over(stored.follow(every=poll)):
        for alert in alerts if first is None or release.slot >= first else []:
            print(dumps(asdict(alert), ensure_ascii=False) if json else "  ".join(_row(alert)), flush=True)
