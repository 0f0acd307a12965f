"""The protocol of a baseline: a mechanism of others that sees a histogram in every slot and releases at once.

One protocol for all, so that comparisons treat them alike: `update`, `event_epsilon`, `user_epsilon`, `variance`,
`memory`. A baseline never sees a user: most protect *one record*, and `user_epsilon` says what that is worth to a user
who has records in every slot. `dpi_research.baselines.wrappers` makes any of them protect a user.

Values are held in *grains*, 2^24 to a record, and noise is exact discrete Laplace noise in grains: pure DP without
floating point, and a law that differs from the published continuous one by less than 10^-7 of its scale.
"""

from __future__ import annotations

import math
import tomllib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sized
from dataclasses import dataclass, field
from fractions import Fraction
from importlib.resources import files
from typing import Any, ClassVar, Literal, dataclass_transform

import numpy as np
import numpy.typing as npt

from dpi.budget.epsilon import Amount, rational
from dpi.errors import OptionError
from dpi.exact.integers import GRAINS, Integers
from dpi.noise import RandomSource, SystemSource, add_laplace
from dpi.noise.laplace import LARGEST_VALUE
from dpi_research.baselines._gaussian import add_gaussian
from dpi_research.baselines.accounting import Floats, Loss, check_between, delta_of, epsilon_of, rho_of

FACTS: dict[str, dict[str, Any]] = tomllib.loads((files(__package__) / "facts.toml").read_text(encoding="utf-8"))
LARGEST_EPSILON = 1024
LARGEST_COUNT = 1 << 30
"""A count of one bin in one slot is cut to this, by itself."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is public about a mechanism; docs/baselines.csv is made of these."""

    source: str
    """Whose it is, and where it was published."""
    releases: Literal["prefix", "slot"] = "slot"
    """Whether a release estimates the sum of all slots so far, or the slot alone."""
    unit: str = "one record"
    """What is protected with ε."""
    horizon: str = "for ever"
    delta: str = "none"
    memory: str
    variance: str
    user_loss: str
    """The loss of a user with c records in each of t slots."""
    reconstructed: str = "nothing"
    """Where this differs from the published text, or had to be filled in."""


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
@dataclass(kw_only=True, eq=False)
class Baseline(ABC):
    """A mechanism's public options, and its state; what inherits from it is such a data class too.

    epsilon: the mechanism's own ε, for one record.
    bins: how many counters run side by side; a record is in one bin, so they cost ε together, not each.
    """

    facts: ClassVar[Facts]
    """Those of `facts.toml` under the name of the class."""
    protects_users: ClassVar[bool] = False
    """Whether ε is for all records of a user, so that neither slots nor records add to the loss."""
    held: ClassVar[tuple[str, ...]] = ()
    """The attributes that hold numbers from one slot to the next, apart from the options."""

    epsilon: Amount
    bins: int = 1
    unsafe_source: RandomSource | None = field(default=None, repr=False)
    slot: int = field(default=0, init=False, repr=False)
    """How many slots were released."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(kw_only=True, eq=False)(cls)
        if cls.__name__ in FACTS:
            cls.facts = Facts(**FACTS[cls.__name__])

    def __post_init__(self) -> None:
        self.rate = self._rate()
        check_count(self.bins, "bins")
        self._source: RandomSource = SystemSource() if self.unsafe_source is None else self.unsafe_source
        self._start()

    def _rate(self) -> Fraction:
        rate = rational(self.epsilon)
        if not 0 < rate <= LARGEST_EPSILON:
            raise OptionError(f"`epsilon` must be above 0 and at most {LARGEST_EPSILON}. Got {self.epsilon}.")
        return rate

    # The protocol.

    def update(self, counts: npt.ArrayLike) -> Floats:
        """Close a slot: see its counts once and release one estimate per bin; NaN where nothing is released yet.

        A value that is not a number counts as 0, one outside 0 … 2^30 as the nearest border, each by itself.
        """
        return self.advance(self._read(counts))

    def advance(self, grains: Integers) -> Floats:
        """The same for values in grains (2^24 to a record), as one mechanism hands them to another inside it."""
        if self.horizon is not None and self.slot >= self.horizon:
            raise OptionError(f"the mechanism was set up for {self.horizon} slots, and all are released.")
        self.slot += 1
        return self._step(grains)

    def observe(self, users: npt.ArrayLike, values: npt.ArrayLike) -> Floats:
        """Close a slot from its records: one id and one bin each; values outside the bins are dropped.

        Most mechanisms see the histogram alone; one that tells users apart overrides this.
        """
        _, bins = self._read_records(users, values)
        return self.update(np.bincount(bins, minlength=self.bins))

    @property
    def horizon(self) -> int | None:
        """How many slots the mechanism can release: `slots`, for those that have this option; None: for ever."""
        return getattr(self, "slots", None)

    @property
    def warm_up(self) -> int:
        """How many slots at the start are seen and not released."""
        return 0

    @property
    def event_epsilon(self) -> float:
        """The loss about one record."""
        return float(self.rate * self.record_share)

    @property
    def record_share(self) -> Fraction:
        """What one record can lose, as a share of ε: less than 1 where ε is for a window, or for a whole series."""
        return Fraction(1)

    @property
    def delta(self) -> float:
        """The δ of the mechanism's own guarantee."""
        return 0.0

    def group_rate(self, epsilon: Fraction, cap: int) -> Fraction:
        """The ε to run with so that `cap` records, wherever they are, cost `epsilon` together."""
        return min(epsilon / cap / self.record_share, Fraction(LARGEST_EPSILON))

    def group_delta(self, epsilon: Fraction, cap: int) -> float:
        """The δ that goes with it: `cap` records are removed one by one."""
        one = float(epsilon / cap)
        return self.delta and min(1.0, cap * math.exp((cap - 1) * one) * self.delta)

    def user_epsilon(self, slots: int, records: Amount = 1, delta: float | None = None) -> float:
        """The loss about a user with up to `records` records in each of the first `slots` slots.

        Without δ the loss is pure. A mechanism for a limited number of slots says nothing more after its last.
        """
        if slots < 0:
            raise OptionError(f"`slots` must be at least 0. Got {slots}.")
        factor = rational(records, "records")
        if factor <= 0:
            raise OptionError(f"`records` must be above 0. Got {records}.")
        last = slots if self.horizon is None else min(slots, self.horizon)
        return self._user_epsilon(last, factor, delta)

    def _user_epsilon(self, slots: int, records: Fraction, delta: float | None) -> float:
        return self.loss(slots).scaled(records).epsilon(delta)

    @abstractmethod
    def loss(self, slots: int) -> Loss:
        """What a user with one record in each of the first `slots` slots loses."""

    def variance(self, slot: int) -> float | None:
        """Variance of each bin's release in a slot (1, 2, …), where it is known in advance."""
        return None

    @property
    def memory(self) -> int:
        """How many numbers are held now, apart from the options."""
        return sum(count_numbers(getattr(self, name, ())) for name in self.held)

    # For the mechanisms.

    def _start(self) -> None:  # noqa: B027 - some have neither options nor state
        """Check the options and set the state up."""

    @abstractmethod
    def _step(self, grains: Integers) -> Floats:
        """The release of slot number `self.slot`."""

    def _laplace(self, grains: Integers, scale: Fraction) -> Integers:
        """Grains with exact noise of this scale, in records: the only way in which a mechanism adds noise.

        A move of the grains by s records costs s/scale. Cutting at 2^60 grains moves nothing further apart.
        """
        return add_laplace(np.minimum(grains, LARGEST_VALUE), scale * GRAINS, self._source)

    def _read_records(self, users: npt.ArrayLike, values: npt.ArrayLike) -> tuple[npt.NDArray[Any], Integers]:
        """Ids and bins of the records whose value is one of the bins."""
        ids, bins = np.asarray(users), np.asarray(values, dtype=np.int64)
        if ids.shape != bins.shape:
            raise OptionError("`users` and `values` must be as long as each other, one of each for a record.")
        inside = (bins >= 0) & (bins < self.bins)
        return ids[inside], bins[inside]

    def _read(self, counts: npt.ArrayLike) -> Integers:
        values = np.atleast_1d(np.asarray(counts))
        if values.shape != (self.bins,) or values.dtype.kind not in "iufb":
            raise OptionError(f"`counts` must be {self.bins} numbers, one for each bin.")
        if values.dtype.kind == "f":
            values = np.nan_to_num(values, nan=0.0, posinf=LARGEST_COUNT, neginf=0.0)
            return np.asarray(np.rint(np.clip(values, 0, LARGEST_COUNT) * GRAINS).astype(np.int64))
        return np.asarray(np.clip(values, 0, LARGEST_COUNT).astype(np.int64) * GRAINS)


def count_numbers(part: object) -> int:
    """How many numbers something holds: an array, a list of such things, a part that knows, or one number."""
    if isinstance(part, list | deque):
        return sum(map(count_numbers, part))
    known = getattr(part, "memory", getattr(part, "size", None))
    return int(known) if known is not None else len(part) if isinstance(part, Sized) else 1


def check_count(value: int, name: str, least: int = 1) -> None:
    """Refuse an option that is not a whole number of at least `least`."""
    if type(value) is not int or value < least:
        raise OptionError(f"`{name}` must be a whole number of at least {least}. Got {value!r}.")


class Concentrated(Baseline):
    """A mechanism that is ρ-zCDP for one record, where ρ is the largest that keeps (ε, `own_delta`).

    c records of one user cost c²·ρ if they lie in one slot; `loss` says what a user in every slot loses. Without a δ
    the loss is infinite: Gaussian noise has no pure guarantee.
    """

    own_delta: float = 1e-6

    def __post_init__(self) -> None:
        check_between(self.own_delta, "delta")
        self.rho = rho_of(self._rate(), self.own_delta)
        """The guarantee about one record, in zCDP."""
        super().__post_init__()

    @property
    def delta(self) -> float:
        """The declared δ of the conversion."""
        return self.own_delta

    def group_rate(self, epsilon: Fraction, cap: int) -> Fraction:
        """The ε of ρ/cap² at the declared δ, where ρ keeps (`epsilon`, δ): cap records cost at most cap²·ρ."""
        return Fraction(epsilon_of(float(rho_of(epsilon, self.own_delta) / cap**2), self.own_delta) * (1 - 1e-9))

    def group_delta(self, epsilon: Fraction, cap: int) -> float:
        """δ of cap²·ρ."""
        return delta_of(float(self.rho * cap**2), float(epsilon))

    def _gaussian(self, grains: Integers, variance: Fraction) -> Integers:
        """Grains with exact noise of this variance, in records²: the only way in which Gaussian noise is added.

        A move of the grains by s records in ℓ₂ costs ρ = s²/(2·variance).
        """
        cut = np.clip(grains, -LARGEST_VALUE, LARGEST_VALUE)
        return add_gaussian(cut, variance * GRAINS**2, self._source)


class Prefixed(Baseline):
    """What such systems share: `slots` values, each in 0 … `largest`, are released after a warm-up.

    The `prefix` values of the warm-up are not released: a threshold is learnt from them, to which the others are cut.
    """

    slots: int
    prefix: int = 65_536
    largest: int = 1 << 16

    def _start(self) -> None:
        if self.bins != 1:
            raise OptionError("this mechanism has one bin; use PerBin(mechanism=..., bins=...) for more.")
        for name in ("slots", "prefix", "largest"):
            check_count(getattr(self, name), name)
        self._values: list[float] = []

    def _step(self, grains: Integers) -> Floats:
        if self.slot > self.prefix:
            return np.array([self._count(int(grains[0]))])
        self._values.append(self._keep(int(grains[0])))
        if self.slot == self.prefix:
            self._learn()
            self._values = []
        return np.array([np.nan])

    def _keep(self, grains: int) -> float:
        """What is kept of a value of the prefix."""
        return grains

    @abstractmethod
    def _learn(self) -> None:
        """Choose the threshold, from what is kept."""

    @abstractmethod
    def _count(self, grains: int) -> float:
        """The sum after the next value."""

    @property
    def horizon(self) -> int:
        """The prefix and the declared slots."""
        return self.prefix + self.slots

    @property
    def warm_up(self) -> int:
        """The prefix."""
        return self.prefix
