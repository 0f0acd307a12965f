"""What the boosted mechanism remembers, and its bytes. All of it is public: a function of measurements after noise."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from enum import Enum

import numpy as np

from dpi.errors import StateError
from dpi.exact.integers import Integers
from dpi.files.numbered import refuse_newer
from dpi.mechanism.base import Floats
from dpi.mechanism.boosted.assimilation import Dispersion
from dpi.mechanism.boosted.coverage import Payers
from dpi.mechanism.boosted.experts import Season, Walked
from dpi.mechanism.boosted.quiet import Loud, parts
from dpi.mechanism.boosted.size import Size
from dpi.mechanism.filtering.gaussians import Gaussians

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
    loud: list[Floats | Integers] = [] if state.loud is None else [state.loud.at, *parts(state.loud.trackers)]
    return [*messages, state.walk, state.log_weights, state.odds, state.population, *loud]


def to_bytes(state: BoostedState) -> bytes:
    """Magic, digest, one line of JSON with the scalars and shapes, and the arrays as little-endian doubles.

    JSON prints a float by its shortest form, which reads back as the same float.
    """
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


def from_bytes(data: bytes) -> BoostedState:
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
