"""What the boosted mechanism remembers, and its bytes. All of it is public: a function of measurements after noise."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from enum import Enum

import numpy as np

from dpi.errors import StateError
from dpi.mechanism.base import Floats
from dpi.mechanism.boosted.assimilation import Dispersion
from dpi.mechanism.boosted.coverage import Payers
from dpi.mechanism.boosted.experts import Gaussians, Season
from dpi.mechanism.boosted.size import Size

_MAGIC = b"dpi boosted state 2\n"
_DIGEST = 32


class Phase(Enum):
    """Where a slot falls in the season: there is none, its phase is met for the first time, or again."""

    NONE = 0
    FIRST = 1
    AGAIN = 2


@dataclass(frozen=True, eq=False)
class BoostedState:
    """The pool of experts, their weights, and the shared facts they are read with. Its arrays are read-only."""

    trackers: Gaussians
    """Messages of the trackers, (trackers, bins), aged to the next slot."""
    season: Season
    """Messages of the seasonal expert, one for each phase; empty without a season."""
    log_weights: Floats
    """Of the trackers, then of the seasonal expert."""
    uniform: float
    """Log odds of the uniform expert against the pool."""
    population: Floats
    """Shares of the levels."""
    size: Size
    dispersion: Dispersion
    mass: float
    """Sum of the levels in the trackers, near one; the season's messages are scaled to a sum of one."""
    payers: Payers
    """Sizes of past slots, by which the share of those who still pay is known."""
    known: bool
    """Whether a slot has been measured yet."""

    def __post_init__(self) -> None:
        for array in _arrays(self):
            array.setflags(write=False)
        # A numpy scalar makes single-precision arithmetic double, a Python float does not; bytes come back as floats.
        # So a state holds floats only: resumed, it must compute what it would have computed.
        for name in ("uniform", "mass"):
            object.__setattr__(self, name, float(getattr(self, name)))
        for name in ("size", "dispersion"):
            part = getattr(self, name)
            object.__setattr__(self, name, type(part)(**{key: float(value) for key, value in asdict(part).items()}))

    @property
    def bins(self) -> int:
        """Number of bins of the domain."""
        return int(self.trackers.mean.shape[1])

    def phase(self, slot: int) -> Phase:
        """Where a slot falls in the season."""
        if not self.season:
            return Phase.NONE
        return Phase.FIRST if self.season[slot % len(self.season)] is None else Phase.AGAIN


def _arrays(state: BoostedState) -> list[Floats]:
    phases = [phase for phase in state.season if phase is not None]
    messages = [array for pool in (state.trackers, *phases) for array in (pool.mean, pool.variance)]
    return [*messages, state.log_weights, state.population]


def to_bytes(state: BoostedState) -> bytes:
    """Magic, digest, one line of JSON with the scalars and shapes, and the arrays as little-endian doubles.

    JSON prints a float by its shortest form, which reads back as the same float.
    """
    header = {
        "trackers": state.trackers.mean.shape,
        "season": [phase is not None for phase in state.season],
        "levels": state.population.size,
        "size": asdict(state.size),
        "uniform": state.uniform,
        "dispersion": asdict(state.dispersion),
        "mass": state.mass,
        "payers": asdict(state.payers),
        "known": state.known,
    }
    body = b"".join([json.dumps(header).encode(), b"\n", *(a.astype("<f8").tobytes() for a in _arrays(state))])
    return _MAGIC + hashlib.blake2b(body, digest_size=_DIGEST).digest() + body


def from_bytes(data: bytes) -> BoostedState:
    """The state of `to_bytes`, bit for bit."""
    digest, body = data[len(_MAGIC) : len(_MAGIC) + _DIGEST], data[len(_MAGIC) + _DIGEST :]
    if not data.startswith(_MAGIC):
        raise StateError("the state was not written by this version of the boosted mechanism.")
    if hashlib.blake2b(body, digest_size=_DIGEST).digest() != digest:
        raise StateError("the state of the boosted mechanism is damaged: its checksum is wrong.")
    line, _, rest = body.partition(b"\n")
    header = json.loads(line)
    numbers = np.frombuffer(rest, dtype="<f8").astype(np.float64)
    trackers, bins = header["trackers"]
    experts = trackers + bool(header["season"])
    at = 0

    def take(*shape: int) -> Floats:
        nonlocal at
        start, at = at, at + int(np.prod(shape))
        return numbers[start:at].reshape(shape)

    return BoostedState(
        trackers=Gaussians(take(trackers, bins), take(trackers, bins)),
        season=tuple(Gaussians(take(bins), take(bins)) if seen else None for seen in header["season"]),
        log_weights=take(experts),
        population=take(header["levels"]),
        size=Size(**header["size"]),
        uniform=header["uniform"],
        dispersion=Dispersion(**header["dispersion"]),
        mass=header["mass"],
        payers=Payers(**{**header["payers"], "recent": tuple(header["payers"]["recent"])}),
        known=header["known"],
    )
