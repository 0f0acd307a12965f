"""The whole audit: every shipped mechanism, and the zoo that shows that the audit can fail."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context

from dpi_audit import neighbours
from dpi_audit._report import AuditReport, Row, excesses
from dpi_audit._shipped import BOXES, DRAWS, STREAMS, Shipped
from dpi_audit.commands import command_line, odd_rows
from dpi_audit.empirical import ERROR, BlackBox, lower_bound
from dpi_audit.exact import search
from dpi_audit.lives import LIVES, Life
from dpi_audit.reach import SURFACES, Surface, compare, exported, time_to_release
from dpi_audit.session import StreamSession
from dpi_audit.small import VALUES, stored_session, stream, stream_session
from dpi_audit.zoo import PAIRS, Check, Pair

Progress = Callable[[str], None]
"""Is told of each part of the audit when it is over."""

Part = tuple[str, Callable[[], list[Row]]]
"""Its name, and how to make its rows."""

QUICK_FAMILIES = (neighbours.alone, neighbours.returning, neighbours.rounding)
QUICK_RUNS, RUNS = 256, 1024
"""Runs of whole streams as black boxes, both sides together."""


def run(quick: bool = False, progress: Progress = lambda text: None, *, processes: int = 1) -> AuditReport:
    """Audit everything: under five minutes on two cores, the quick form under one.

    The quick form tries fewer neighbours, does not vary them, and makes fewer runs. It audits the same mechanisms.
    What is timed is timed at the end, alone.
    """
    begin = time.perf_counter()
    rows = [*_run_parts(quick, progress, processes), _check_time(quick)]
    progress("time to release")
    accounting = excesses()
    progress("the published accounting")
    rows.sort(key=lambda row: row.kind != "shipped")  # what is shipped comes first, in the order of the parts
    return AuditReport(tuple(rows), accounting, quick, time.perf_counter() - begin, ERROR)


def count_steps(quick: bool = False) -> int:
    """Return how often `progress` will be told of something."""
    return len(list_parts(quick)) + 2


def list_parts(quick: bool) -> list[Part]:
    """Return all parts of the audit but the accounting and what is timed."""
    families = QUICK_FAMILIES if quick else neighbours.FAMILIES
    odd = (odd_rows,) if quick else (odd_rows, neighbours.alone)
    return [
        *((mechanism.name, partial(check_shipped, mechanism, quick)) for mechanism in STREAMS),
        *((life.name, partial(check_life, life, quick)) for life in LIVES),
        *((name, partial(_check_draws, name)) for name in DRAWS),
        *((box[0], partial(check_box, *box, quick)) for box in BOXES),
        *((f"other bytes: {family.__name__}", partial(_check_bytes, family, quick)) for family in families),
        *((f"the export: {family.__name__}", partial(_check_export, family, quick)) for family in families[:2]),
        *((f"the command line: {family.__name__}", partial(_check_commands, family)) for family in odd),
        *((pair.name, partial(_check_pair, pair)) for pair in PAIRS),
    ]


def _make_part(quick: bool, index: int) -> list[Row]:
    """Return the rows of a part, by its number: what it is made of cannot be sent to a process of its own."""
    return list_parts(quick)[index][1]()


def _run_parts(quick: bool, say: Progress, processes: int) -> list[Row]:
    """Return the rows of all parts in their order, made here or in processes of their own."""
    todo = list_parts(quick)
    if processes == 1:
        rows = []
        for name, make in todo:
            rows += make()
            say(name)
        return rows
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:  # a fork would copy locks that threads hold
        # Commands are processes of their own, one after the other: begun first, they end before the rest does.
        commands_first = sorted(range(len(todo)), key=lambda index: not todo[index][0].startswith("the command line"))
        begun = {pool.submit(_make_part, quick, index): index for index in commands_first}
        for done in as_completed(begun):
            done.result()
            say(todo[begun[done]][0])
        return [row for done in sorted(begun, key=lambda done: begun[done]) for row in done.result()]


def check_shipped(mechanism: Shipped, quick: bool) -> list[Row]:
    """Search for neighbours that lose more than a shipped mechanism claims."""
    finding = search(
        mechanism.open,
        mechanism.values,
        families=(*QUICK_FAMILIES, *mechanism.also) if quick else neighbours.FAMILIES,
        tries=0 if quick else 4,
        # Laplace noise loses the same both ways, so directions take turns there.
        both=mechanism.one_sided,
    )
    return [Row.of("shipped", mechanism.name, finding, note=mechanism.note, tight=mechanism.tight)]


def check_life(life: Life, quick: bool) -> list[Row]:
    """Set a long life against what its account has paid."""
    return [Row.of("shipped", life.name, life.worst(quick), tight=True)]


def _check_draws(name: str) -> list[Row]:
    return [Row.of("shipped", name, DRAWS[name](), tight=True)]


def check_box(name: str, claimed: float, box: BlackBox, quick: bool) -> list[Row]:
    """Run whole streams as black boxes."""
    bound = lower_bound(box, claimed=claimed, most_runs=QUICK_RUNS if quick else RUNS)
    return [Row("shipped", name, claimed, None, bound.epsilon, bound.epsilon > claimed, bound.witness)]


def _check_bytes(family: neighbours.Family, quick: bool) -> list[Row]:
    return _compare("other bytes", stream_session(), family(4 if quick else 20, VALUES))


def _check_export(family: neighbours.Family, quick: bool) -> list[Row]:
    return _compare("the export of a store", stored_session(), family(3 if quick else 12, VALUES), exported)


def _check_commands(family: neighbours.Family) -> list[Row]:
    return _compare("the command line and its files", stream_session(), family(1, VALUES), command_line(VALUES))


def _compare(
    name: str, open_session: Callable[[], StreamSession], pair: neighbours.Neighbours, *surfaces: Surface
) -> list[Row]:
    reach = compare(open_session, pair, surfaces=surfaces or SURFACES)
    return [Row.of("shipped", f"{name}: {reach.neighbours}", reach.finding)]


def _check_time(quick: bool) -> Row:
    pair = neighbours.every_slot(1, VALUES)

    def once(with_user: bool) -> None:
        rows = (pair.one if with_user else pair.other)[0]
        stream()(lambda mechanism: mechanism).release([user for user, _ in rows], [value for _, value in rows])

    timing = time_to_release(once, repeats=60 if quick else 150)
    low, high = timing.ratio
    witness = (
        f"medians {timing.seconds[0] * 1e3:.2f} and {timing.seconds[1] * 1e3:.2f} ms, ratio in {low:.2f} … {high:.2f} "
        f"(wrong with probability {timing.error:g}); a true factor of {timing.power:.2f} is found nine times of ten"
    )
    note = f"medians must lie within a factor of {timing.factor:g}; {witness}"
    return Row("shipped", "time to release, one user of seven", 0.0, None, None, timing.apart, witness, note)


def _check_pair(pair: Pair) -> list[Row]:
    return [check("broken", pair.name, pair.broken, pair.why), check("twin", pair.name, pair.correct)]


def check(kind: str, name: str, of: Check, why: str = "") -> Row:
    """Ask all that can be asked of one of a pair."""
    finding = None if of.exact is None else of.exact()
    claimed, bound = float(of.claimed), None
    if of.sample is not None:
        bound = lower_bound(of.sample, claimed=claimed, most_runs=of.most_runs)
    told = bound is not None and bound.epsilon > claimed
    if finding is not None:
        return Row.of(kind, name, finding, None if bound is None else bound.epsilon, told, note=why)
    assert bound is not None  # noqa: S101 - at least one question is asked
    return Row(kind, name, claimed, None, bound.epsilon, told, bound.witness, why)
