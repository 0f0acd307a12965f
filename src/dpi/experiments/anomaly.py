"""Anomalies in network traffic, found in releases and in the truth (published: Figure "anomaly detection")."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from dpi.apps import Watch
from dpi.apps.evaluation import Agreement, agreement, highest
from dpi.apps.scoring import Scorer
from dpi.compare.contenders import as_pdf
from dpi.datasets import load
from dpi.integers import Integers
from dpi.queries import Floats
from dpi.release import Release
from dpi.reproduce.drawing import finish, legend, line, moving, panels
from dpi.reproduce.experiment import Case, Experiment, Rows, Sheet, Summary, Table, Value
from dpi.reproduce.real import RealStream, Recorded, by_clock, frequent, in_slots
from dpi.reproduce.selecting import average, distinct, where
from dpi.reproduce.systems import LABELS, SYSTEMS, System, open_stream

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARE = 0.05
EPSILONS = ("0.1", "0.2", "0.5", "1", "2", "5", "10")
FOREST_EPSILONS = "0.1 0.5 2 10"
SHOWN = 2.0
"""The ε of what is shown over time."""
WINDOW = 20
"""Slots of a moving average."""
FOREST_MEMORY, FOREST_RENEW = 50, 14
"""Of the isolation forest, which costs fifty times what the histograms do: half the memory, half the models."""
NAMES = {"hbos": "HBOS", "forest": "isolation forest"}
STREAMS = {"packets": "DDoS captures, source ports", "honeypot": "honeypot, destination ports"}


def stream_of(name: str, slots: int, listed: int) -> RealStream:
    """The events of one of the streams: so many slots of a capture, or so many days of the honeypot."""
    if name == "packets":
        table = load("packets").drop_nulls(["user", "spt"]).sort("timestamp")
        return RealStream(frequent(table, "spt", listed), in_slots(table, by_capture(table, slots), ["spt"]))
    table = load("honeypot").drop_nulls(["user", "value"])
    numbers = by_clock(table, "1d")
    table, numbers = table.filter(pl.Series(numbers < slots)), numbers[numbers < slots]
    return RealStream(frequent(table, "value", listed), in_slots(table, numbers, ["value"]))


def by_capture(table: pl.DataFrame, slots: int) -> Integers:
    """The slot of each packet: captures, which are hours apart, follow on each other, each cut into as many slots.

    >>> from datetime import datetime
    >>> times = [datetime(2021, 4, 1), datetime(2021, 4, 1, 0, 0, 9), datetime(2021, 6, 5), datetime(2021, 6, 5, 0, 1)]
    >>> by_capture(pl.DataFrame({"timestamp": times}), 2).tolist()
    [0, 1, 2, 3]
    """
    moments = table["timestamp"].dt.epoch("us").to_numpy()
    captures = np.concatenate([[0], np.cumsum(np.diff(moments) > 3_600 * 10**6)])
    starts = np.searchsorted(captures, np.arange(captures[-1] + 1))
    lasts = np.append(starts[1:], moments.size) - 1
    since, span = moments - moments[starts][captures], (moments[lasts] - moments[starts] + 1)[captures]
    return np.asarray(captures * slots + since * slots // span, dtype=np.int64)


def scores(detector: str, pdfs: Sequence[Floats], variances: Sequence[Floats] | None = None) -> Floats:
    """A row of scores for each slot that has them; the first ones have none."""
    scorer = Scorer(detector, memory=FOREST_MEMORY, renew=FOREST_RENEW) if detector == "forest" else Scorer(detector)
    found = [scorer(pdf, None if variances is None else variances[slot]) for slot, pdf in enumerate(pdfs)]
    return np.stack([scored.score for scored in found if scored is not None])


def alerts(releases: Iterable[Release], first: int) -> set[int]:
    """The places of the cells on which the watch raises an alert; `first` is the first slot that has scores."""
    watch, places = Watch(share=SHARE), set()
    for slot, release in enumerate(releases):
        codes = {release.domain.label(code): code for code in range(release.domain.size)}
        places |= {(slot - first) * release.domain.size + codes[alert.value] for alert in watch(release)}
    return places


def compared(
    stream: str, slots: int, listed: int, system: System, epsilons: str, forest: str, seed: int
) -> list[dict[str, Value]]:
    """Precision and recall at every ε, those of the isolation forest at some of them, slot by slot at the one shown."""
    real = stream_of(stream, slots, listed)
    truths = {
        (detector, form): scores(detector, pdfs)
        for detector in (["hbos", "forest"] if forest else ["hbos"])
        for form, pdfs in (("instantaneous", real.pdfs), ("accumulative", real.accumulated))
    }
    rows: list[dict[str, Value]] = []
    for epsilon in epsilons.split():
        brain = Recorded()
        opened = open_stream(system, real.domain, epsilon, seed=seed, boosted=brain)
        releases = [opened.release(users, values) for users, values in real.slots]
        for (detector, form), truth in truths.items():
            if detector == "hbos" or epsilon in forest.split():
                head: dict[str, Value] = {"stream": stream, "epsilon": float(epsilon), "detector": detector}
                found = _rows(system, releases, brain.noisy, detector, form, truth, series=seed == 0)
                rows += [{**head, "seed": seed, **row} for row in found if "slot" not in row or float(epsilon) == SHOWN]
    return rows


def _rows(
    system: System,
    releases: Sequence[Release],
    noisy: Sequence[Floats],
    detector: str,
    form: str,
    truth: Floats,
    *,
    series: bool,
) -> list[dict[str, Value]]:
    """What a detector finds in releases of a system, against the scores of the truth.

    The published brain states no variance but the trivial bound, and accumulative PDFs come without: both are scored
    as they are.
    """
    first, wanted, now = len(releases) - len(truth), highest(truth, SHARE), form == "instantaneous"
    pdfs = [release.pdf if now else release.accumulated for release in releases]
    variances = [release.variance for release in releases] if now and system != "strict" else None
    found = {system: highest(scores(detector, pdfs, variances), SHARE)}
    if system == "ledger":
        counts = noisy if now else np.cumsum(noisy, axis=0)
        found["noisy"] = highest(scores(detector, [as_pdf(slot) for slot in counts]), SHARE)
        found["popular"] = highest(np.stack(pdfs[first:]), SHARE)
    rows = [{"system": name, "form": form, **_measured(agreement(wanted, cells))} for name, cells in found.items()]
    if now and detector == "hbos":
        rows.append({"system": system, "form": "alerts", **_measured(agreement(wanted, alerts(releases, first)))})
    if now and series:
        rows += [
            {"system": system, "form": "slot", **cells} for cells in _by_slot(wanted, found[system], truth.shape, first)
        ]
    return rows


def _measured(both: Agreement) -> dict[str, Value]:
    return {"precision": both.precision, "recall": both.recall}


def _by_slot(wanted: Iterable[int], found: Iterable[int], shape: tuple[int, ...], first: int) -> list[dict[str, Value]]:
    """How many cells of each slot are wanted, found, and both."""
    marks = np.zeros((2, *shape), dtype=bool)
    for mark, places in zip(marks, (wanted, found), strict=True):
        mark.ravel()[list(places)] = True
    sums = np.stack([*marks.sum(axis=2), marks.all(axis=0).sum(axis=1)])
    names = ("wanted", "found", "both")
    return [{"slot": first + i, **dict(zip(names, map(int, sums[:, i]), strict=True))} for i in range(shape[0])]


def cases(quick: bool) -> list[Case]:
    """One for each stream and system; the histograms with a second seed."""
    if quick:
        sizes, epsilons, seeds = {"packets": (6, 30), "honeypot": (40, 30)}, "0.1 2 10", (0,)
    else:
        sizes, epsilons, seeds = {"packets": (30, 100), "honeypot": (189, 100)}, " ".join(EPSILONS), (0, 1)

    def forest(stream: str, system: System, seed: int) -> str:
        if quick:
            return "2" if (stream, system) == ("honeypot", "ledger") else ""
        return FOREST_EPSILONS if seed == 0 else ""

    return [
        Case(
            compared,
            {"stream": stream, "slots": slots, "listed": listed, "system": system, "epsilons": epsilons,
             "forest": forest(stream, system, seed), "seed": seed},
            data=stream,
        )
        for seed in seeds
        for stream, (slots, listed) in sizes.items()
        for system in reversed(SYSTEMS)
    ]  # fmt: skip


def sheet(rows: Rows) -> Sheet:
    """The share found by ε, precision and recall over time, and those of alerts."""
    streams = [str(name) for name in distinct(rows, "stream")]
    figures = {
        "epsilon": (_by_epsilon(rows, streams), f"Which part of the {SHARE:.0%} of cells with the highest true score "
                    "is among as many with the highest score on what is released, by total ε. The sets have one size, "
                    "so this is precision and recall."),
        "time": (_over_time(rows, streams), f"Precision and recall within {WINDOW} slots, ε = {SHOWN:g}."),
        "alerts": (_of_alerts(rows, streams), "Alerts of `dpi.apps.Watch` (HBOS): which part of them is wanted, and "
                   "which part of the wanted cells has one. Where there is no alert, both are 0."),
    }  # fmt: skip
    return Sheet(
        found=_found(rows, streams),
        figures=figures,
        tables=(_table(rows, streams),),
        summary=tuple(_summary(rows, stream) for stream in streams),
    )


def _by_epsilon(rows: Rows, streams: list[str]) -> Figure:
    columns = [(d, f) for f in ("instantaneous", "accumulative") for d in NAMES]
    figure, axes = panels(len(columns), len(streams), width=3.1)
    for place, (stream, (detector, form)) in enumerate(product(streams, columns)):
        own = where(rows, stream=stream, detector=detector, form=form)
        for system in (*SYSTEMS, "noisy", "popular"):
            points = [(e, average(own, "recall", system=system, epsilon=e)) for e in sorted(_epsilons(own))]
            known = [(e, y) for e, y in points if y is not None]
            line(axes[place], [e for e, _ in known], [y for _, y in known], system)
        ends = sorted(_epsilons(rows))
        line(axes[place], [ends[0], ends[-1]], [SHARE, SHARE], "uniform")
        title = f"{stream}, {NAMES[detector]}, {form}"
        finish(axes[place], title, "total ε", "share of the cells found", log_x=True)
        axes[place].title.set_fontsize(8.5)
        axes[place].set_ylim(-0.03, 1.03)
    legend(figure, axes[0])
    return figure


def _over_time(rows: Rows, streams: list[str]) -> Figure:
    columns = [(d, m) for d in NAMES for m in ("precision", "recall")]
    figure, axes = panels(len(columns), len(streams), width=3.1)
    for place, (stream, (detector, measure)) in enumerate(product(streams, columns)):
        for system in SYSTEMS:
            own = where(rows, stream=stream, detector=detector, form="slot", system=system)
            base, both = (
                np.array([float(row[name] or 0) for row in own])
                for name in ("found" if measure == "precision" else "wanted", "both")
            )
            with np.errstate(invalid="ignore", divide="ignore"):
                share = moving(both, WINDOW) / moving(base, WINDOW)
            line(axes[place], [float(row["slot"] or 0) for row in own], share, system)
        line(
            axes[place],
            [0, max(int(row["slot"] or 0) for row in where(rows, stream=stream, form="slot"))],
            [SHARE] * 2,
            "uniform",
        )
        finish(axes[place], f"{stream}, {NAMES[detector]}", "slot", f"{measure}, {WINDOW} slots")
        axes[place].title.set_fontsize(8.5)
        axes[place].set_ylim(-0.03, 1.03)
    legend(figure, axes[0])
    return figure


def _of_alerts(rows: Rows, streams: list[str]) -> Figure:
    figure, axes = panels(2 * len(streams), width=3.1)
    for place, (stream, measure) in enumerate(product(streams, ("precision", "recall"))):
        own = where(rows, stream=stream, form="alerts")
        for system in SYSTEMS:
            epsilons = sorted(_epsilons(where(own, system=system)))
            line(axes[place], epsilons, [average(own, measure, system=system, epsilon=e) for e in epsilons], system)
        finish(axes[place], f"{stream}, alerts", "total ε", measure, log_x=True)
        axes[place].set_ylim(-0.03, 1.03)
    legend(figure, axes[0])
    return figure


def _epsilons(rows: Rows) -> list[float]:
    return [float(e) for e in distinct(rows, "epsilon") if e is not None]


def _share(rows: Rows, **wanted: Value) -> str:
    found = average(rows, "recall", **wanted)
    return "–" if found is None else f"{found:.2f}"


def _table(rows: Rows, streams: list[str]) -> Table:
    systems = ("strict", "converging", "ledger", "noisy", "popular")
    lines = [
        (
            STREAMS[stream], NAMES[detector], form,
            *(_share(rows, stream=stream, detector=detector, form=form, epsilon=SHOWN, system=s) for s in systems),
            f"{SHARE:.2f}",
        )
        for stream, detector, form in product(streams, NAMES, ("instantaneous", "accumulative"))
    ]  # fmt: skip
    columns = ("stream", "detector", "PDFs", *(LABELS[system] for system in (*systems, "uniform")))
    return Table(f"Share of the cells found, ε = {SHOWN:g}", columns, tuple(lines))


def _summary(rows: Rows, stream: str) -> Summary:
    at = {"stream": stream, "detector": "hbos", "form": "instantaneous", "epsilon": SHOWN}
    return Summary(
        f"anomalies found, {STREAMS[stream]}, HBOS, ε = {SHOWN:g}",
        published="“accurately”, no number",
        uniform=f"{SHARE:.2f}",
        **{system: _share(rows, system=system, **at) for system in SYSTEMS},
    )


def _found(rows: Rows, streams: list[str]) -> tuple[str, ...]:
    sentences = []
    for stream in streams:
        own = where(rows, stream=stream, detector="hbos")
        low, high = min(_epsilons(own)), max(_epsilons(own))
        ends = [
            f"{LABELS[system]} {_share(own, system=system, form='instantaneous', epsilon=low)} → "
            f"{_share(own, system=system, form='instantaneous', epsilon=high)}"
            for system in (*SYSTEMS, "noisy", "popular")
        ]
        sentences.append(
            f"{STREAMS[stream]}, HBOS, from ε = {low:g} to {high:g}: {'; '.join(ends)}; a uniform guess {SHARE:.2f}."
        )
        now, later = (
            average(own, "recall", system="ledger", form=form, epsilon=SHOWN)
            for form in ("instantaneous", "accumulative")
        )
        if now is not None and later is not None:
            verdict = "holds" if later > now else "does not hold"
            sentences.append(
                f"“Accumulative … relatively better … than instantaneous” {verdict} there for the ledger at "
                f"ε = {SHOWN:g}: {later:.2f} against {now:.2f}."
            )
        worse = [
            LABELS[system]
            for system in SYSTEMS
            if (share := average(own, "recall", system=system, form="instantaneous", epsilon=SHOWN)) is not None
            and share <= SHARE
        ]
        if worse:
            sentences.append(f"No better than chance there at ε = {SHOWN:g}: {', '.join(worse)}.")
    return tuple(sentences)


EXPERIMENT = Experiment(
    name="anomaly",
    title="Anomaly detection",
    published="“The Precision and Recall of both HBOS and Isolation Forest increase linearly with a growing ε”; "
    "anomaly detection “can be accurately performed by dynamically tracking the new data”; “over all the time slots "
    "(accumulative) tends to show relatively better results than that in specific time slots (instantaneous)”. "
    "Non-private results are the ground truth. Numbers are not printed.",
    setting="A cell is one value in one slot, described by how its share has changed (`dpi.apps`). Wanted are the "
    f"{SHARE:.0%} of cells with the highest score on the true user-weighted PDFs, found are as many with the highest "
    "score by the same detector on what is released; of equal scores the earlier ones. Beside the systems: the "
    "ledger's own measurements as a noisy histogram, and popularity, the cells with the largest released share.",
    deviations=(
        "The published domain are 65,534 source addresses. Here a source address is the *user*, whom the promise "
        "protects, and is therefore never a value: values are ports, the 100 most frequent ones and the rest.",
        "The published capture (1 hour, 2,700 slots, 5,074,413 records) is not at hand. `packets` are eight DDoS "
        "captures of 0.02 to 818 seconds with 77,645 packets that have a port; they follow on each other, each cut "
        "into 30 slots of one length (240 slots in all). `honeypot` has 189 days, a slot each.",
        "The published threshold of a score is not printed. Here it is a share of the cells, so that precision and "
        "recall over all slots are one number; they are two within some slots, and for alerts.",
        f"The isolation forest has a memory of {FOREST_MEMORY} slots and a new model every {FOREST_RENEW} (elsewhere "
        f"100 and 7), runs at ε = {', '.join(FOREST_EPSILONS.split())}, one seed; HBOS at all ε, two seeds.",
        "Boosted releases are scored with their variances, the published brain without: it states none.",
    ),
    cases=cases,
    sheet=sheet,
)
