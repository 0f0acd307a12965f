"""The systems of others: what a user loses over time, both published tables, and errors at an equal guarantee."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from matplotlib.figure import Figure

from dpi.budget.epsilon import Epsilon
from dpi.domain import Categories
from dpi.noise import UnsafeSeededSource
from dpi.theory import true_loss
from dpi_research.baselines import Baseline, PublicFacts
from dpi_research.baselines.counters import Binary, Hybrid
from dpi_research.baselines.pegasus import Pegasus
from dpi_research.baselines.perrier import Perrier
from dpi_research.baselines.tops import ToPS
from dpi_research.compare import Terms, compare, published_tables
from dpi_research.compare.contenders import Contender, Ours
from dpi_research.compare.run import PUBLISHED_FOUR
from dpi_research.compare.tables import DELTA, EPSILON, PRINTED, RATE, loss_of
from dpi_research.compare.tables import NOTES as NOTES
from dpi_research.datasets.generators import Floats, Slot, published, stream_named
from dpi_research.experiments import captioned
from dpi_research.reproduce.experiment import Case, Made, Row, Rows, Sheet, Summary, Table, Value, every
from dpi_research.reproduce.figures import STYLES, Style, finish, legend, line, panels
from dpi_research.reproduce.play import LABELS, SYSTEMS, Hyper, Played, System, open_stream
from dpi_research.reproduce.rows import column, course, distinct, select, value

HORIZON = 2_700
"""Slots for which a mechanism with a horizon is set up: those of the published data set."""
CHURNS, CAPS = (0.0, 0.05, 1.0), (1, 10, 100)
STREAMS = {"published": "published, k = 100", "drift.01": "zipf with drift, k = 1,000"}
ALGORITHM = "Algorithm 1 as published"
NAMES = {
    "binary": "Chan et al., binary",
    "hybrid": "Chan et al., hybrid",
    "pegasus": "Chen et al., PeGaSus",
    "perrier": "Perrier et al.",
    "tops": "Wang et al., ToPS",
}
OTHERS = {
    **{name: Style.numbered(index) for name, index in zip(NAMES, (6, 3, 4, 5, 7), strict=True)},
    ALGORITHM: Style("black", (0, (5, 1)), "P"),
    "uniform": Style(STYLES["uniform"].colour, ":", "_"),
}


def mechanism(name: str) -> Baseline:
    """A method at the published ε for one record."""
    made: dict[str, Baseline] = {
        "binary": Binary(epsilon=EPSILON, slots=HORIZON),
        "hybrid": Hybrid(epsilon=EPSILON),
        "pegasus": Pegasus(epsilon=EPSILON),
        "perrier": Perrier(epsilon=EPSILON, slots=HORIZON, prefix=1, threshold_delta=1e-9),
        "tops": ToPS(epsilon=EPSILON, slots=HORIZON, prefix=1, dropped=0),
    }
    return made[name]


def times(slots: int, points: int) -> list[int]:
    """Some slots up to the last, evenly on a logarithmic axis; those of the published table are among them."""
    return sorted({5, 50, *np.geomspace(1, slots, points).astype(int).tolist()})


def list_losses(name: str, slot_seconds: float, slots: int, points: int) -> Made:
    """What a user with the records of the most active source has lost by a method, purely and at δ."""
    made, records = mechanism(name), RATE * Fraction(slot_seconds)
    rows: Made = []
    for slot in times(slots, points):
        user = loss_of(made, slot).scaled(records)
        about: dict[str, Value] = {"kind": "loss", "system": name, "slot_seconds": slot_seconds, "slot": slot}
        rows.append({**about, "pure": user.epsilon(), "at_delta": user.epsilon(DELTA)})
    return rows


def list_own_losses(system: System, slots: int, points: int, seed: int) -> Made:
    """What a user in every slot has lost by one of ours, however many records; the ledger is played."""
    stream = open_stream(system, Categories(range(10), other=None), EPSILON, seed=seed)
    wanted = set(times(slots, points))
    if system == "ledger":
        played = Played(stream, churn=0.05, seed=seed)
        data = published(np.random.default_rng([seed, 0]), slots, 10, 100)
        spent = [played.release(counts).epsilon_spent for counts, _ in data]
    else:
        allocation = stream.setting.budget.allocation(Epsilon.at_most(EPSILON), 10)
        spent = np.cumsum([float(allocation.draw(UnsafeSeededSource(seed))) for _ in range(slots)]).tolist()
    return [_own(system, slot, loss) for slot, loss in enumerate(spent, 1) if slot in wanted]


def list_algorithm_losses(slots: int, points: int) -> Made:
    """The worst case of Algorithm 1 with its own coefficients and 20 draws; see the experiment `accounting`."""
    hyper = Hyper()
    mu, zeta = float(hyper.mu), float(hyper.zeta)
    return [_own(ALGORITHM, slot, true_loss(slot, 20, float(EPSILON), mu, zeta)) for slot in times(slots, points)]


def _own(system: str, slot: int, loss: float) -> dict[str, Value]:
    return {"kind": "loss", "system": system, "slot_seconds": None, "slot": slot, "pure": loss, "at_delta": loss}


def tables() -> Made:
    """Both published tables, recomputed (`dpi compare --published-tables`)."""
    printed_tables = published_tables()
    rows: Made = [
        {"kind": "method", "system": m.method, "printed_sensitivity": m.printed_sensitivity,
         "printed_privacy": m.printed_privacy, "printed_error": m.printed_error, "unit": m.unit,
         "user_loss": m.user_loss, "share_50": m.user_loss_over_epsilon_t[0],
         "share_1000": m.user_loss_over_epsilon_t[1], "variance": m.variance}
        for m in printed_tables.methods
    ]  # fmt: skip
    for r in printed_tables.losses:
        row: dict[str, Value] = {
            "kind": "table", "system": r.method, "variant": r.variant, "slot_seconds": r.slot_seconds,
            "delta_of_printed": r.delta_of_printed,
        }  # fmt: skip
        pairs = {"sensitivity": r.sensitivity, "printed": r.printed_loss, "pure": r.pure, "law": r.law}
        for name, (early, late) in pairs.items():
            row |= {f"{name}_5": early, f"{name}_50": late}
        rows.append(row)
    return rows


class Uniform:
    """A contender that knows nothing."""

    guarantee, delta = "no data are used", 0.0

    def __init__(self, bins: int) -> None:
        self._pdf: Floats = np.full(bins, 1 / bins)

    def release(self, slot: Slot) -> tuple[Floats, Floats]:
        """The uniform PDF."""
        return self._pdf, self._pdf

    def loss(self, slots: int) -> float:
        """Nothing."""
        return 0.0


def measure_errors(stream: str, churn: float, cap: int | None, slots: int, seed: int) -> Made:
    """Errors at ε = 1 for all records of a user, for ever: of the four with a cap, or (no cap) of ours."""
    source = stream_named(stream)
    terms = Terms(1, cap=cap or 1)
    contenders: dict[str, Contender]
    if cap is None:
        domain = Categories(range(source.bins), other=None)
        contenders = {system: Ours(open_stream(system, domain, 1, seed=seed)) for system in SYSTEMS}
        contenders["uniform"] = Uniform(source.bins)
    else:
        noise = UnsafeSeededSource(seed)
        facts = PublicFacts(1, source.bins, slots, largest=source.rows, rows=source.rows, unsafe_source=noise)
        contenders = {name: terms.contender(name, facts) for name in PUBLISHED_FOUR}
    comparison = compare(contenders, source.slots(seed, slots, churn), source.bins, terms, stream=stream)
    return [
        {"kind": "error", "system": name, "stream": stream, "churn": churn, "cap": cap, "slots": slots,
         **{what: course.means()[what] for what in ("l1", "kl", "accumulated_kl", "loss", "delta")}}
        for name, course in comparison.courses.items()
    ]  # fmt: skip


def cases(quick: bool) -> list[Case]:
    """Tables, losses over time, and comparisons for every stream, churn and cap."""
    slots, points = (200, 3) if quick else (HORIZON, 24)
    lengths = {"published": 10, "drift.01": 3} if quick else {"published": 120, "drift.01": 24}
    churns, caps = ((0.05,), (None, 10)) if quick else (CHURNS, (None, *CAPS))
    all_cases = [
        Case(tables, {}),
        *every(list_losses, name=tuple(NAMES), slot_seconds=(0.5, 5.0), slots=slots, points=points),
        *every(list_own_losses, system=SYSTEMS, slots=slots, points=points, seed=0),
        *every(list_algorithm_losses, slots=slots, points=points),
    ]
    for stream, length in lengths.items():
        all_cases += every(measure_errors, stream=stream, churn=churns, cap=caps, slots=length, seed=0)
    return all_cases


def sheet(rows: Rows) -> Sheet:
    """Losses over time, both tables, and errors at an equal guarantee."""
    loss, error = select(rows, kind="loss"), select(rows, kind="error")
    best = _best(error)
    figures = {"loss": loss and _loss_figure(loss), "error": best and _error_figure(best)}
    return Sheet(
        found=(*_loss_found(loss), *_error_found(best)),
        figures=captioned(__name__, figures, rate=float(EPSILON)),
        tables=(
            *Table.of("Representative methods, as printed and at user level", select(rows, kind="method"), METHODS),
            *Table.of(LOSS_TITLE, select(rows, kind="table"), LOSSES),
            *_error_table(best),
        ),
        summary=(*_loss_summary(loss), *_error_summary(best)),
    )


def _style(system: str) -> Style:
    return OTHERS.get(system) or STYLES[system]


def _label(system: str) -> str:
    return NAMES.get(system) or LABELS.get(system, system)


def _loss_figure(rows: Rows) -> Figure:
    figure, axes = panels(2, 2, width=4.4)
    shown = [name for name in (*NAMES, ALGORITHM, *SYSTEMS) if select(rows, system=name)]
    for row, (kind, what) in enumerate({"pure": "pure loss", "at_delta": "loss at δ = 10⁻⁵"}.items()):
        for at, seconds in zip(axes[2 * row : 2 * row + 2], (0.5, 5.0), strict=True):
            for name in shown:
                own = course(rows, "slot", kind, system=name, slot_seconds=seconds if name in NAMES else None)
                line(at, *own, _label(name), style=_style(name))
            at.axhline(float(EPSILON), color=STYLES["uniform"].colour, lw=0.8)
            finish(at, f"slots of {seconds:g} s, {what}", "slot", "loss of a user (nats)", log_x=True, log_y=True)
            at.minorticks_off()  # most of the file's bytes
    legend(figure, axes[0])
    return figure


def _error_figure(rows: Rows) -> Figure:
    streams = distinct(rows, "stream")
    figure, axes = panels(len(streams), width=8.8 / len(streams), height=3.4)
    for at, stream in zip(axes, streams, strict=True):
        churns = sorted(set(column(rows, "churn")))
        for name in map(str, distinct(rows, "system")):
            own, kls = course(rows, "churn", "kl", stream=stream, system=name)
            line(at, [churns.index(churn) for churn in own], kls, _label(name), style=_style(name))
        finish(at, STREAMS[str(stream)], "users replaced in every slot", "KL (nats), mean of slots", log_y=True)
        at.set_xticks(range(len(churns)), [f"{churn:.0%}" for churn in churns])
    legend(figure, axes[0])
    return figure


def _best(rows: Rows) -> Rows:
    """Of each system, stream and churn the cap with the lowest divergence."""
    keys = dict.fromkeys((row["stream"], row["churn"], row["system"]) for row in rows)
    same = (select(rows, stream=stream, churn=churn, system=system) for stream, churn, system in keys)
    return [min(caps, key=lambda row: value(row, "kl")) for caps in same]


def _loss_found(rows: Rows) -> list[str]:
    sentences = []
    for seconds in distinct(rows, "slot_seconds"):
        last = {str(row["system"]): row for row in select(rows, slot_seconds=seconds)}
        parts = (f"{_label(name)} {value(row, 'pure'):.3g}" for name, row in last.items())
        slot = max(column(list(last.values()), "slot"))
        sentences.append(f"Pure loss after {slot:,.0f} slots of {seconds:g} s: {', '.join(parts)}.")
    ours = [row for row in rows if row["system"] in SYSTEMS]
    if ours:
        sentences.append(
            f"The largest loss by any of ours, at any time: {max(column(ours, 'pure')):.6f}; ε = {float(EPSILON):g}."
        )
    return sentences


def _loss_summary(rows: Rows) -> list[Summary]:
    at = {str(row["system"]): f"{value(row, 'pure'):.3g}" for row in select(rows, slot=50, slot_seconds=None)}
    others = {_label(str(row["system"])): value(row, "pure") for row in select(rows, slot=50, slot_seconds=0.5)}
    if not at or not others:
        return []
    printed = [late for _, _, (_, late) in PRINTED.values()]
    return [
        Summary(
            f"loss of a user after 50 slots of 0.5 s, ε = {float(EPSILON):g} (the four others: "
            f"{min(others.values()):.3g} to {max(others.values()):.3g}, printed {min(printed):.3g} to "
            f"{max(printed):.3g})",
            published="0.005",
            **{system: at[system] for system in SYSTEMS if system in at},
        )
    ]


def _error_found(rows: Rows) -> list[str]:
    """In how many settings one of ours is lowest, and where it is not."""
    lost = []
    settings = list(dict.fromkeys((row["stream"], row["churn"]) for row in rows))
    for stream, churn in settings:
        here = select(rows, stream=stream, churn=churn)
        lowest = min(here, key=lambda row: value(row, "kl"))
        if lowest["system"] not in SYSTEMS:
            where = f"{STREAMS[str(stream)]} at churn {value(lowest, 'churn'):.0%}"
            lost.append(f"{where}: {_label(str(lowest['system']))}")
    if not settings:
        return []
    wins = len(settings) - len(lost)
    text = f"At an equal guarantee one of ours has the lowest KL in {wins} of {len(settings)} settings."
    return [text + (f" Not on {'; '.join(lost)}." if lost else "")]


def _error_summary(rows: Rows) -> list[Summary]:
    lines = []
    for stream in distinct(rows, "stream"):
        here = {str(row["system"]): value(row, "kl") for row in select(rows, stream=stream, churn=0.05)}
        others = {name: kl for name, kl in here.items() if name in NAMES}
        if others and set(SYSTEMS) <= set(here):
            best = min(others, key=lambda name: others[name])
            text = {name: f"{here[name]:.3g}" for name in ("uniform", *SYSTEMS)}
            measure = f"KL at ε = 1 per user, {STREAMS[str(stream)]}, churn 5 % (best of the four: {_label(best)} "
            lines.append(Summary(f"{measure}{others[best]:.3g})", published="not compared", **text))
    return lines


METHODS = {
    "method": "{system}",
    "printed: privacy": "{printed_sensitivity}; {printed_privacy}",
    "printed: error": "{printed_error}",
    "unit here": "{unit}",
    "user loss here": "{user_loss}",
    "loss/(ε·t) at 50, 1,000": "{share_50:.3g}, {share_1000:.3g}",
}
LOSS_TITLE = f"Sensitivity and loss after 5 / 50 slots, ε = {float(EPSILON):g}, δ = {DELTA:g}"
LOSSES = {
    "method": "{system}",
    "variant": "{variant}",
    "slot": "{slot_seconds:g} s",
    "records by then": "{sensitivity_5:.3g} / {sensitivity_50:.4g}",
    "printed": "{printed_5:.3g} / {printed_50:.4g}",
    "pure": "{pure_5:.3g} / {pure_50:.4g}",
    "at δ": "{law_5:.3g} / {law_50:.4g}",
    "δ that the printed needs": "{delta_of_printed:.2g}",
}


def _error_table(rows: Rows) -> list[Table]:
    settings = list(dict.fromkeys((str(row["stream"]), value(row, "churn")) for row in rows))
    if not settings:
        return []
    lines = []
    for name in map(str, distinct(rows, "system")):
        own = (select(rows, system=name, stream=stream, churn=churn) for stream, churn in settings)
        lines.append((_label(name), *(_error_cell(here[0]) if here else "–" for here in own)))
    heads = (f"{STREAMS[stream]}, churn {churn:.0%}" for stream, churn in settings)
    return [Table("L1 / KL at ε = 1 for all records of a user, for ever", ("system", *heads), tuple(lines))]


def _error_cell(row: Row) -> str:
    cap = "" if row["cap"] is None else f" (cap {row['cap']})"
    return f"{value(row, 'l1'):.3g} / {value(row, 'kl'):.3g}{cap}"
