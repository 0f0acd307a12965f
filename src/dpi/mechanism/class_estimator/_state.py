"""What the estimator of users by class remembers between slots, and its bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpi.mechanism.base import Floats
from dpi.mechanism.class_estimator._activity import ActivityState
from dpi.mechanism.class_estimator._hypotheses import STEADY, Distributions
from dpi.mechanism.class_estimator._season import Season
from dpi.mechanism.codec import decode, encode

_MAGIC = b"dpi users 2\n"


@dataclass(frozen=True, eq=False)
class UsersState:
    """Public: a function of measurements."""

    slot: int
    """The last slot that was closed."""
    slots: int
    """How many slots were closed."""
    epsilon: float
    """What an account holds at first."""
    laws: Distributions
    pace: Floats
    """Logarithm of by how much laws move faster than hypotheses say, as each histogram found (`_distributions`)."""
    activity: ActivityState
    season: Season
    measured: Floats
    """The slot in which each class was measured last."""
    users_per_bin: float
    """Smoothed, as payments see it."""
    newcomers: float
    """Their share of active users, smoothed."""
    first: int
    """The first slot that was measured, or -1 before it."""
    reach: Floats
    """Newcomers of all slots as they were measured, without a model, and the variance of that."""
    apart: Floats
    """By how much newcomers were more than measured, summed over about twenty slots, and how many these are."""

    @classmethod
    def begun(cls, bins: int, classes: int, season: int) -> UsersState:
        """Before anything was seen."""
        return cls(
            slot=-1,
            slots=0,
            epsilon=0.0,
            laws=Distributions.begun(bins),
            pace=STEADY,
            activity=ActivityState.begun(classes),
            season=Season.begun(season, bins),
            measured=np.full(classes, -1.0),
            users_per_bin=0.0,
            newcomers=0.5,
            first=-1,
            reach=np.zeros(2),
            apart=np.zeros(2),
        )

    @property
    def known(self) -> bool:
        """Whether anything was measured."""
        return self.slots > 0

    @property
    def bins(self) -> int:
        """How many bins the domain has."""
        return int(self.laws.level.size)

    @property
    def classes(self) -> int:
        """Classes of users, newcomers included."""
        return int(self.measured.size)


def to_bytes(state: UsersState) -> bytes:
    """Encode the state, for storage."""
    return encode(_MAGIC, state)


def holds(data: bytes) -> bool:
    """Whether bytes say that they are such a state, of whatever version."""
    return data.startswith(_MAGIC[: _MAGIC.rindex(b" ") + 1])


def from_bytes(data: bytes) -> UsersState:
    """Read the state of `to_bytes`, bit for bit."""
    return decode(UsersState, _MAGIC, data, "the clocked ledger's estimator")
