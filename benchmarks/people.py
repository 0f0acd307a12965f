"""Users, newcomers, returning users, reach and engagement beside the truth: how often their 95 % intervals hold.

    python benchmarks/people.py [--worlds 0 40] [--slots 100] [stream …]

Plays random worlds (`worlds.py`) and streams of `populations.py`, the made ones unless named, with accounts and noise
in floats (`clocked.py`). A row has, over worlds or streams with at least ten answers: the share of slots in which the
number is offered; the share of these inside the interval, and the lowest of one stream; the median half-width, and that
of the prior over types of users. Numbers of users are relative to those who are active, reach to itself. Retention of
newcomers and further activity are forecasts, compared with what came.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

import real
import worlds
from clocked import TOP, Accounts
from dpi.mechanism import class_estimator as estimator
from dpi.mechanism.base import AFTER, ENGAGEMENT, HORIZON, WINDOWS, Estimate
from dpi.mechanism.class_estimator import PRIOR_DEVIATIONS, UsersState
from dpi.release.interval import LEVEL, deviations
from measure import Cell, record
from populations import STREAMS, Slot

COUNTS = ("users", "newcomers", "returning", "reach")
FEWEST = 10
"""A share of fewer users is chance: it is not compared."""
MADE = [name for name in STREAMS if name not in real.STREAMS and "x2000" not in name]


class Compared(NamedTuple):
    """A number of one slot: the truth, the estimate and the half-width of its interval; both None if not offered."""

    truth: float
    value: float | None
    half: float | None
    whole: float
    """What errors are relative to."""


def compare(slots: Sequence[Slot], bins: int, epsilon: float, season: int, seed: int) -> dict[str, list[Compared]]:
    """All numbers of all slots beside the truth."""
    accounts, state = Accounts(np.random.default_rng(seed), epsilon), UsersState.begun(bins, TOP + 1, season)
    active = [set(slot.users.tolist()) for slot in slots]
    new, compared = _find_newcomers(active), {name: list[Compared]() for name in (*COUNTS, *ENGAGEMENT)}
    reach = 0
    for number, slot in enumerate(slots):
        groups = accounts.measure(slot, bins, estimator.request_payments(state, number))
        state, estimate = estimator.close_slot(state, number, epsilon, groups)
        reach += len(new[number])
        here = len(active[number])
        counts = (here, len(new[number]), here - len(new[number]), reach)
        for name, truth in zip(COUNTS, counts, strict=True):
            whole = truth if name == "reach" else here
            if whole >= FEWEST:
                compared[name].append(_compare(name, truth, estimate, whole))
        for name, share in _tell_engagement(active, new, number):
            compared[name].append(_compare(name, share, estimate, 1.0))
    return compared


def _find_newcomers(active: Iterable[set[int]]) -> list[set[int]]:
    seen, newcomers = set[int](), []
    for users in active:
        newcomers.append(users - seen)
        seen |= users
    return newcomers


def _tell_engagement(active: Sequence[set[int]], new: Sequence[set[int]], slot: int) -> Iterator[tuple[str, float]]:
    """What is true of engagement in a slot, where enough users are there, by slots that came later too."""
    for after in AFTER:
        if after <= slot and len(active[0]) >= FEWEST:
            yield f"first_retention_{after}", len(active[0] & active[after]) / len(active[0])
        if slot and slot + after < len(active) and len(new[slot]) >= FEWEST:
            yield f"retention_{after}", len(new[slot] & active[slot + after]) / len(new[slot])
    users = active[slot]
    if len(users) < FEWEST:
        return
    for window in WINDOWS:
        if slot >= window - 1:
            yield f"stickiness_{window}", len(users) / len(set().union(*active[slot - window + 1 : slot + 1]))
    if slot + HORIZON < len(active):
        yield (
            "further_activity",
            sum(len(users & later) for later in active[slot + 1 : slot + 1 + HORIZON]) / len(users),
        )


def _compare(name: str, truth: float, estimate: Estimate, whole: float) -> Compared:
    assert estimate.people is not None and estimate.engagement is not None  # noqa: PT018 - users have classes
    told = estimate.people._asdict() | {"users": estimate.total, "users_variance": estimate.total_variance}
    if name in told:
        value, variance = told[name], told[f"{name}_variance"]
    else:
        value, variance = estimate.engagement[ENGAGEMENT.index(name)].tolist()
    if math.isnan(value):
        return Compared(truth, None, None, whole)
    return Compared(truth, value, deviations(LEVEL) * variance**0.5, whole)


NAMES = {
    "users": "active users", "newcomers": "newcomers", "returning": "returning users", "reach": "reach",
    **{f"retention_{n}": f"retention of newcomers, slot + {n}" for n in AFTER},
    **{f"first_retention_{n}": f"retention of the first slot's users, slot + {n}" for n in AFTER},
    **{f"stickiness_{n}": f"stickiness, {n} slots" for n in WINDOWS},
    "further_activity": f"further activity, {HORIZON} slots",
}  # fmt: skip
COLUMNS = ["number", "offered", "inside", "lowest", "half-width", "before data"]


def summarise(compared: Iterable[Mapping[str, list[Compared]]]) -> list[list[Cell]]:
    """A row for each number, over all plays."""
    plays, rows = list(compared), list[list[Cell]]()
    for name, words in NAMES.items():
        offered, inside, half = [], [], []
        for play in plays:
            known = [one for one in play[name] if one.value is not None]
            if play[name]:
                offered.append(len(known) / len(play[name]))
            if len(known) >= FEWEST:
                off = np.array([abs(float(one.value or 0) - one.truth) for one in known])
                halves, wholes = np.array([[float(one.half or 0), one.whole] for one in known]).T
                inside.append(float(np.mean(off <= halves + (0.5 if name in COUNTS else 0.0))))
                half.append(float(np.median(halves / wholes)))
        scale = HORIZON if name == "further_activity" else 1
        prior = f"{deviations(LEVEL) * scale * PRIOR_DEVIATIONS[name]:.2f}" if name in ENGAGEMENT else None
        shares = [f"{100 * each:.0f} %" for each in (np.mean(offered), np.mean(inside), min(inside))]
        rows.append([words, *shares, f"{np.median(half):.2f}", prior])
    return rows


def measure_reach(compared: Iterable[Mapping[str, list[Compared]]]) -> str:
    """Errors of reach in the last slots over what the noise of first payments implies: the root of the mean square."""
    last = [play["reach"][-1] for play in compared if play["reach"]]
    ratios = [deviations(LEVEL) * (float(one.value or 0) - one.truth) / float(one.half or 1) for one in last]
    return f"{np.sqrt(np.mean(np.square(ratios))):.2f}"


def _draw(seed: int, slots: int) -> tuple[list[Slot], int, float]:
    world = worlds.draw_world(seed, slots)
    played = worlds.play(world, slots, seed)
    return [Slot(u, np.arange(u.size), v, np.ones(u.size)) for u, v in played], world.bins, world.epsilon


def main() -> None:
    """Print one table of worlds and one of streams."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("streams", nargs="*", default=MADE)
    parser.add_argument("--worlds", nargs=2, type=int, default=(0, 40), metavar=("FIRST", "COUNT"))
    parser.add_argument("--slots", type=int, default=100)
    given = parser.parse_args()
    first, count = given.worlds
    played = [compare(*_draw(seed, given.slots), 0, seed) for seed in range(first, first + count)]
    if played:
        about = f"{count} random populations, {given.slots} slots each, ε from 0.1 to 2."
        ratio = {"reach": measure_reach(played)}
        record("people-worlds", parts=["mechanism"], columns=COLUMNS, rows=summarise(played), about=about, values=ratio)
    played = []
    for name in given.streams:
        population = STREAMS[name](0)
        slots, bins = population.slots[: given.slots], population.domain.size
        played.append(compare(slots, bins, 2.0, population.season or 0, 0))
    about = f"{len(played)} streams, their first {given.slots} slots, ε = 2."
    ratio = {"reach": measure_reach(played)}
    record("people-streams", parts=["mechanism"], columns=COLUMNS, rows=summarise(played), about=about, values=ratio)


if __name__ == "__main__":
    main()
