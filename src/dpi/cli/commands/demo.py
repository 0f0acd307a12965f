"""`dpi demo`: the main job on a made-up shop: releases for three weeks of hours, a store, a report."""

from __future__ import annotations

import shlex
import time
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import numpy as np

from dpi import demo as shop
from dpi.cli._outfile import OutFile
from dpi.cli.commands.report import write_page
from dpi.cli.options import Json
from dpi.cli.output import Bars, document, say, table
from dpi.cli.signals import Signals
from dpi.cli.streams import OpenedStoreSettings, play
from dpi.domain import Categories
from dpi.errors import OptionError, StateError
from dpi.histogram.compression import compress
from dpi.mechanism.base import Floats
from dpi.reader import Releases, open
from dpi.release import Release
from dpi.settings.declaration import Setting
from dpi.settings.streams import StreamSettings
from dpi.sources import read
from dpi.store import open_store

NAME = "demo shop"
DAYS = 21


def demo(
    folder: Annotated[Path, Setting("FOLDER", "Where files go.")] = Path("dpi-demo"),
    days: Annotated[int, Setting("N", "How many days, 1 to 60.")] = DAYS,
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
    pl.concat(hours).write_parquet(files["visits.parquet"])
    files["pages.txt"].write_text("\n".join(shop.PAGES) + "\n")
    begin, end = shop.START.isoformat()[:10], (shop.START.date() + timedelta(days=days)).isoformat()
    events = read(files["visits.parquet"], user="user", time="at", value="page")
    domain = Categories(shop.PAGES)
    if not json:
        say(f"{24 * days} hours of a made-up shop, {domain.size} pages, ε = 1 per visitor for ever. The same as:", "")
        say(*_command(files, begin, end), "")
    began = time.perf_counter()
    settings = StreamSettings(name=NAME, domain=domain, epsilon="1", slot="1h", begin=begin, season=24)
    with Signals() as signals, OpenedStoreSettings(store=str(files["shop.db"])).open(None) as store:
        stream = settings.open(store)
        first = stream.next_slot
        stored = Releases(stream.store, NAME)
        with (
            OutFile(files["releases.parquet"], stored, first, first + 24 * days) as out,
            Bars(events.size, 24 * days, quiet=json) as bars,
        ):
            play(stream, events, first + 24 * days, out, signals, bars, 1 << 30)
        seconds = time.perf_counter() - began
        guarantee = stream.guarantee
    with open(files["shop.db"], NAME) as stored:
        problems = write_page(stored, files["report.html"], "A made-up shop", None)
        releases = list(stored)
    if problems:
        raise StateError(problems[0])
    picture = _picture(releases, folder / "shop.svg")
    truths = [compress(hour["user"], hour["page"], domain).grains.astype(np.float64) for hour in hours]
    errors = [divergence(truth / truth.sum(), release.pdf) for truth, release in zip(truths, releases, strict=True)]
    guess = [divergence(truth / truth.sum(), np.full(domain.size, 1 / domain.size)) for truth in truths]
    found = {
        "hours": len(releases),
        "seconds": round(seconds, 1),
        "divergence": float(np.mean(errors)),
        "divergence_of_uniform": float(np.mean(guess)),
        "epsilon_spent": releases[-1].epsilon_spent,
        "guarantee": guarantee,
        "files": [str(path) for path in (*files.values(), *([picture] if picture else []))],
    }
    if json:
        document(found)
        return
    _print(releases, truths, found, files, picture)


def divergence(truth: Floats, guess: Floats) -> float:
    """KL(truth ‖ guess)."""
    some = truth > 0
    return float(truth[some] @ np.log(truth[some] / np.maximum(guess[some], 1e-12)))


def _clear(files: dict[str, Path]) -> None:
    """Begin anew, without the store of an earlier demo; its visitors are made up, so nobody's account is refilled."""
    path = files["shop.db"]
    if path.exists():
        with open_store(path, read_only=True) as store:
            if set(store.streams()) - {NAME}:
                raise OptionError(f"{path} is not the store of a demo; name another `--folder`.")
        for suffix in ("", ".key", ".lock", "-wal", "-shm", ".witness", ".witness.lock"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        files["releases.parquet"].unlink(missing_ok=True)
    elif any(other.exists() for other in files.values()):
        raise OptionError(f"{path.parent} holds files of something else; name another `--folder`.")
    open_store(path).close()  # first of all files: it tells that the others are a demo's


def _command(files: dict[str, Path], begin: str, end: str) -> list[str]:
    """The run that a demo is, in lines that a shell takes."""
    visits, pages, store, releases = (
        shlex.quote(str(files[name])) for name in ("visits.parquet", "pages.txt", "shop.db", "releases.parquet")
    )
    return [
        f"  dpi run {visits} --time at --value page --domain {pages} \\",
        f"      --slot 1h --season 24 --from {begin} --to {end} --epsilon 1 \\",
        f"      --store {store} --name {shlex.quote(NAME)} --out {releases}",
    ]


def _picture(releases: list[Release], path: Path) -> Path | None:
    """The series as a picture, if matplotlib is there."""
    from dpi.release.series_plot import plot_series

    try:
        plot_series(releases).savefig(path)
    except OptionError:
        return None
    return path


def _print(
    releases: list[Release],
    truths: list[Floats],
    found: dict[str, object],
    files: dict[str, Path],
    picture: Path | None,
) -> None:
    shown = sorted({0, 60, shop.CROWD[0] - 1, shop.CROWD[1], len(releases) - 1} & set(range(len(releases))))
    rows = []
    for index in shown:
        truth = truths[index] / truths[index].sum()
        best = np.argsort(-truth, kind="stable")[:3]
        rows.append(
            [
                (releases[index].start_text or "")[:16].replace("T", " "),
                ", ".join(f"{label} {share:.3f}" for label, share in releases[index].top(3)),
                ", ".join(f"{releases[index].domain.label(int(code))} {truth[code]:.3f}" for code in best),
            ]
        )
    table(["hour", "most visited, as released", "the truth"], rows, left=3)
    say(
        "",
        f"Mean divergence from the truth: {found['divergence']:.4f}; of a uniform guess: "
        f"{found['divergence_of_uniform']:.3f}. {found['seconds']} s for {found['hours']} hours.",
        str(found["guarantee"]),
        "",
        f"Look at  {files['report.html']}" + ("" if picture is None else f" and {picture}"),
        f"Ask      dpi query {shlex.quote(str(files['shop.db']))} top 3",
        f"Check    dpi verify {shlex.quote(str(files['shop.db']))} --curator",
    )
