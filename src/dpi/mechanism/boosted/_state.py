"""What the boosted mechanism remembers, and its bytes; the views of a domain that a rotating one keeps.

All of it is public: a function of options and of measurements after noise.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from functools import cached_property

import numpy as np

from dpi.domain import Bins, Domain, Product
from dpi.domain.partition import Blocks, Marginal, Partition
from dpi.errors import OptionError, StateError
from dpi.exact.integers import Integers, capped_sums
from dpi.files import refuse_newer
from dpi.mechanism.base import Floats
from dpi.mechanism.boosted._experts import Loud, Season, Walked, walked_parts
from dpi.mechanism.boosted._size import Dispersion, Payers, Size
from dpi.mechanism.filtering._gaussians import Gaussians

HUGE = 10_000
"""From this many bins on, an ordered domain or a product is worth measuring coarsely too. Source: benchmarks/utility.py
--partitions none beside rotation at 10,000 bins (docs/utility.md, Huge domains)."""
CAP_BITS = 60
"""Sums over blocks are cut at 2^60 grains. Like noise's own cut it moves no two sums further apart. Source: two of them
add up to less than 2^63; no measurement."""
COARSEST, FACTOR = 16, 8
"""Blocks of the coarsest partition of an ordered domain, and how many of the next finer one make a block. Source: by
trial."""


def automatic_partitions(domain: Domain) -> tuple[Partition, ...]:
    """The partitions of a domain that is huge and has a structure to use; none of any other domain.

    >>> automatic_partitions(Bins(range(1, 10_000)))
    (Blocks(count=16), Blocks(count=128), Blocks(count=1024))
    """
    if domain.size < HUGE:
        return ()
    if isinstance(domain, Product):
        return tuple(Marginal(name) for name, part in domain.parts.items() if 1 < part.size < domain.size)
    if not isinstance(domain, Bins):
        return ()
    counts = [COARSEST]
    while FACTOR * counts[-1] <= domain.size // 4:
        counts.append(FACTOR * counts[-1])
    return tuple(Blocks(count) for count in counts)


@dataclass(frozen=True, eq=False)
class View:
    """One partition of the bins; `labels` are None for the bins themselves."""

    blocks: int
    labels: Integers | None

    @cached_property
    def sizes(self) -> Integers | None:
        """The bins of every block, if each is a run of neighbours, which are added up several times as fast."""
        if self.labels is None or bool((np.diff(self.labels) < 0).any()):
            return None
        return np.bincount(self.labels, minlength=self.blocks)

    def sums(self, pdf: Floats) -> Floats:
        """The probability of every block."""
        if self.labels is None:
            return pdf
        if self.sizes is None:
            return np.asarray(np.bincount(self.labels, pdf, self.blocks), dtype=np.float64)
        return np.add.reduceat(pdf, np.cumsum(self.sizes) - self.sizes)

    def counts(self, grains: Integers) -> Integers:
        """The grains of every block, exactly; cut at 2^60, as noise cuts them, where they do not fit in 64 bits."""
        return grains if self.labels is None else capped_sums(grains, self.labels, self.blocks, CAP_BITS)

    def spread(self, values: Floats) -> Floats:
        """The value of every bin's block."""
        if self.labels is None:
            return values
        return values[self.labels] if self.sizes is None else np.repeat(values, self.sizes)

    def within(self, other: View) -> View | None:
        """`other` as a partition of this one's blocks; None, if not every block lies in one block of it."""
        if self.labels is None or other.labels is None:
            return other if self.labels is None else None
        one = np.zeros(self.blocks, dtype=np.int64)
        one[self.labels] = other.labels
        return View(other.blocks, one) if bool((one[self.labels] == other.labels).all()) else None


@dataclass(frozen=True, eq=False)
class Layout:
    """The views from coarse to fine, the bins last, and whether neighbouring bins are alike."""

    views: tuple[View, ...]
    ordered: bool

    @classmethod
    def of(cls, partitions: Sequence[Partition], domain: Domain) -> Layout:
        """The partitions of a domain, sorted by their number of blocks, and its bins."""
        labels = [partition.labels(domain) for partition in partitions]
        views = sorted((View(int(of.max()) + 1, of) for of in labels), key=lambda view: view.blocks)
        if any(view.blocks >= domain.size for view in views):
            raise OptionError("`partitions` must be coarser than the domain's bins, which are always measured too.")
        return cls((*views, View(domain.size, None)), isinstance(domain, Bins))

    @property
    def bins(self) -> int:
        """Number of bins of the domain."""
        return self.views[-1].blocks

    @cached_property
    def parents(self) -> tuple[tuple[int, View] | None, ...]:
        """For every view the finest earlier one that it refines, and that one as a partition of its blocks."""
        found: list[tuple[int, View] | None] = []
        for at, view in enumerate(self.views):
            coarser = ((other, view.within(self.views[other])) for other in reversed(range(at)))
            found.append(next(((other, blocks) for other, blocks in coarser if blocks is not None), None))
        return tuple(found)


_MAGIC = b"dpi boosted state 1\n"
_DIGEST = 32


class Phase(Enum):
    """Where a slot falls in the season: there is none, its phase is met for the first time, or again."""

    NONE = 0
    FIRST = 1
    AGAIN = 2


@dataclass(frozen=True, eq=False)
class BoostedState:
    """The pool of experts, their weights, and the shared facts they are read with. Its arrays are read-only."""

    pool: Gaussians
    """Messages of the trackers and, in the last rows, of restart and challenger, as of the last slot measured. In a
    huge domain one row, the leader's, stands for all trackers, but for the bins that are `loud`."""
    walk: Floats
    """The part of their variances that log-walks have brought."""
    season: Season
    """Messages of the seasonal expert, one for each phase; empty without a season."""
    age: float
    """Slots since then. One that showed nothing counts as no time: what is known would otherwise fade with every slot
    of a converging series, and nothing could bring it back."""
    log_weights: Floats
    """Of the trackers, the seasonal expert if there is one, restart, challenger and the uniform PDF."""
    odds: Floats
    """Log odds that each bin has jumped since the challenger started."""
    population: Floats
    """Shares of the levels."""
    size: Size
    """The size at which the trackers' levels become counts."""
    plain: Size
    """The size by the sums alone, at which the challenger's levels become counts: right whatever the PDF."""
    dispersion: Dispersion
    mass: float
    """Sum of the levels in the trackers, near one; the season's messages are scaled to a sum of one."""
    payers: Payers
    """Sizes of past slots, by which the share of those who still pay is known."""
    known: bool
    """Whether a slot has been measured yet."""
    loud: Loud | None = None
    """The trackers' own messages in the bins of a huge domain that stand out."""

    def __post_init__(self) -> None:
        for array in _arrays(self):
            array.setflags(write=False)
        # A numpy scalar makes single-precision arithmetic double, a Python float does not; bytes come back as floats.
        # So a state holds floats only: resumed, it must compute what it would have computed.
        for name in ("mass", "age"):
            object.__setattr__(self, name, float(getattr(self, name)))
        for name in ("size", "plain", "dispersion"):
            part = getattr(self, name)
            object.__setattr__(self, name, type(part)(**{key: float(value) for key, value in asdict(part).items()}))

    @property
    def bins(self) -> int:
        """Number of bins of the domain."""
        return int(self.pool.mean.shape[1])

    @property
    def trackers(self) -> int:
        """Number of trackers."""
        return len(self.pool.mean) - 2 if self.loud is None else len(self.loud.trackers.walk)

    @property
    def leader(self) -> int:
        """The tracker that is believed most."""
        return int(np.argmax(self.log_weights[: self.trackers]))

    @property
    def leading(self) -> Gaussians:
        """Its messages."""
        return self.pool[self.leader if self.loud is None else 0]

    def phase(self, slot: int) -> Phase:
        """Where a slot falls in the season."""
        if not self.season:
            return Phase.NONE
        return Phase.FIRST if self.season[slot % len(self.season)] is None else Phase.AGAIN


def _arrays(state: BoostedState) -> list[Floats | Integers]:
    phases = [phase for phase in state.season if phase is not None]
    messages = [array for pool in (state.pool, *phases) for array in (pool.mean, pool.variance)]
    loud: list[Floats | Integers] = [] if state.loud is None else [state.loud.at, *walked_parts(state.loud.trackers)]
    return [*messages, state.walk, state.log_weights, state.odds, state.population, *loud]


def state_to_bytes(state: BoostedState) -> bytes:
    """Magic, digest, one line of JSON with the scalars and shapes, and the arrays as little-endian doubles."""
    header = {
        "pool": state.pool.mean.shape,
        "season": [phase is not None for phase in state.season],
        "age": state.age,
        "levels": state.population.size,
        "size": asdict(state.size),
        "plain": asdict(state.plain),
        "dispersion": asdict(state.dispersion),
        "mass": state.mass,
        "payers": asdict(state.payers),
        "known": state.known,
        "loud": None if state.loud is None else state.loud.trackers.walk.shape,
    }
    body = b"".join([json.dumps(header).encode(), b"\n", *(a.astype("<f8").tobytes() for a in _arrays(state))])
    return _MAGIC + hashlib.blake2b(_MAGIC + body, digest_size=_DIGEST).digest() + body


def state_from_bytes(data: bytes) -> BoostedState:
    """The state of `to_bytes`, bit for bit."""
    magic, digest, body = data[: len(_MAGIC)], data[len(_MAGIC) : len(_MAGIC) + _DIGEST], data[len(_MAGIC) + _DIGEST :]
    refuse_newer(_MAGIC, data, "the state of the boosted mechanism")
    if magic != _MAGIC:
        raise StateError("the state was not written by this version of the boosted mechanism.")
    if hashlib.blake2b(_MAGIC + body, digest_size=_DIGEST).digest() != digest:
        raise StateError("the state of the boosted mechanism is damaged: its checksum is wrong.")
    line, _, rest = body.partition(b"\n")
    header = json.loads(line)
    numbers = np.frombuffer(rest, dtype="<f8").astype(np.float64)
    (rows, bins), own, at = header["pool"], header["loud"], 0

    def take(*shape: int) -> Floats:
        nonlocal at
        start, at = at, at + int(np.prod(shape))
        return numbers[start:at].reshape(shape)

    def take_loud() -> Loud:
        return Loud(take(own[1]).astype(np.int64), Walked(Gaussians(take(*own), take(*own)), take(*own)))

    return BoostedState(
        pool=Gaussians(take(rows, bins), take(rows, bins)),
        season=tuple(Gaussians(take(bins), take(bins)) if seen else None for seen in header["season"]),
        walk=take(rows, bins),
        age=header["age"],
        log_weights=take((own[0] + 2 if own else rows) + bool(header["season"]) + 1),
        odds=take(bins),
        population=take(header["levels"]),
        size=Size(**header["size"]),
        plain=Size(**header["plain"]),
        dispersion=Dispersion(**header["dispersion"]),
        mass=header["mass"],
        payers=Payers(**{**header["payers"], "recent": tuple(header["payers"]["recent"])}),
        known=header["known"],
        loud=take_loud() if own else None,
    )


_VIEWS_MAGIC = b"dpi rotating state 1\n"


@dataclass(frozen=True, eq=False)
class Views:
    """A state for each view, from coarse to fine; the bins' own is the last."""

    layout: Layout
    states: tuple[BoostedState, ...]
    log_weights: Floats
    """Of the bins' own mechanism, of its PDF corrected by the coarser views, then of the PDFs down to each view."""
    credit: Floats
    """How many turns each view is owed."""
    turn: int
    """The view that the next slot is asked for."""
    foreseen: tuple[Floats, ...] = ()
    """What the PDF down to each view predicts of its blocks. It follows from all else and is not stored: empty, it is
    made anew; but a slot that was measured has just made it."""

    def __post_init__(self) -> None:
        self.log_weights.setflags(write=False)
        self.credit.setflags(write=False)

    @property
    def bins(self) -> int:
        """Number of bins of the domain."""
        return self.layout.bins

    @property
    def asked(self) -> View:
        """What the next slot is asked for."""
        return self.layout.views[self.turn]


def initial_views(layout: Layout, states: tuple[BoostedState, ...]) -> Views:
    """Before the first slot: all candidates alike, and the coarsest view first."""
    candidates = len(states) + 2
    return Views(layout, states, np.full(candidates, -np.log(candidates)), np.zeros(len(states)), 0)


def views_to_bytes(views: Views) -> bytes:
    """Magic, digest, one line of JSON, and the states of the views one after the other."""
    states = [state_to_bytes(state) for state in views.states]
    header = {
        "states": [len(state) for state in states],
        "log_weights": views.log_weights.tolist(),
        "credit": views.credit.tolist(),
        "turn": views.turn,
    }
    body = b"".join([json.dumps(header).encode(), b"\n", *states])
    return _VIEWS_MAGIC + hashlib.blake2b(body, digest_size=_DIGEST).digest() + body


def views_from_bytes(layout: Layout, data: bytes) -> Views:
    """The state of `to_bytes`, bit for bit; its parts may still belong to other options."""
    digest, body = data[len(_VIEWS_MAGIC) : len(_VIEWS_MAGIC) + _DIGEST], data[len(_VIEWS_MAGIC) + _DIGEST :]
    refuse_newer(_VIEWS_MAGIC, data, "the state of the boosted mechanism")
    if not data.startswith(_VIEWS_MAGIC):
        raise StateError("the state was not written by this version of the boosted mechanism with these partitions.")
    if hashlib.blake2b(body, digest_size=_DIGEST).digest() != digest:
        raise StateError("the state of the boosted mechanism is damaged: its checksum is wrong.")
    line, _, rest = body.partition(b"\n")
    header = json.loads(line)
    states = []
    for size in header["states"]:
        states.append(state_from_bytes(rest[:size]))
        rest = rest[size:]
    if [state.bins for state in states] != [view.blocks for view in layout.views]:
        raise StateError("the state belongs to a mechanism with other options or to another domain.")
    log_weights, credit = np.array(header["log_weights"]), np.array(header["credit"])
    return Views(layout, tuple(states), log_weights, credit, header["turn"])
