"""Recommendations from releases and from the truth (published: Figure "recommender system")."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from statistics import fmean

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from dpi.apps import Recommender
from dpi.apps.scoring import import_learn
from dpi.budget import Ledger
from dpi.domain import Categories, Domain, Product
from dpi.release import Release
from dpi.release.queries import Distribution
from dpi_research.compare.contenders import as_pdf
from dpi_research.datasets import load
from dpi_research.evaluation import agreement
from dpi_research.experiments import captioned
from dpi_research.reproduce.experiment import Case, Made, Rows, Sheet, Summary, Table, Value
from dpi_research.reproduce.figures import BESIDE, by_epsilon, cell, epsilons, finish, grid, legend, line, moving, whole
from dpi_research.reproduce.play import LABELS, SYSTEMS, System, open_stream
from dpi_research.reproduce.rows import course, mean, select
from dpi_research.reproduce.streams import RealStream, Recorded, by_clock, frequent, in_slots

BEST, FEW, MANY = 10, 5, 20
"""Wanted are the ten best; precision is also taken of the five best found, recall of the twenty best."""
EPSILONS = ("0.1", "0.2", "0.5", "1", "2", "5", "10")
SHOWN = 2.0
"""The ε of what is shown over time."""
POINTS = 27
"""Slots after which recommendations are made, at most."""
WINDOW = 3
"""Of them in a moving average."""
ALGORITHMS = {"svd": "SVD", "kmeans": "K-means"}
STREAMS = {
    "psd": "USDA PSD, a record is a user",
    "psd-series": "USDA PSD, a series is a user",
    "honeypot": "honeypot, ports of hosts",
    "retail": "shop, products of countries",
}
ONCE = ("psd",)
"""Where nobody is seen twice, which the ledger is told."""
CLAIMED = 0.9
ITEMS = 200
GROUPS = {"psd": 20, "psd-series": 20, "honeypot": 9, "retail": 8}


def stream_of(name: str, groups: int, items: int) -> RealStream:
    """Pairs (group, item) of one of the streams: the most frequent groups, and of items those and the rest."""
    if name.startswith("psd"):
        table = load("psd").filter(pl.col("value") > 0).rename({"commodity": "group", "country": "item"})
        table = table.with_columns(timestamp=pl.datetime(pl.col("timestamp"), 1, 1))
        numbers = (table["timestamp"].dt.year() - table["timestamp"].dt.year().min()).to_numpy().astype(np.int64)
        if name == "psd":
            table = table.with_columns(user=pl.int_range(pl.len()))
    else:
        table = load(name).drop_nulls(["user", "value"])
        table = table.rename({"host" if name == "honeypot" else "country": "group", "value": "item"})
        numbers = by_clock(table, "7d" if name == "honeypot" else "28d")
    group = frequent(table, "group", groups, other=False)
    listed = table["group"].is_in(group.values)
    table, numbers = table.filter(listed), numbers[listed.to_numpy()]
    domain = Product(group=group, item=frequent(table, "item", items))
    return RealStream(domain, in_slots(table, numbers, ["group", "item"]))


def rank_items(known: Sequence[Release] | Distribution, algorithm: str) -> list[list[str]]:
    """The best items of every group, the best first."""
    if algorithm == "svd":
        domain = known.domain if isinstance(known, Distribution) else known[-1].domain
        made = Recommender(known, group="group", item="item")
        return [[answer.item for answer in made.top(group, MANY)] for group in parts(domain)[0]]
    if not isinstance(known, Distribution):
        known = Distribution(known[-1].domain, known[-1].accumulated, known[-1].variance)
    return cluster_groups(known)


def cluster_groups(known: Distribution) -> list[list[str]]:
    """K-means: √groups clusters of like taste; a group gets what is most frequent in its cluster."""
    groups, items = parts(known.domain)
    shares = known.pdf.reshape(len(groups), -1)
    sizes = np.maximum(shares.sum(axis=1), 1e-300)
    means = import_learn("cluster").KMeans(n_clusters=round(len(groups) ** 0.5), n_init=10, random_state=0)
    labels = means.fit_predict(np.sqrt(shares / sizes[:, None]), sample_weight=sizes)
    return [top(shares[labels == own].sum(axis=0), items) for own in labels]


def top(shares: np.ndarray, items: Sequence[str]) -> list[str]:
    """The items with the largest shares, the rest not among them.

    >>> top(np.array([0.1, 0.3, 0.6]), ["a", "b"])
    ['b', 'a']
    """
    return [items[code] for code in np.argsort(-shares[: len(items)], kind="stable")[:MANY]]


def parts(domain: Domain) -> tuple[list[str], list[str]]:
    """The groups and the listed items of a domain."""
    assert isinstance(domain, Product)  # noqa: S101 - made by `stream_of`
    group, item = domain.parts["group"], domain.parts["item"]
    assert isinstance(group, Categories)  # noqa: S101
    assert isinstance(item, Categories)  # noqa: S101
    return group.values, item.values


def measure_lists(wanted: list[list[str]], found: list[list[str]]) -> dict[str, Value]:
    """Means over groups. The ten best of both are sets of one size, so that `share` is precision and recall.

    >>> measure_lists([["a", "b"]], [["b", "c"]])
    {'share': 0.5, 'precision': 0.5, 'recall': 0.5}
    """
    pairs = list(zip(wanted, found, strict=True))
    return {
        "share": fmean(agreement(one[:BEST], other[:BEST]).recall for one, other in pairs),
        "precision": fmean(agreement(one[:BEST], other[:FEW]).precision for one, other in pairs),
        "recall": fmean(agreement(one[:BEST], other[:MANY]).recall for one, other in pairs),
    }


def compare_system(
    stream: str, groups: int, items: int, system: System, epsilons: str, seed: int, points: int = POINTS
) -> Made:
    """What is found after the last slot at every ε, and after some slots at the one that is shown."""
    real = stream_of(stream, groups, items)
    nothing, last = np.zeros(real.domain.size), len(real.slots) - 1
    places = sorted({*np.linspace(0, last, points).astype(int).tolist()}) if seed == 0 else [last]
    truths = {
        (algorithm, place): rank_items(Distribution(real.domain, real.accumulated[place], nothing), algorithm)
        for algorithm in ALGORITHMS
        for place in places
    }
    rows: Made = []
    for epsilon in epsilons.split():
        mechanism = Recorded()
        ledger = Ledger(returning=stream not in ONCE)
        opened = open_stream(system, real.domain, epsilon, seed=seed, boosted=mechanism, ledger=ledger)
        releases = [opened.release(users, values) for users, values in real.slots]
        for (algorithm, place), wanted in truths.items():
            if place < last and float(epsilon) != SHOWN:
                continue
            head: dict[str, Value] = {
                "stream": stream, "epsilon": float(epsilon), "seed": seed, "algorithm": algorithm, "slot": place + 1,
                "last": int(place == last), "items": items,
            }  # fmt: skip
            so_far = releases[: place + 1]
            lists = {name: rank_items(known, algorithm) for name, known in _known(system, so_far, mechanism).items()}
            if system == "ledger":
                lists["popular"] = popular(real, place)
            rows += [{**head, "system": name, **measure_lists(wanted, best)} for name, best in lists.items()]
    return rows


def popular(real: RealStream, place: int) -> list[list[str]]:
    """The same for every group: what is truly most frequent among all of them, without noise."""
    groups, items = parts(real.domain)
    return [top(real.accumulated[place].reshape(len(groups), -1).sum(axis=0), items)] * len(groups)


def _known(system: System, releases: list[Release], mechanism: Recorded) -> dict[str, list[Release] | Distribution]:
    """What recommendations are made of.

    The published mechanism states no variance but the trivial bound, by which every group would be unknown: its PDFs
    are taken as they are.
    """
    domain, nothing = releases[-1].domain, np.zeros(releases[-1].domain.size)
    if system == "strict":
        return {system: Distribution(domain, releases[-1].accumulated, nothing)}
    if system == "converging":
        return {system: releases}
    noisy = as_pdf(np.sum(mechanism.noisy[: len(releases)], axis=0))
    return {system: releases, "noisy": Distribution(domain, noisy, nothing)}


def cases(quick: bool) -> list[Case]:
    """One for each stream, system and seed."""
    streams = ("psd", "honeypot") if quick else tuple(STREAMS)
    epsilons = "0.1 2 10" if quick else " ".join(EPSILONS)
    return [
        Case(
            compare_system,
            {"stream": stream, "groups": 6 if quick else GROUPS[stream], "items": ITEMS, "system": system,
             "epsilons": epsilons, "seed": seed, **({"points": 6} if quick else {})},
            data=stream.partition("-")[0],
        )
        for stream in streams
        for system in reversed(SYSTEMS)
        for seed in ((0,) if quick else (0, 1))
    ]  # fmt: skip


def sheet(rows: Rows) -> Sheet:
    """The share found by ε and over time, and precision and recall of shorter and longer lists."""
    streams = [name for name in STREAMS if select(rows, stream=name)]
    figures = {
        "epsilon": _by_epsilon(rows, streams),
        "time": select(rows, epsilon=SHOWN, seed=0) and _over_time(rows, streams),
        "lists": select(rows, algorithm="svd") and _by_length(rows, streams),
    }
    return Sheet(
        found=_found(rows, streams),
        figures=captioned(__name__, figures),
        tables=(_table(rows, streams),),
        summary=tuple(_summary(rows, stream) for stream in streams),
    )


def _parts(rows: Rows, streams: list[str]) -> list[tuple[str, Rows]]:
    """The rows of each stream and algorithm that has some, with a title."""
    every = product(ALGORITHMS, streams)
    parts = [(f"{stream}, {ALGORITHMS[a]}", select(rows, stream=stream, algorithm=a)) for a, stream in every]
    return [(title, part) for title, part in parts if part]


def _by_epsilon(rows: Rows, streams: list[str]) -> Figure:
    return _lists(_parts(select(rows, last=1), streams), ("share", BEST, f"share of the {BEST} best"))


def _by_length(rows: Rows, streams: list[str]) -> Figure:
    lists = ("precision", BEST, f"precision of {FEW}"), ("recall", MANY, f"recall of {MANY}")
    return _lists(_parts(select(rows, last=1, algorithm="svd"), streams), *lists)


def _lists(parts: list[tuple[str, Rows]], *measures: tuple[str, int, str]) -> Figure:
    """A panel for every measure and part; with a measure comes how many items by chance are right, and its label."""
    shown = list(product(measures, parts))
    figure, axes = grid(len(shown))
    for own, ((measure, chance, label), (title, part)) in zip(axes, shown, strict=True):
        by_epsilon(own, part, measure, chance=chance / _items(part))
        finish(own, title, "total ε", label, log_x=True)
    legend(figure, axes[0])
    return figure


def _over_time(rows: Rows, streams: list[str]) -> Figure:
    parts = _parts(select(rows, epsilon=SHOWN, seed=0), streams)
    figure, axes = grid(len(parts))
    for own, (title, part) in zip(axes, parts, strict=True):
        for system in (*SYSTEMS, *BESIDE):
            slots, shares = course(part, "slot", "share", system=system)
            if slots:
                line(own, slots, moving(shares, WINDOW), system)
        slots = course(part, "slot", "share")[0]
        line(own, [slots[0], slots[-1]], [BEST / _items(part)] * 2, "uniform")
        finish(own, title, "slot", f"share of the {BEST} best")
        whole(own)
    legend(figure, axes[0])
    return figure


def _items(rows: Rows) -> float:
    return float(rows[0]["items"] or 0)


def _table(rows: Rows, streams: list[str]) -> Table:
    systems = (*SYSTEMS, *BESIDE)
    lines = []
    for stream, algorithm in product(streams, ALGORITHMS):
        own = select(rows, stream=stream, algorithm=algorithm, epsilon=SHOWN, last=1)
        cells = [cell(own, "share", system=system) for system in systems]
        if own:
            lines.append((STREAMS[stream], ALGORITHMS[algorithm], *cells, f"{BEST / _items(own):.2f}"))
    columns = ("stream", "algorithm", *(LABELS[system] for system in (*systems, "uniform")))
    return Table(f"Share of the {BEST} best items found, ε = {SHOWN:g}", columns, tuple(lines))


def _summary(rows: Rows, stream: str) -> Summary:
    own = select(rows, stream=stream, algorithm="svd", epsilon=SHOWN, last=1)
    cells = {system: cell(own, "share", system=system) for system in SYSTEMS}
    uniform = f"{BEST / _items(select(rows, stream=stream)):.2f}"
    return Summary(f"best items found, {STREAMS[stream]}, SVD, ε = {SHOWN:g}", "90 %+", uniform, **cells)


def _found(rows: Rows, streams: list[str]) -> tuple[str, ...]:
    sentences = []
    for stream in streams:
        own = select(rows, stream=stream, algorithm="svd", last=1)
        reaching = [
            f"{LABELS[system]} from ε = {enough[0]:g} on"
            for system in SYSTEMS
            if (enough := [e for e in epsilons(own) if mean(own, "share", system=system, epsilon=e) >= CLAIMED])
        ]
        sentences.append(f"{STREAMS[stream]}, SVD: {CLAIMED:.0%} are reached by {'; '.join(reaching) or 'no system'}.")
        share, known = (mean(own, "share", system=name, epsilon=SHOWN) for name in ("ledger", "popular"))
        if not np.isnan(share + known):
            verdict = "is better than" if share > known else "is not better than"
            sentences.append(
                f"There the ledger at ε = {SHOWN:g} {verdict} recommending to all what is truly popular: "
                f"{share:.2f} against {known:.2f}."
            )
    return tuple(sentences)
