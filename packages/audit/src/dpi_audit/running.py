"""The whole audit: every shipped mechanism, and the zoo that shows that the audit can fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context

from dpi_audit import neighbours
from dpi_audit.accounting import excesses
from dpi_audit.commands import command_line, odd_rows
from dpi_audit.empirical import ERROR, lower_bound
from dpi_audit.exact import Finding, search
from dpi_audit.exports import exported
from dpi_audit.lives import LIVES
from dpi_audit.reach import Reach, compare
from dpi_audit.report import AuditReport, Row
from dpi_audit.session import StreamSession
from dpi_audit.shipped import BOXES, DRAWS, STREAMS, Shipped
from dpi_audit.small import VALUES, stream
from dpi_audit.stored import StoredSession
from dpi_audit.timing import time_to_release
from dpi_audit.zoo import PAIRS, Check

Progress = Callable[[str], None]
"""Is told of each part of the audit when it is over."""

Part = tuple[str, Callable[[], list[Row]]]
"""Its name, and how to make its rows; the latter can be sent to another process."""

QUICK_FAMILIES = (neighbours.alone, neighbours.returning, neighbours.rounding)
QUICK_RUNS, RUNS = 256, 1024
"""Runs of whole streams as black boxes, both sides together."""


def run(quick: bool = False, progress: Progress | None = None, *, processes: int = 1) -> AuditReport:
    """Audit everything: under five minutes on two cores, the quick form under one.

    The quick form tries fewer neighbours, does not vary them, and makes fewer runs. It audits the same mechanisms.
    What is timed is timed at the end, alone.
    """
    say = progress if progress is not None else _silent
    begin = time.perf_counter()
    rows = [*_made(parts(quick), say, processes), _timing(quick)]
    say("time to release")
    accounting = excesses()
    say("the published accounting")
    rows.sort(key=lambda row: row.kind != "shipped")  # what is shipped comes first, in the order of the parts
    return AuditReport(tuple(rows), accounting, quick, time.perf_counter() - begin, ERROR)


def steps(quick: bool = False) -> int:
    """How often `progress` will be told of something."""
    return len(parts(quick)) + 2


def parts(quick: bool) -> list[Part]:
    """All parts of the audit but the accounting and what is timed."""
    families = QUICK_FAMILIES if quick else neighbours.FAMILIES
    odd = (odd_rows,) if quick else (odd_rows, neighbours.alone)
    return [
        *((mechanism.name, partial(_stream, i, quick)) for i, mechanism in enumerate(STREAMS)),
        *((life.name, partial(_life, i, quick)) for i, life in enumerate(LIVES)),
        *((draw.name, partial(_draw, i)) for i, draw in enumerate(DRAWS)),
        *((name, partial(_box, i, quick)) for i, (name, *_) in enumerate(BOXES)),
        *((f"other bytes: {family.__name__}", partial(_reach, family, quick)) for family in families),
        *((f"the export: {family.__name__}", partial(_export, family, quick)) for family in families[:2]),
        *((f"the command line: {family.__name__}", partial(_commands, family)) for family in odd),
        *((pair.name, partial(_pair, i)) for i, pair in enumerate(PAIRS)),
    ]


def _silent(text: str) -> None:
    """No progress."""


def _made(todo: Sequence[Part], say: Progress, processes: int) -> list[Row]:
    """The rows of all parts in their order, made here or in processes of their own."""
    if processes == 1:
        found = []
        for name, make in todo:
            found += make()
            say(name)
        return found
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:  # a fork would copy locks that threads hold
        # Commands are processes of their own, one after the other: begun first, they end before the rest does.
        begun = {name: pool.submit(make) for name, make in sorted(todo, key=lambda part: not _commanding(part))}
        names = {future: name for name, future in begun.items()}
        for done in as_completed(names):
            done.result()
            say(names[done])
        return [row for name, _ in todo for row in begun[name].result()]


def _commanding(part: Part) -> bool:
    return part[0].startswith("the command line")


def _stream(index: int, quick: bool) -> list[Row]:
    return [_shipped(STREAMS[index], quick)]


def _shipped(mechanism: Shipped, quick: bool) -> Row:
    finding = search(
        mechanism.open,
        mechanism.values,
        families=(*QUICK_FAMILIES, *mechanism.also) if quick else neighbours.FAMILIES,
        tries=0 if quick else 4,
        # Laplace noise loses the same both ways, so directions take turns there.
        both=mechanism.one_sided,
    )
    return Row(
        "shipped",
        mechanism.name,
        float(finding.claimed),
        float(finding.loss),
        None,
        finding.violates,
        finding.witness,
        mechanism.note,
        mechanism.tight,
    )


def _life(index: int, quick: bool) -> list[Row]:
    return [_tight(LIVES[index].name, LIVES[index].worst(quick))]


def _draw(index: int) -> list[Row]:
    return [_tight(DRAWS[index].name, DRAWS[index].exact())]


def _tight(name: str, found: Finding) -> Row:
    claimed, loss = float(found.claimed), float(found.loss)
    return Row("shipped", name, claimed, loss, None, found.violates, found.witness, tight=True)


def _box(index: int, quick: bool) -> list[Row]:
    name, claimed, box = BOXES[index]
    bound = lower_bound(box, claimed=claimed, most_runs=QUICK_RUNS if quick else RUNS)
    witness = f"{bound.event}, {bound.runs} runs"
    return [Row("shipped", name, claimed, None, bound.epsilon, bound.epsilon > claimed, witness)]


def _reach(family: neighbours.Family, quick: bool) -> list[Row]:
    reach = compare(_small, family(4 if quick else 20, VALUES))
    return [_reached(f"other bytes: {reach.neighbours}", reach)]


def _export(family: neighbours.Family, quick: bool) -> list[Row]:
    reach = compare(_stored, family(3 if quick else 12, VALUES), surfaces=(exported,))
    return [_reached(f"the export of a store: {reach.neighbours}", reach)]


def _commands(family: neighbours.Family) -> list[Row]:
    reach = compare(_small, family(1, VALUES), surfaces=(command_line(VALUES),))
    return [_reached(f"the command line and its files: {reach.neighbours}", reach)]


def _small() -> StreamSession:
    return StreamSession(stream())


def _stored() -> StreamSession:
    return StoredSession(lambda store: stream(store=store))


def _reached(name: str, reach: Reach) -> Row:
    finding = reach.finding
    return Row("shipped", name, 0.0, float(finding.loss), None, finding.violates, finding.witness)


def _timing(quick: bool) -> Row:
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


def _pair(index: int) -> list[Row]:
    pair = PAIRS[index]
    return [
        _checked("broken", pair.name, pair.broken, pair.why),
        _checked("twin", pair.name, pair.correct, ""),
    ]


def _checked(kind: str, name: str, check: Check, why: str) -> Row:
    finding = None if check.exact is None else check.exact()
    claimed = float(check.claimed if finding is None else finding.claimed)
    bound = None
    if check.sample is not None:
        bound = lower_bound(check.sample, claimed=float(check.claimed), most_runs=check.most_runs)
    violated = bool(finding and finding.violates) or bool(bound and bound.epsilon > float(check.claimed))
    witness = finding.witness if finding is not None else "" if bound is None else f"{bound.event}, {bound.runs} runs"
    return Row(
        kind,
        name,
        claimed,
        None if finding is None else float(finding.loss),
        None if bound is None else bound.epsilon,
        violated,
        witness,
        why,
    )
