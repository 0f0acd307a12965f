"""Users, newcomers, returning users, reach and engagement beside the truth: how often their 95 % intervals hold.

    python benchmarks/people.py [--worlds 0 40] [--slots 100] [stream …]

Plays random worlds (`worlds.py`) and streams of `populations.py`, the made ones unless named, with accounts and noise
in floats (`clocked.py`). A row has, over worlds or streams with at least five answers: the share of slots in which the
number is offered; the share of these inside the interval, its lowest, and how many are below 90 %; medians of the
half-width and of the error; and the half-width of the prior over types of users. Numbers of users are relative to those
who are active, reach to itself. Retention of newcomers and further activity are forecasts, compared with what came.
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
from dpi.mechanism import users as estimator
from dpi.mechanism.base import AFTER, ENGAGEMENT, HORIZON, WINDOWS, Estimate
from dpi.mechanism.users import PRIOR_DEVIATIONS, UsersState
from dpi.release.interval import LEVEL, deviations
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
    new, found = _find_newcomers(active), {name: list[Compared]() for name in (*COUNTS, *ENGAGEMENT)}
    reach = 0
    for number, slot in enumerate(slots):
        groups = accounts.measure(slot, bins, estimator.ask(state, number))
        state, estimate = estimator.close_slot(state, number, epsilon, groups)
        reach += len(new[number])
        here = len(active[number])
        counts = (here, len(new[number]), here - len(new[number]), reach)
        for name, truth in zip(COUNTS, counts, strict=True):
            whole = truth if name == "reach" else here
            if whole >= FEWEST:
                found[name].append(_compare(name, truth, estimate, whole))
        for name, share in _tell_engagement(active, new, number):
            found[name].append(_compare(name, share, estimate, 1.0))
    return found


def _find_newcomers(active: Iterable[set[int]]) -> list[set[int]]:
    seen, found = set[int](), []
    for users in active:
        found.append(users - seen)
        seen |= users
    return found


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


def print_table(found: Mapping[str, Mapping[str, list[Compared]]]) -> None:
    """A row for each number, over all plays."""
    print(f"{'':19s} offered inside lowest <90 %   half  error  prior")
    for name in (*COUNTS, *ENGAGEMENT):
        offered, inside, half, error = [], [], [], []
        for play in found.values():
            known = [one for one in play[name] if one.value is not None]
            if play[name]:
                offered.append(len(known) / len(play[name]))
            if len(known) >= 5:
                off = np.array([abs(float(one.value or 0) - one.truth) for one in known])
                halves, wholes = np.array([[float(one.half or 0), one.whole] for one in known]).T
                inside.append(float(np.mean(off <= halves + (0.5 if name in COUNTS else 0.0))))
                half.append(float(np.median(halves / wholes)))
                error.append(float(np.median(off / wholes)))
        low = np.mean(np.array(inside) < 0.9)
        scale = HORIZON if name == "further_activity" else 1
        prior = f"{deviations(LEVEL) * scale * PRIOR_DEVIATIONS[name]:6.3f}" if name in ENGAGEMENT else ""
        print(
            f"{name:19s} {np.mean(offered):7.2f} {np.mean(inside):6.3f} {min(inside):6.2f} {low:5.2f}"
            f" {np.median(half):6.3f} {np.median(error):6.3f} {prior}"
        )


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
    found = {}
    for seed in range(first, first + count):
        found[str(seed)] = compare(*_draw(seed, given.slots), 0, seed)
    if found:
        print(f"{len(found)} random worlds, {given.slots} slots each")
        print_table(found)
    found = {}
    for name in given.streams:
        population = STREAMS[name](0)
        slots, bins = population.slots[: given.slots], population.domain.size
        found[name] = compare(slots, bins, 2.0, population.season or 0, 0)
    print(f"\n{len(found)} streams, their first {given.slots} slots, ε = 2")
    print_table(found)


if __name__ == "__main__":
    main()
