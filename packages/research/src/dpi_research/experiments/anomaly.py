"""Anomalies in network traffic, found in releases and in the truth (published: Figure "anomaly detection")."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import product

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from dpi.apps import Watch
from dpi.apps.scoring import Scorer
from dpi.exact.integers import Integers
from dpi.release import Release
from dpi.release.queries import Floats
from dpi_research.compare.contenders import as_pdf
from dpi_research.datasets import load
from dpi_research.evaluation import agreement, highest
from dpi_research.experiments import captioned
from dpi_research.reproduce.experiment import Case, Made, Rows, Sheet, Summary, Table, Value
from dpi_research.reproduce.figures import BESIDE, by_epsilon, cell, epsilons, finish, grid, legend, line, moving, whole
from dpi_research.reproduce.play import LABELS, SYSTEMS, System, open_stream
from dpi_research.reproduce.rows import column, distinct, mean, select
from dpi_research.reproduce.streams import RealStream, Recorded, by_clock, frequent, in_slots

SHARE = 0.05
EPSILONS = "0.1 0.2 0.5 1 2 5 10"
FOREST_EPSILONS = "0.1 0.5 2 10"
FOREST_LIST = FOREST_EPSILONS.replace(" ", ", ")
SHOWN = 2.0
"""The ε of what is shown over time."""
WINDOW = 20
"""Slots of a moving average."""
FOREST_MEMORY, FOREST_RENEW = 50, 14
"""Of the isolation forest, which costs fifty times what the histograms do: half the memory, half the models."""
NAMES = {"hbos": "HBOS", "forest": "isolation forest"}
PDFS = ("instantaneous", "accumulative")
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
    scored_slots = [scorer(pdf, None if variances is None else variances[slot]) for slot, pdf in enumerate(pdfs)]
    return np.stack([scored.score for scored in scored_slots if scored is not None])


def alerts(releases: Iterable[Release], first: int) -> set[int]:
    """The places of the cells on which the watch raises an alert; `first` is the first slot that has scores."""
    watch, places = Watch(share=SHARE), set()
    for slot, release in enumerate(releases):
        codes = {release.domain.label(code): code for code in range(release.domain.size)}
        places |= {(slot - first) * release.domain.size + codes[alert.value] for alert in watch(release)}
    return places


def compare_system(
    stream: str, slots: int, listed: int, system: System, detector: str, epsilons: str, seed: int
) -> Made:
    """Precision and recall at every ε, and slot by slot at the one that is shown."""
    real = stream_of(stream, slots, listed)
    truths = {"instantaneous": scores(detector, real.pdfs), "accumulative": scores(detector, real.accumulated)}
    rows: Made = []
    for epsilon in epsilons.split():
        mechanism = Recorded()
        opened = open_stream(system, real.domain, epsilon, seed=seed, boosted=mechanism)
        releases = [opened.release(users, values) for users, values in real.slots]
        head: dict[str, Value] = {"stream": stream, "epsilon": float(epsilon), "seed": seed, "detector": detector}
        for form, truth in truths.items():
            measured = _rows(system, releases, mechanism.noisy, detector, form, truth)
            series = seed == 0 and float(epsilon) == SHOWN
            rows += [{**head, **row} for row in measured if series or "slot" not in row]
    return rows


def _rows(
    system: System, releases: Sequence[Release], noisy: Sequence[Floats], detector: str, form: str, truth: Floats
) -> Made:
    """What a detector finds in releases of a system, against the scores of the truth.

    The published mechanism states no variance but the trivial bound, and accumulative PDFs come without: both are
    scored as they are; so is everything by the isolation forest, for which variances take five times as long.
    """
    first, wanted, now = len(releases) - len(truth), highest(truth, SHARE), form == "instantaneous"
    pdfs = [release.pdf if now else release.accumulated for release in releases]
    stated = now and system != "strict" and detector == "hbos"
    variances = [release.variance for release in releases] if stated else None
    chosen: dict[str, frozenset[int]] = {system: highest(scores(detector, pdfs, variances), SHARE)}
    if system == "ledger":
        counts = noisy if now else np.cumsum(noisy, axis=0)
        chosen["noisy"] = highest(scores(detector, [as_pdf(slot) for slot in counts]), SHARE)
        chosen["popular"] = highest(np.stack(pdfs[first:]), SHARE)
    rows: Made = [{"system": name, "form": form, **asdict(agreement(wanted, cells))} for name, cells in chosen.items()]
    if now and detector == "hbos":
        rows.append({"system": system, "form": "alerts", **asdict(agreement(wanted, alerts(releases, first)))})
    if now:
        by_slot = _by_slot(wanted, chosen[system], truth.shape, first)
        rows += [{"system": system, "form": "slot", **cells} for cells in by_slot]
    return rows


def _by_slot(wanted: Iterable[int], found: Iterable[int], shape: tuple[int, ...], first: int) -> Made:
    """How many cells of each slot are wanted, found, and both."""
    marks = np.zeros((2, *shape), dtype=bool)
    for mark, places in zip(marks, (wanted, found), strict=True):
        mark.ravel()[list(places)] = True
    sums = np.stack([*marks.sum(axis=2), marks.all(axis=0).sum(axis=1)])
    names = ("wanted", "found", "both")
    return [{"slot": first + i, **dict(zip(names, map(int, sums[:, i]), strict=True))} for i in range(shape[0])]


def cases(quick: bool) -> list[Case]:
    """One for each stream, system and detector; the histograms with a second seed."""
    sizes = {"packets": (6, 30), "honeypot": (40, 30)} if quick else {"packets": (30, 100), "honeypot": (189, 100)}
    every = list(product(sizes, reversed(SYSTEMS)))
    runs = [(stream, system, "hbos", "0.1 2 10" if quick else EPSILONS, 0) for stream, system in every]
    if quick:
        runs.append(("honeypot", "ledger", "forest", "2", 0))
    else:
        runs += [(stream, system, "hbos", EPSILONS, 1) for stream, system in every]
        runs += [(stream, system, "forest", FOREST_EPSILONS, 0) for stream, system in every]
    return [
        Case(
            compare_system,
            {"stream": stream, "slots": sizes[stream][0], "listed": sizes[stream][1], "system": system,
             "detector": detector, "epsilons": epsilons, "seed": seed},
            data=stream,
        )
        for stream, system, detector, epsilons, seed in runs
    ]  # fmt: skip


def sheet(rows: Rows) -> Sheet:
    """The share found by ε, precision and recall over time, and those of alerts."""
    streams = [str(name) for name in distinct(rows, "stream")]
    figures = {
        "epsilon": any(row["form"] in PDFS for row in rows) and _by_epsilon(rows, streams),
        "time": select(rows, form="slot") and _over_time(rows, streams),
        "alerts": select(rows, form="alerts") and _of_alerts(rows, streams),
    }
    return Sheet(
        found=_found(rows, streams),
        figures=captioned(__name__, figures),
        tables=(_table(rows, streams),),
        summary=tuple(_summary(rows, stream) for stream in streams),
    )


def _by_epsilon(rows: Rows, streams: list[str]) -> Figure:
    wanted = product(streams, PDFS, NAMES)
    parts = [(w, part) for w in wanted if (part := select(rows, stream=w[0], form=w[1], detector=w[2]))]
    figure, axes = grid(len(parts))
    for own, ((stream, form, detector), part) in zip(axes, parts, strict=True):
        by_epsilon(own, part, "recall", chance=SHARE)
        finish(own, f"{stream}, {form}, {detector}", "total ε", "share of the cells found", log_x=True)
    legend(figure, axes[0])
    return figure


def _over_time(rows: Rows, streams: list[str]) -> Figure:
    wanted = product(streams, NAMES, ("precision", "recall"))
    parts = [(w, part) for w in wanted if (part := select(rows, stream=w[0], detector=w[1], form="slot"))]
    figure, axes = grid(len(parts))
    for own, ((stream, detector, measure), part) in zip(axes, parts, strict=True):
        for system in distinct(part, "system"):
            of = "found" if measure == "precision" else "wanted"
            slots, both, marked = (column(select(part, system=system), name) for name in ("slot", "both", of))
            with np.errstate(invalid="ignore", divide="ignore"):
                share = moving(both, WINDOW) / moving(marked, WINDOW)
            line(own, slots, share, str(system))
        line(own, [slots[0], slots[-1]], [SHARE, SHARE], "uniform")
        finish(own, f"{stream}, {detector}", "slot", f"{measure}, {WINDOW} slots")
        whole(own)
    legend(figure, axes[0])
    return figure


def _of_alerts(rows: Rows, streams: list[str]) -> Figure:
    figure, axes = grid(2 * len(streams))
    for own, (stream, measure) in zip(axes, product(streams, ("precision", "recall")), strict=True):
        by_epsilon(own, select(rows, stream=stream, form="alerts"), measure)
        finish(own, f"{stream}, alerts", "total ε", measure, log_x=True)
    legend(figure, axes[0])
    return figure


def _table(rows: Rows, streams: list[str]) -> Table:
    systems = (*SYSTEMS, *BESIDE)
    lines = []
    for stream, detector, form in product(streams, NAMES, PDFS):
        own = select(rows, stream=stream, detector=detector, form=form, epsilon=SHOWN)
        cells = [cell(own, "recall", system=system) for system in systems]
        if own:
            lines.append((STREAMS[stream], NAMES[detector], form, *cells, f"{SHARE:.2f}"))
    columns = ("stream", "detector", "PDFs", *(LABELS[system] for system in (*systems, "uniform")))
    return Table(f"Share of the cells found, ε = {SHOWN:g}", columns, tuple(lines))


def _summary(rows: Rows, stream: str) -> Summary:
    own = select(rows, stream=stream, detector="hbos", form="instantaneous", epsilon=SHOWN)
    cells = {system: cell(own, "recall", system=system) for system in SYSTEMS}
    title = f"anomalies found, {STREAMS[stream]}, HBOS, ε = {SHOWN:g}"
    return Summary(title, "“accurately”, no number", f"{SHARE:.2f}", **cells)


def _found(rows: Rows, streams: list[str]) -> tuple[str, ...]:
    sentences = []
    for stream in streams:
        own = select(rows, stream=stream, detector="hbos")
        if not own:
            continue
        low, high = epsilons(own)[0], epsilons(own)[-1]
        slotwise = select(own, form="instantaneous")
        ends = [
            f"{LABELS[system]} {cell(slotwise, 'recall', system=system, epsilon=low)} → "
            f"{cell(slotwise, 'recall', system=system, epsilon=high)}"
            for system in (*SYSTEMS, *BESIDE)
        ]
        sentences.append(
            f"{STREAMS[stream]}, HBOS, from ε = {low:g} to {high:g}: {'; '.join(ends)}; a uniform guess {SHARE:.2f}."
        )
        at = select(own, system="ledger", epsilon=SHOWN)
        now, later = (mean(at, "recall", form=form) for form in PDFS)
        if not np.isnan(now + later):
            sentences.append(
                f"That accumulative PDFs show anomalies better than instantaneous ones {_verdict(later > now)} there "
                f"for the ledger at ε = {SHOWN:g}: {later:.2f} against {now:.2f}."
            )
        for name in BESIDE:
            beside = mean(slotwise, "recall", system=name, epsilon=SHOWN)
            if not np.isnan(now + beside):
                sentences.append(
                    f"That the ledger's release finds more than {LABELS[name]} {_verdict(now > beside)} there at "
                    f"ε = {SHOWN:g}: {now:.2f} against {beside:.2f}."
                )
        worse = [LABELS[s] for s in SYSTEMS if mean(slotwise, "recall", system=s, epsilon=SHOWN) <= SHARE]
        if worse:
            sentences.append(f"No better than chance there at ε = {SHOWN:g}: {', '.join(worse)}.")
    return tuple(sentences)


def _verdict(true: bool) -> str:
    return "holds" if true else "does not hold"
