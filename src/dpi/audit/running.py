"""The whole audit: every shipped mechanism, and the zoo that shows that the audit can fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from dpi.audit import neighbours
from dpi.audit.accounting import excesses
from dpi.audit.empirical import ERROR, lower_bound
from dpi.audit.exact import search
from dpi.audit.reach import compare
from dpi.audit.report import AuditReport, Row
from dpi.audit.session import StreamSession
from dpi.audit.shipped import BOXES, DRAWS, STREAMS, Shipped
from dpi.audit.small import VALUES, stream
from dpi.audit.timing import time_to_release
from dpi.audit.zoo import PAIRS, Check

Progress = Callable[[str], None]

QUICK_FAMILIES = (neighbours.alone, neighbours.returning, neighbours.rounding)
QUICK_RUNS, RUNS = 256, 1024
"""Runs of whole streams as black boxes, both sides together."""


def run(quick: bool = False, progress: Progress | None = None) -> AuditReport:
    """Audit everything: under five minutes on two cores, the quick form under two on one.

    The quick form tries fewer neighbours, does not vary them, and makes fewer runs. It audits the same mechanisms.
    """
    say = progress if progress is not None else _silent
    begin = time.perf_counter()
    rows = [*_streams(quick, say), *_draws(say), *_boxes(quick, say), *_reach(quick, say), *_zoo(say)]
    say("the published accounting")
    accounting = excesses()
    return AuditReport(tuple(rows), accounting, quick, time.perf_counter() - begin, ERROR)


def _silent(text: str) -> None:
    """No progress."""


def _streams(quick: bool, say: Progress) -> Iterator[Row]:
    for mechanism in STREAMS:
        say(mechanism.name)
        yield _shipped(mechanism, quick)


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


def _draws(say: Progress) -> Iterator[Row]:
    for draw in DRAWS:
        say(draw.name)
        finding = draw.exact()
        yield Row(
            "shipped", draw.name, float(finding.claimed), float(finding.loss), None, finding.violates, finding.witness,
            tight=True,
        )  # fmt: skip


def _boxes(quick: bool, say: Progress) -> Iterator[Row]:
    for name, claimed, box in BOXES:
        say(name)
        bound = lower_bound(box, claimed=claimed, most_runs=QUICK_RUNS if quick else RUNS)
        yield Row(
            "shipped", name, claimed, None, bound.epsilon, bound.epsilon > claimed, f"{bound.event}, {bound.runs} runs"
        )


def _reach(quick: bool, say: Progress) -> Iterator[Row]:
    say("what an analyst can reach")
    families = QUICK_FAMILIES if quick else neighbours.FAMILIES
    for family in families:
        reach = compare(lambda: StreamSession(stream()), family(4 if quick else 20, VALUES))
        finding = reach.finding
        yield Row(
            "shipped", f"other bytes: {reach.neighbours}", 0.0, float(finding.loss), None, finding.violates,
            finding.witness,
        )  # fmt: skip
    say("time to release")
    yield _timing(quick)


def _timing(quick: bool) -> Row:
    pair = neighbours.every_slot(1, VALUES)

    def once(with_user: bool) -> None:
        rows = (pair.one if with_user else pair.other)[0]
        stream()(lambda brain: brain).release([user for user, _ in rows], [value for _, value in rows])

    timing = time_to_release(once, repeats=60 if quick else 150)
    low, high = timing.ratio
    witness = (
        f"medians {timing.seconds[0] * 1e3:.2f} and {timing.seconds[1] * 1e3:.2f} ms, ratio in {low:.2f} … {high:.2f} "
        f"(wrong with probability {timing.error:g}); a true factor of {timing.power:.2f} is found nine times of ten"
    )
    note = f"medians must lie within a factor of {timing.factor:g}; {witness}"
    return Row("shipped", "time to release, one user of seven", 0.0, None, None, timing.apart, witness, note)


def _zoo(say: Progress) -> Iterator[Row]:
    for pair in PAIRS:
        say(pair.name)
        yield _checked("broken", pair.name, pair.broken, pair.why)
        yield _checked("twin", pair.name, pair.correct, "")


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
