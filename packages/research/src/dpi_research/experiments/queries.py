"""Sum and mean of each region's cases against ε and over time (published: Figure "statistical queries")."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from dpi.domain import Domain
from dpi.release.plots import COLOURS
from dpi.stream import Stream
from dpi_research.evaluation import Floats, divergence
from dpi_research.experiments import captioned
from dpi_research.reproduce.experiment import Case, Made, Rows, Sheet, Summary, Table, Value, every
from dpi_research.reproduce.figures import STYLES, Style, epsilons, finish, legend, line, moving, panels
from dpi_research.reproduce.play import LABELS, SYSTEMS, Hyper, System, open_stream, own_seed, published_mechanism
from dpi_research.reproduce.rows import course, mean, select, value
from dpi_research.reproduce.streams import DAYS, ONCE, PEOPLE, RealStream, stream_of

EPSILONS, OVER_TIME = "0.1 0.2 0.5 1 2 5 10", 2.0
LARGE = 1_000_000
LATE_START = 100
LATE = LARGE * (DAYS - LATE_START) // DAYS
"""People of the stream that begins when the pandemic has: as many a day as in the large one."""
TOTAL_SHARE = 0.5
WINDOW, POINTS = 30, 180
STATED, LARGEST_STATED = 0.12, 0.16
"""MSE of the published text: about the first at ε = 0.1, at most the second in any slot."""
GIVEN = "strict, true total given away"
SHOWN = {
    "uniform": STYLES["uniform"],
    "strict": STYLES["strict"],
    GIVEN: Style(COLOURS[4], (0, (5, 1)), "^"),
    "converging": STYLES["converging"],
    "ledger": STYLES["ledger"],
}
MEASURES = {
    "sum": "sum: relative squared error",
    "mean": "mean: relative squared error",
    "sum_scaled": "sum: scaled MSE",
    "mean_scaled": "mean: scaled MSE",
    "sum_kl": "sum: KL",
    "mean_kl": "mean: KL",
}


def play_system(system: System, epsilons: str, people: int, first: int, days: int, seed: int) -> Made:
    """Errors of both queries, of all slots together for each ε, and at one of them over time."""
    data = stream_of(people, first=first, days=days)
    rows: Made = []
    for epsilon in epsilons.split():
        stream = open_system(system, data.domain, epsilon, own_seed(system, epsilon, people, seed))
        shared: dict[str, Value] = {"people": people, "epsilon": float(epsilon), "seed": seed}
        for name, answers in ask(stream, data).errors(system).items():
            rows.append({"system": name, **shared, "slot": None, **answers.whole()})
            if float(epsilon) == OVER_TIME and people <= PEOPLE:
                rows += [{"system": name, **shared, **point} for point in answers.thinned()]
    return rows


def ask(stream: Stream, data: RealStream) -> Answers:
    """Both queries asked in every slot."""
    answers = Answers(data.domain.size)
    for (users, values), counts in zip(data.slots, data.counts, strict=True):
        release = stream.release(users, values)
        total = max(0.0, float(np.nan_to_num(release.total)))
        answers.add(counts, release.pdf, release.accumulated, total)
    return answers


def open_system(system: System, domain: Domain, epsilon: str, seed: int) -> Stream:
    """A stream of a system; the published mechanism buys a total."""
    published = replace(published_mechanism(Hyper()), total_share=TOTAL_SHARE)
    return open_stream(system, domain, epsilon, seed=seed, ledger=ONCE, published=published)


class Errors:
    """Errors of one system's answers, slot after slot; slots without people have none."""

    def __init__(self) -> None:
        self.slots: list[int] = []
        self.table: list[tuple[float, ...]] = []

    def add(self, slot: int, answers: tuple[tuple[Floats, Floats], tuple[Floats, Floats]]) -> None:
        """Truth and answer of the sum, then of the mean."""
        self.slots.append(slot)
        parts: list[float] = []
        for truth, answer in answers:
            squared = float(((truth - answer) ** 2).sum())
            own = answer / answer.sum() if answer.sum() > 0 else np.full(truth.size, 1 / truth.size)
            parts += [squared, float((truth**2).sum()), squared / truth.size / float(truth.max()) ** 2,
                      divergence(truth / truth.sum(), own)]  # fmt: skip
        self.table.append(tuple(parts))

    def whole(self) -> dict[str, Value]:
        """Over all slots: relative errors are sums over sums."""
        return dict(zip(MEASURES, _measures(np.array(self.table)), strict=True))

    def thinned(self) -> Made:
        """Moving averages over a month, at no more than POINTS slots."""
        table = np.array(self.table)
        smooth = np.stack([moving(column, WINDOW) for column in table.T])
        step = -(-len(self.slots) // POINTS)
        return [
            {"slot": self.slots[at], **dict(zip(MEASURES, _measures(smooth[:, at : at + 1].T), strict=True))}
            for at in range(step - 1, len(self.slots), step)
        ]


def _measures(table: Floats) -> list[float]:
    mean = table.mean(axis=0)
    return [float(x) for x in (mean[0] / mean[1], mean[4] / mean[5], mean[2], mean[6], mean[3], mean[7])]


class Answers:
    """What a stream has released so far, and what was true."""

    def __init__(self, bins: int) -> None:
        self._bins, self._slot = bins, 0
        self._truth, self._total, self._people = np.zeros(bins), 0.0, 0.0
        self._own, self._given, self._even = Errors(), Errors(), Errors()

    def add(self, now: Floats, pdf: Floats, accumulated: Floats, total: float) -> None:
        """One slot: its true counts, the release's two PDFs and its total."""
        self._slot += 1
        self._truth = self._truth + now
        self._total, self._people = self._total + total, self._people + float(now.sum())
        if not now.any():
            return
        size, truth, even = float(now.sum()), self._truth / self._slot, np.full(self._bins, 1 / self._bins)
        mean, true_mean = self._total / self._slot, self._people / self._slot
        self._own.add(self._slot, ((now, pdf * total), (truth, accumulated * mean)))
        self._given.add(self._slot, ((now, pdf * size), (truth, accumulated * true_mean)))
        self._even.add(self._slot, ((now, even * size), (truth, even * true_mean)))

    def errors(self, system: System) -> dict[str, Errors]:
        """The system's; for the published mechanism also with the true total, and those of the uniform guess."""
        if system != "strict":
            return {system: self._own}
        return {system: self._own, GIVEN: self._given, "uniform": self._even}


def cases(quick: bool) -> list[Case]:
    """One for each system and number of people."""
    few = "0.1 2 10"
    work = [(PEOPLE, 0, DAYS, EPSILONS), (LARGE, 0, DAYS, EPSILONS), (LATE, LATE_START, DAYS - LATE_START, few)]
    all_cases = []
    for people, first, days, played in [(5_400, 480, 60, few)] if quick else work:
        where = {"people": people, "first": first, "days": days}
        all_cases += every(play_system, "covid19", system=SYSTEMS, epsilons=played, **where, seed=0)
    return all_cases


def sheet(rows: Rows) -> Sheet:
    """Errors against ε for each number of people; over time at ε = 2; the published numbers beside both measures."""
    sizes = sorted({int(row["people"] or 0) for row in rows})
    over_time = [row for row in select(rows, people=sizes[0]) if row["slot"] is not None]
    whole = {size: select(rows, people=size, slot=None) for size in sizes}
    shown = dict(zip(("epsilon", "more"), (size for size in sizes if size != LATE), strict=False))
    figures: dict[str, object] = {
        name: _panels(whole[size], MEASURES, "epsilon", "total ε", log_x=True) for name, size in shown.items()
    }
    figures["time"] = over_time and _over_time(over_time)
    return Sheet(
        found=tuple(_found(own, size) for size, own in whole.items()),
        figures=captioned(__name__, figures, **shown, least=sizes[0]),
        tables=tuple(_table(own, size) for size, own in whole.items()),
        summary=tuple(_summary(own, size, key) for size, own in whole.items() for key in ("sum", "mean")),
    )


def _who(people: int) -> str:
    """The stream in words.

    >>> _who(LATE)
    '814,814 people from day 100 on'
    """
    return f"{people:,} people" + (f" from day {LATE_START} on" if people == LATE else "")


def _over_time(rows: Rows) -> Figure:
    slots = sorted({value(row, "slot") for row in rows})
    kept = set(slots[:: max(1, len(slots) // 60)])
    rows = [row for row in rows if value(row, "slot") in kept]
    keys = [key for key in MEASURES if not key.endswith("scaled")]
    return _panels(rows, keys, "slot", "slot (day)", log_x=False)


def _panels(rows: Rows, keys: Iterable[str], x: str, label: str, *, log_x: bool) -> Figure:
    """The sum above, the mean below."""
    ordered = sorted(keys, key=lambda key: key.startswith("mean"))
    figure, grid = panels(len(ordered) // 2, 2, width=21.6 / len(ordered), height=2.7)
    for axes, key in zip(grid, ordered, strict=True):
        for system, style in SHOWN.items():
            if own := select(rows, system=system):
                line(axes, *course(own, x, key), system, style=style)
        for level in () if key.endswith("kl") else (STATED, LARGEST_STATED):
            axes.axhline(level, color="black", lw=0.7, ls=(0, (1, 2)), label=f"published: {level}")
        finish(axes, MEASURES[key], label, "nats" if key.endswith("kl") else "error²", log_x=log_x, log_y=True)
    legend(figure, grid[0])
    return figure


def _found(own: Rows, people: int) -> str:
    low = epsilons(own)[0]
    parts = []
    for key, measure in (("sum_scaled", "scaled MSE of the sum"), ("sum", "relative squared error of the sum")):
        numbers = {system: mean(own, key, system=system, epsilon=low) for system in SHOWN}
        known = {name: x for name, x in numbers.items() if not np.isnan(x)}
        inside = [LABELS.get(name, name) for name, x in known.items() if x <= LARGEST_STATED]
        text = ", ".join(f"{LABELS.get(name, name)} {x:.3g}" for name, x in known.items())
        parts.append(f"{measure} {text}; at most {LARGEST_STATED}: {', '.join(inside) or 'none'}")
    worse = [
        f"{LABELS[s]} ({MEASURES[key]}) at ε = {', '.join(f'{e:g}' for e in at)}"
        for s in SYSTEMS
        for key in ("sum", "mean")
        if (at := _worse(own, s, key))
    ]
    return (
        f"{_who(people)}, ε = {low:g}: {'. '.join(part[0].upper() + part[1:] for part in parts)}. "
        f"Worse than a uniform guess that is told the true total: {'; '.join(worse) or 'none'}."
    )


def _worse(rows: Rows, system: str, key: str) -> list[float]:
    """The ε at which a system's error is above that of the uniform guess."""
    own, guess = (dict(zip(*course(rows, "epsilon", key, system=s), strict=True)) for s in (system, "uniform"))
    return [epsilon for epsilon in own if epsilon in guess and own[epsilon] > guess[epsilon]]


def _table(rows: Rows, people: int) -> Table:
    lines = []
    for epsilon in epsilons(rows):
        for system in SHOWN:
            for row in select(rows, epsilon=epsilon, system=system):
                numbers = (f"{value(row, key):.3g}" for key in MEASURES)
                lines.append((f"{epsilon:g}", LABELS.get(system, system), *numbers))
    return Table(_who(people), ("ε", "system", *MEASURES.values()), tuple(lines))


def _summary(own: Rows, people: int, key: str) -> Summary:
    low = epsilons(own)[0]
    return Summary.of(
        f"COVID-19, {_who(people)}, {MEASURES[key]}, ε = {low:g} / {OVER_TIME:g}",
        "MSE “∼0.12” / “up to 0.16”, scale not stated",
        lambda system: " / ".join(f"{mean(own, key, system=system, epsilon=e):.2g}" for e in (low, OVER_TIME)),
    )
