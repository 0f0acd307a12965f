"""`dpi demo`: the main job on a made-up shop: releases for three weeks of hours, a store, a report."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np

from dpi import demo as shop
from dpi.cli._demo_picture import draw_demo
from dpi.cli._outfile import OutFile
from dpi.cli.commands.report import write_page
from dpi.cli.options import Json
from dpi.cli.output import document, say, table
from dpi.cli.signals import Signals
from dpi.cli.streams import OpenedStoreSettings, play
from dpi.domain import Categories, Domain
from dpi.errors import OptionError, StateError
from dpi.events.columns import Table
from dpi.histogram.compression import compress
from dpi.reader import open
from dpi.release import Release
from dpi.release.queries import Distribution, interval_text
from dpi.settings.declaration import Setting
from dpi.settings.streams import StreamSettings
from dpi.sources import TableEvents
from dpi.store import open_store
from dpi.stream.counted import name_counted

if TYPE_CHECKING:
    import polars as pl

NAME = "demo shop"
DAYS = 21
PEOPLE = "0.2"
"""The part of ε that counts users, as in plans (`dpi plan`)."""


def demo(
    folder: Annotated[Path, Setting("FOLDER", "Folder for the files.")] = Path("dpi-demo"),
    days: Annotated[int, Setting("N", "Number of days, 1 to 60.")] = DAYS,
    json: Json = False,
) -> None:
    """Release three weeks of a made-up shop, hour by hour; write a store, a report and a picture.

    The visitors come and go, the pages follow the time of day, and one evening an offer draws a crowd. The program
    knows the truth, so it can say how far the releases are from it. No network, no arguments; about a minute.

    Examples:
      dpi demo
      dpi demo --folder out --days 7
    """
    import polars as pl

    if not 1 <= days <= 60:
        raise OptionError(f"`days` must be from 1 to 60. Got {days}.")
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        name: folder / name for name in ("visits.parquet", "pages.txt", "shop.db", "releases.parquet", "report.html")
    }
    _clear(files)
    hours = list(shop.hourly(24 * days))
    visits = pl.concat(hours)
    visits.write_parquet(files["visits.parquet"])
    files["pages.txt"].write_text("\n".join(shop.PAGES) + "\n")
    begin, end = shop.START.isoformat()[:10], (shop.START.date() + timedelta(days=days)).isoformat()
    events = TableEvents("user", "at", "page", table=Table(visits))  # what the file holds; no library need read it
    domain = Categories(shop.PAGES)
    if not json:
        say(f"{24 * days} hours of a made-up shop, {domain.size} pages, ε = 1 per visitor. The same as:", "")
        say(*_command(files, begin, end), "")
    began = time.perf_counter()
    settings = StreamSettings(name=NAME, domain=domain, epsilon="1", slot="1h", begin=begin, season=24, people=PEOPLE)
    with Signals() as signals, OpenedStoreSettings(store=str(files["shop.db"])).open(None) as store:
        stream = settings.open(store)
        first, last = stream.next_slot, stream.next_slot + 24 * days
        with OutFile(files["releases.parquet"], NAME, settings.slots, first, last).open(store) as hand:
            play(stream, events, last, signals, hand)
        seconds = time.perf_counter() - began
        guarantee = stream.guarantee
    with open(files["shop.db"], NAME) as stored:
        problems = write_page(stored, files["report.html"], "A made-up shop", None)
        releases = list(stored)
    if problems:
        raise StateError(problems[0])
    truths = _truths(hours, domain)
    picture = _picture(releases, truths, folder / "shop.svg")
    summary: dict[str, object] = {
        "hours": len(releases),
        "seconds": round(seconds, 1),
        **_errors(truths, releases, domain),
        "error_of_users": _error_of_users(truths, releases),
        "epsilon_spent": releases[-1].epsilon_spent,
        "guarantee": guarantee,
        "files": [str(path) for path in (*files.values(), *([picture] if picture else []))],
    }
    if json:
        document(summary)
        return
    _print(releases, truths, summary, files, picture)


def _truths(hours: Sequence[pl.DataFrame], domain: Domain) -> list[Distribution]:
    """Return the true distribution of each hour, which only a made-up shop can tell."""
    histograms = [compress(hour["user"], hour["page"], domain) for hour in hours]
    shares = [each.grains / each.grains.sum() for each in histograms]
    users = [hour["user"].n_unique() for hour in hours]
    return [
        Distribution(domain, each, np.zeros(domain.size), total=float(number))
        for each, number in zip(shares, users, strict=True)
    ]


def _errors(truths: Sequence[Distribution], releases: Sequence[Release], domain: Domain) -> dict[str, object]:
    """Return how far releases, and equal shares, are from the truth on average."""
    uniform = Distribution(domain, np.full(domain.size, 1 / domain.size), np.zeros(domain.size))
    return {
        "error": _percentage_points(truths, releases),
        "error_of_uniform": _percentage_points(truths, [uniform] * len(truths)),
        "divergence": float(np.mean([t.kl(release).value for t, release in zip(truths, releases, strict=True)])),
        "divergence_of_uniform": float(np.mean([truth.kl(uniform).value for truth in truths])),
    }


def _percentage_points(truths: Sequence[Distribution], others: Sequence[Distribution]) -> float:
    """Return the mean distance of a share from the true one, over all hours and pages."""
    return 100 * float(np.mean([np.abs(truth.pdf - other.pdf) for truth, other in zip(truths, others, strict=True)]))


def _error_of_users(truths: Sequence[Distribution], releases: Sequence[Release]) -> float:
    """Return the median distance of the number of users from the true one, in per cent of it."""
    pairs = zip(truths, releases, strict=True)
    return 100 * float(np.median([abs(each.count().value / truth.count().value - 1) for truth, each in pairs]))


def _clear(files: dict[str, Path]) -> None:
    """Begin anew, without the store of an earlier demo; its visitors are made up, so nobody's account is refilled."""
    path = files["shop.db"]
    if path.exists():
        with open_store(path, read_only=True) as store:
            if set(store.streams()) - {NAME, name_counted(NAME)}:
                raise OptionError(f"{path} is not the store of a demo; name another `--folder`.")
        for suffix in ("", ".key", ".lock", "-wal", "-shm", ".witness", ".witness.lock"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        files["releases.parquet"].unlink(missing_ok=True)
    elif any(other.exists() for other in files.values()):
        raise OptionError(f"{path.parent} holds files of something else; name another `--folder`.")
    open_store(path).close()  # first of all files: it tells that the others are a demo's


def _command(files: dict[str, Path], begin: str, end: str) -> list[str]:
    """Return the run that a demo is, in lines that a shell takes."""
    visits, pages, store, releases = (
        shlex.quote(str(files[name])) for name in ("visits.parquet", "pages.txt", "shop.db", "releases.parquet")
    )
    return [
        f"  dpi run {visits} --time at --value page --domain {pages} \\",
        f"      --slot 1h --season 24 --from {begin} --to {end} --epsilon 1 --people {PEOPLE} \\",
        f"      --store {store} --name {shlex.quote(NAME)} --out {releases}",
    ]


def _picture(releases: list[Release], truths: list[Distribution], path: Path) -> Path | None:
    """Return releases beside the truth as a picture, if matplotlib is there."""
    try:
        draw_demo(releases, truths).savefig(path)
    except OptionError:
        return None
    return path


def _print(
    releases: list[Release],
    truths: list[Distribution],
    summary: dict[str, object],
    files: dict[str, Path],
    picture: Path | None,
) -> None:
    def best(hour: Distribution) -> str:
        return ", ".join(f"{label} {share:.3f}" for label, share in hour.top(3))

    def users(hour: Distribution) -> str:
        lower, upper = hour.count().interval()
        return interval_text(f"{max(lower, 0):,.0f}", f"{upper:,.0f}", upper)

    shown = sorted({0, 60, shop.CROWD[0] - 1, shop.CROWD[1], len(releases) - 1} & set(range(len(releases))))
    hours = [(releases[index], truths[index]) for index in shown]
    rows = [
        [
            str(hour.start_text)[:16].replace("T", " "),
            *(best(hour), best(truth)),
            *(users(hour), f"{truth.count().value:,.0f}"),
        ]
        for hour, truth in hours
    ]
    table(["hour", "most visited, as released", "the truth", "users, 95 % interval", "the truth"], rows, left=3)
    store = shlex.quote(str(files["shop.db"]))
    say(
        "",
        f"Mean error of a share: {summary['error']:.1f} percentage points. (Guessing equal shares: "
        f"{summary['error_of_uniform']:.1f}.) Median error of the number of users: {summary['error_of_users']:.0f} %. "
        f"{summary['seconds']} s for {summary['hours']} hours.",
        str(summary["guarantee"]),
        "",
        f"Look at  {files['report.html']}" + ("" if picture is None else f" and {picture}"),
        f"Ask      dpi query {store} top 3",
        f"Check    dpi verify {store} --curator",
    )
