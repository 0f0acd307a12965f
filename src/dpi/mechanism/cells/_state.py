"""What the estimator remembers, its bytes, how it goes from phase to phase of a season, and what shares it asks for.

All of it is public, O(classes · bins): a function of measurements after noise. Between slots laws and cells are kept in
the phase in which they were learned; in a slot all are in its phase, by the ratio of profiles. If a share ρ of those
with m + 1 payments ever makes the next one, class m pays 1 - (1 - f)·ρ of what it has left.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from fractions import Fraction
from functools import cache, cached_property
from operator import attrgetter
from typing import TypeVar

import numpy as np

from dpi.budget.billing import SHARE_STEPS
from dpi.errors import StateError
from dpi.files import refuse_newer
from dpi.mechanism.base import Floats
from dpi.mechanism.cells._dynamics import BEHIND, DYNAMICS_PRIOR, PAID, Cells, CommonDrift
from dpi.mechanism.cells._factors import OF_LAWS, OF_SIZES, Alike, Factors
from dpi.mechanism.cells._law import Law
from dpi.mechanism.cells._season import Season, phase_profiles
from dpi.mechanism.cells._sizes import Activity, Inflow, regress_rates
from dpi.mechanism.filtering._gaussians import Gaussians, fast_replace
from dpi.mechanism.filtering._population import initial_population

_MAGIC = b"dpi cells state 1\n"
_DIGEST = 32
Part = TypeVar("Part")
_LINE = 1024
"""The line of JSON has a multiple of so many bytes: a dozen floats of at most 24 letters, and their names, fit in."""


MOST_CLASSES, FEWEST_CLASSES = 16, 4
MOST_CELLS = 1 << 17
"""How many classes there should be: the last of sixteen is due once in 32,768 slots, and so many numbers of bins, over
all classes, keep a state below 18 megabytes. Source: by calculation (tests/mechanism/cells/test_cells_state.py)."""


MOST_PHASES = 1 << 20
"""Numbers that the phases of a season may have, over all bins. Source: by calculation; eight megabytes."""


def classes_of(bins: int) -> int:
    """The number of classes that suits a domain: fewer for a large one, so that memory stays bounded.

    >>> classes_of(100), classes_of(20_000), classes_of(10**6)
    (16, 6, 4)
    """
    return max(FEWEST_CLASSES, min(MOST_CLASSES, MOST_CELLS // bins))


def remembers(bins: int, season: int) -> bool:
    """Whether a season of so many slots suits a domain: each of its phases takes a number for each bin, 8 MB at most.

    >>> remembers(100, 168), remembers(10_000, 168)
    (True, False)
    """
    return bins * season <= MOST_PHASES


@dataclass(frozen=True, eq=False)
class CellsState:
    """Laws, cells and rates of return; `sealed`, its arrays are read-only."""

    slot: int
    """The last slot, of any number before the first."""
    newcomers: Law
    pool: Law
    """The law of all measurements, class by class: what a cell's law is shrunk to."""
    veterans: Law
    """The law of all who have paid before, when nearly all of them were measured together."""
    everybody: Law
    """The same with newcomers."""
    population: Floats
    """Shares of the levels, with which all laws are read."""
    inflow: Inflow
    cells: Cells
    absent: Gaussians
    """Users of each class and bin, (classes, bins), who were not there when it was last measured."""
    missing: Floats
    """How many they are, (classes,): those who entered and were not measured, the longer ago the less, and"""
    looked: Floats
    """the precision of the share of them who return, (classes,)."""
    class_weights: Floats
    """Of the dynamics, (classes, dynamics), by what the class has shown."""
    precision: Floats
    evidence: Floats
    """Of the rates of return, (classes, 2, 2) and (classes, 2)."""
    laws: Factors
    sizes: Factors
    """How far forecasts of laws and of sizes were off, by class,"""
    laws_alike: Alike
    sizes_alike: Alike
    """and how far they were off together."""
    activity: Activity
    """How active all are, against what rates of return say."""
    moments: Floats
    """The regression behind the weights of the laws of veterans, of everybody and of the uniform one."""
    heard: float
    """The probability that the laws know more than a uniform guess."""
    drift: CommonDrift
    """What laws have in common of their change."""
    season: Season
    """What is known of a declared season."""

    @cached_property
    def bins(self) -> int:
        """Number of bins of the domain."""
        return int(self.pool.messages.mean.shape[1])

    @cached_property
    def classes(self) -> int:
        """Number of classes; the last one takes all further payments."""
        return int(self.precision.shape[0])

    @cached_property
    def returning(self) -> tuple[Floats, Floats]:
        """Rates of return and their covariances: budgets and estimate of a slot ask for the same."""
        return regress_rates(self.precision, self.evidence)

    @property
    def known(self) -> bool:
        """Whether a slot has been measured yet."""
        return self.newcomers.known


def initial(bins: int, classes: int, season: int = 0) -> CellsState:
    """The state before the first slot: nothing is known, and everybody is new; `season` is a period in slots."""
    return seal_state(_begun(bins, classes, season))


def _begun(bins: int, classes: int, season: int = 0) -> CellsState:
    unknown = Law.unknown(bins)
    return CellsState(
        slot=0,
        newcomers=unknown,
        pool=unknown,
        veterans=unknown,
        everybody=unknown,
        population=initial_population(bins),
        inflow=Inflow(),
        cells=Cells.empty(bins, classes),
        absent=Gaussians(np.zeros((classes, bins)), np.zeros((classes, bins))),
        missing=np.zeros(classes),
        looked=np.zeros(classes),
        class_weights=np.broadcast_to(DYNAMICS_PRIOR, (classes, DYNAMICS_PRIOR.size)).copy(),
        precision=np.zeros((classes, 2, 2)),
        evidence=np.zeros((classes, 2)),
        laws=Factors.begun(classes, OF_LAWS),
        sizes=Factors.begun(classes, OF_SIZES),
        laws_alike=Alike(),
        sizes_alike=Alike(),
        activity=Activity(),
        moments=np.zeros((3, 4)),
        heard=0.0,
        drift=CommonDrift.begun(bins),
        season=Season.begun(season, bins, classes),
    )


def seal_state(state: CellsState) -> CellsState:
    """The state, once it is complete: nobody can change what it holds."""
    for array in _arrays(state):
        array.setflags(write=False)
    return state


def _arrays(state: CellsState) -> tuple[Floats, ...]:
    """The arrays of a state, in the order in which its parts are declared."""
    return _reader()(state)


@cache
def _reader() -> Callable[[CellsState], tuple[Floats, ...]]:
    return attrgetter(*_paths(_begun(1, 1)))


def _paths(part: object, *names: str) -> Iterator[str]:
    """Where the arrays of a state are."""
    if isinstance(part, np.ndarray):
        yield ".".join(names)
    elif is_dataclass(part):
        for field in fields(part):
            yield from _paths(getattr(part, field.name), *names, field.name)


def to_bytes(state: CellsState) -> bytes:
    """Magic, digest, one line of JSON with the scalars and shapes, and the arrays as little-endian doubles."""
    header = {
        "bins": state.bins,
        "classes": state.classes,
        "season": state.season.period,
        "slot": state.slot,
        "known": [law.known for law in (state.newcomers, state.pool, state.veterans, state.everybody)],
        "inflow": asdict(state.inflow),
        "alike": asdict(state.laws_alike),
        "sizes_alike": asdict(state.sizes_alike),
        "activity": asdict(state.activity),
        "heard": state.heard,
    }
    line = json.dumps(header).encode()
    line += b" " * (-(len(line) + 1) % _LINE) + b"\n"
    numbers = [a.astype("<f8", copy=False).reshape(-1).data for a in _arrays(state)]
    digest = hashlib.blake2b(line, digest_size=_DIGEST)
    for array in numbers:
        digest.update(array)
    return b"".join([_MAGIC, digest.digest(), line, *numbers])


def holds(data: bytes) -> bool:
    """Whether bytes say that they are such a state."""
    return data.startswith(_MAGIC)


def digested(data: bytes) -> int:
    """How many first bytes of such a state end with the digest of all others; 0 of any other bytes."""
    return len(_MAGIC) + _DIGEST if holds(data) else 0


def from_bytes(data: bytes) -> CellsState:
    """The state of `to_bytes`, bit for bit."""
    digest, body = data[len(_MAGIC) : len(_MAGIC) + _DIGEST], data[len(_MAGIC) + _DIGEST :]
    refuse_newer(_MAGIC, data, "the state of the clocked ledger's estimator")
    if not holds(data):
        raise StateError("the state was not written by this version of the clocked ledger's estimator.")
    if hashlib.blake2b(body, digest_size=_DIGEST).digest() != digest:
        raise StateError("the state of the clocked ledger's estimator is damaged: its checksum is wrong.")
    line, _, rest = body.partition(b"\n")
    header = json.loads(line)
    numbers = np.frombuffer(rest, dtype="<f8").astype(np.float64)
    at = 0

    def take(part: Part) -> Part:
        nonlocal at
        if isinstance(part, np.ndarray):
            start, at = at, at + part.size
            return numbers[start:at].reshape(part.shape)  # type: ignore[return-value]
        if not is_dataclass(part):
            return part
        return fast_replace(part, **{field.name: take(getattr(part, field.name)) for field in fields(part)})

    state = take(_begun(header["bins"], header["classes"], header["season"]))
    laws = (state.newcomers, state.pool, state.veterans, state.everybody)
    newcomers, pool, veterans, everybody = map(_told, laws, header["known"])
    state = fast_replace(
        state,
        slot=header["slot"],
        newcomers=newcomers,
        pool=pool,
        veterans=veterans,
        everybody=everybody,
        inflow=Inflow(**header["inflow"]),
        laws_alike=Alike(**header["alike"]),
        sizes_alike=Alike(**header["sizes_alike"]),
        activity=Activity(**header["activity"]),
        heard=header["heard"],
    )
    return seal_state(state)


def _told(law: Law, known: bool) -> Law:
    return fast_replace(law, known=known)


_NOWHERE: Floats = np.ones((4, 1))
"""The ratios by which laws are taken where all phases are one."""


def all_laws(state: CellsState) -> tuple[Law, Law, Law, Law]:
    """Of newcomers, pooled, of veterans and of everybody."""
    return state.newcomers, state.pool, state.veterans, state.everybody


def with_laws(state: CellsState, four: Sequence[Law]) -> CellsState:
    """The state with other laws."""
    newcomers, pool, veterans, everybody = four
    return fast_replace(state, newcomers=newcomers, pool=pool, veterans=veterans, everybody=everybody)


def enter_phase(state: CellsState, slot: int) -> tuple[CellsState, Floats]:
    """Laws and cells in the phase of a slot, and the ratios by which laws were taken there."""
    season = state.season
    if not season.period:
        return state, _NOWHERE
    learned = np.concatenate([[slot % season.period], season.laws, season.cells.ravel()])
    phases, at = np.unique(learned, return_inverse=True)
    profile, now = phase_profiles(season, phases.astype(np.int64)), at[0]
    ratios, relative = profile.mean[now] / profile.mean, profile.variance / profile.mean**2
    doubts = relative[now] + relative
    doubts[now] = 0.0
    steps, shape = ratios[at[1:5]], state.cells.mean.shape
    ratio, doubt = ratios[at[5:]].reshape(shape), doubts[at[5:]].reshape(shape)
    mean = state.cells.mean * ratio
    whole = mean.sum(-1, keepdims=True)
    mean /= whole
    variance = state.cells.variance * (ratio / whole) ** 2 + doubt * mean**2
    cells = fast_replace(state.cells, mean=mean, variance=variance)
    absent = Gaussians(state.absent.mean * ratio[BEHIND], state.absent.variance * ratio[BEHIND] ** 2)
    drift = fast_replace(state.drift, offset=state.drift.offset + np.log(steps[0]))
    return fast_replace(
        with_laws(state, _taken(all_laws(state), steps)), cells=cells, absent=absent, drift=drift
    ), steps


def _taken(four: Sequence[Law], steps: Floats) -> list[Law]:
    return [
        fast_replace(law, messages=Gaussians(law.messages.mean * step, law.messages.variance * step**2))
        if law.known
        else law
        for law, step in zip(four, steps, strict=True)
    ]


def leave_phase(before: CellsState, after: CellsState, due: int, told: Sequence[bool], steps: Floats) -> CellsState:
    """A state after a slot: what was learned in it stays in its phase, all else goes back to its own."""
    season = after.season
    if not season.period:
        return after
    touched = np.zeros(season.cells.shape, dtype=np.bool_)
    touched[:, 1:due] = True
    touched[PAID, np.minimum(np.arange(1, due + 1), after.classes - 1)] = True
    cells, old, row, phase = after.cells, before.cells, touched[BEHIND][:, None], after.slot % season.period
    back = np.where(np.array(told)[:, None], 1.0, 1 / steps)
    return fast_replace(
        with_laws(after, _taken(all_laws(after), back)),
        cells=fast_replace(
            cells,
            mean=np.where(touched[..., None], cells.mean, old.mean),
            variance=np.where(touched[..., None], cells.variance, old.variance),
        ),
        absent=Gaussians(
            np.where(row, after.absent.mean, before.absent.mean),
            np.where(row, after.absent.variance, before.absent.variance),
        ),
        season=fast_replace(
            season, laws=np.where(told, phase, season.laws), cells=np.where(touched, phase, season.cells)
        ),
    )


NEWCOMERS, OTHERS, MOST = 0.5, 0.25, 0.85
"""Fractions of what is left that newcomers and others pay where all return, and the most that anybody pays as long as
some may return. Source: by trial (benchmarks/clocked.py)."""
NEARLY_ALL, SURE = 0.99, 3.0
"""The most that anybody ever pays, and how many deviations above what rates say ρ is then still small. Source: by trial
(benchmarks/compare.py, benchmarks/clocked.py)."""


def shares(state: CellsState, due: int) -> tuple[Fraction, ...]:
    """The fractions of the `due` lowest classes, in steps of 1/`SHARE_STEPS`, rounded down."""
    means, covariances = state.returning
    top = state.classes - 1

    def share(m: int) -> Fraction:
        above = min(m + 1, top)
        soon, later = map(float, means[above])
        kept, doubt = 1 - (OTHERS if m else NEWCOMERS), SURE * float(covariances[above, 0, 0]) ** 0.5

        def paid(rate: float) -> float:
            return 1 - kept * min(1.0, rate / max(1 - later, 1e-9))

        fraction = min(max(min(paid(soon), MOST), paid(soon + doubt)), NEARLY_ALL)
        return Fraction(int(fraction * SHARE_STEPS), SHARE_STEPS)

    return tuple([share(m) for m in range(due)])
