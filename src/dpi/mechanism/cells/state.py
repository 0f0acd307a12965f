"""What the estimator remembers, and its bytes. All of it is public: a function of measurements after noise.

Its size is O(classes · bins), whatever the number of slots and users.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cache, cached_property
from operator import attrgetter
from typing import TypeVar

import numpy as np

from dpi.errors import StateError
from dpi.files.numbered import refuse_newer
from dpi.mechanism.base import Floats
from dpi.mechanism.cells import dynamics, sizes
from dpi.mechanism.cells.activity import Activity
from dpi.mechanism.cells.cells import Cells
from dpi.mechanism.cells.drift import CommonDrift
from dpi.mechanism.cells.factors import OF_LAWS, OF_SIZES, Alike, Factors
from dpi.mechanism.cells.law import Law
from dpi.mechanism.cells.season import Season
from dpi.mechanism.cells.sizes import Inflow
from dpi.mechanism.filtering import population
from dpi.mechanism.filtering.changed import replace
from dpi.mechanism.filtering.gaussians import Gaussians

_MAGIC = b"dpi cells state 1\n"
_DIGEST = 32
Part = TypeVar("Part")
_LINE = 1024
"""The line of JSON has a multiple of so many bytes: a dozen floats of at most 24 letters, and their names, fit in."""


MOST_CLASSES, FEWEST_CLASSES = 16, 4
MOST_CELLS = 1 << 17
"""How many classes there should be: the last of sixteen is due once in 32,768 slots, and so many numbers of bins, over
all classes, keep a state below 18 megabytes.

Source: by calculation; tests/mechanism/cells/test_cells_state.py measures the bytes.
"""


MOST_PHASES = 1 << 20
"""Numbers that the phases of a season may have, over all bins.

Source: by calculation; eight megabytes.
"""


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

    @property
    def bins(self) -> int:
        """Number of bins of the domain."""
        return int(self.pool.messages.mean.shape[1])

    @property
    def classes(self) -> int:
        """Number of classes; the last one takes all further payments."""
        return int(self.precision.shape[0])

    @cached_property
    def returning(self) -> tuple[Floats, Floats]:
        """Rates of return and their covariances: budgets and estimate of a slot ask for the same."""
        return sizes.regressed(self.precision, self.evidence)

    @property
    def known(self) -> bool:
        """Whether a slot has been measured yet."""
        return self.newcomers.known


def initial(bins: int, classes: int, season: int = 0) -> CellsState:
    """The state before the first slot: nothing is known, and everybody is new; `season` is a period in slots."""
    return sealed(_begun(bins, classes, season))


def _begun(bins: int, classes: int, season: int = 0) -> CellsState:
    unknown = Law.unknown(bins)
    return CellsState(
        slot=0,
        newcomers=unknown,
        pool=unknown,
        veterans=unknown,
        everybody=unknown,
        population=population.initial(bins),
        inflow=Inflow(),
        cells=Cells.empty(bins, classes),
        absent=Gaussians(np.zeros((classes, bins)), np.zeros((classes, bins))),
        missing=np.zeros(classes),
        looked=np.zeros(classes),
        class_weights=np.broadcast_to(dynamics.PRIOR, (classes, dynamics.PRIOR.size)).copy(),
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


def sealed(state: CellsState) -> CellsState:
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
    """Magic, digest, one line of JSON with the scalars and shapes, and the arrays as little-endian doubles.

    JSON prints a float by its shortest form, which reads back as the same float. Blanks make the line as long in every
    slot, so that an array that has not changed is the same bytes at the same place: stores then leave it as it is.
    """
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
        return replace(part, **{field.name: take(getattr(part, field.name)) for field in fields(part)})

    state = take(_begun(header["bins"], header["classes"], header["season"]))
    laws = (state.newcomers, state.pool, state.veterans, state.everybody)
    newcomers, pool, veterans, everybody = map(_told, laws, header["known"])
    state = replace(
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
    return sealed(state)


def _told(law: Law, known: bool) -> Law:
    return replace(law, known=known)
