"""What a mechanism is: it sees a slot's histogram once, through noise, and makes an estimate of its PDF.

A mechanism is a frozen object of public options. `measure` is the only step that sees private data: it is randomised,
and its guarantee is stated there. Everything else is a pure function of what was measured, so it is post-processing,
costs no privacy, and can be replayed after a crash: the same state and measurement give the same bytes.

A mechanism knows a histogram, an amount of budget and the slot's number. It never sees a user.

In Coq: groups of one slot `slot_ratio`, `proofs/Laplace.v`; all slots together `promise_of_a_store`,
`proofs/StorePromise.v`.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from dpi.budget.classes import GroupBudget, PaymentRequest
from dpi.budget.epsilon import Epsilon
from dpi.budget.policy import Clocked
from dpi.domain import Domain
from dpi.errors import OptionError
from dpi.exact.integers import GRAINS, Integers
from dpi.histogram.compression import Histogram
from dpi.noise import RandomSource, add_laplace
from dpi.options import Family, Option, kind_of

Floats = npt.NDArray[np.float64]
State = TypeVar("State")


@dataclass(frozen=True, eq=False)
class Measurement:
    """What was seen of one slot, after noise: public, and all that a mechanism ever learns of the slot.

    `values` are whole numbers whose meaning is the mechanism's: noisy grains, or indices of chosen candidates. A slot
    without budget is not looked at: its values are empty.
    """

    slot: int
    epsilon: Epsilon
    values: Integers
    partial: bool = False
    """Whether accounts may have been empty (a public fact: budgets of earlier slots reach ε, and users are not declared
    never to return), so that the values describe those who still pay rather than all who are active."""
    groups: tuple[GroupBudget, ...] = ()
    """Where users are measured by class: the budgets of the groups that were measured. `values` are then noisy grains,
    the bins of one group after those of the other, and `epsilon` is the largest of the budgets. The first class of the
    first group are newcomers, who are due in every slot and can have all of ε left."""


class People(NamedTuple):
    """Active users who are new to the stream, those who returned, and all who ever came: numbers and variances."""

    newcomers: float
    newcomers_variance: float
    returning: float
    returning_variance: float
    reach: float
    reach_variance: float


AFTER, WINDOWS, HORIZON = (1, 7, 30), (7, 30), 30
"""Retention is told after so many slots, stickiness within windows of so many, further activity within so many."""
ENGAGEMENT = (
    *(f"{cohort}retention_{after}" for cohort in ("", "first_") for after in AFTER),
    *(f"stickiness_{window}" for window in WINDOWS),
    "further_activity",
)
"""How users go on: a release has those of these numbers that were measured, each beside its variance."""
SPANS = (7, 28)
"""Distinct users, and stickiness by them, are told of so many slots where active users are counted."""
STICKY = tuple(sorted({*WINDOWS, *SPANS}))
"""Of so many slots stickiness can be asked."""
ACROSS = (
    *(f"active_{span}" for span in SPANS),
    *(f"stickiness_{span}" for span in SPANS),
)
"""What such a count tells across slots: each is told once it is known, beside its variance."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """A mechanism's view of one slot, made from measurements alone."""

    pdf: Floats
    """Probability of each bin, positive, with sum one: estimates the slot's user-weighted PDF."""
    variance: Floats
    """Variance of each probability around the slot's true one."""
    skew: Floats
    """Between 0 and 1: how much of a bin's estimate is prior; intervals stretch upwards by it."""
    total: float
    """Estimated number of users (units) in the slot; NaN where it was not paid for."""
    total_variance: float
    counts: Floats | None = None
    """Noisy number of users in each bin, without bias, if the bins themselves were measured in this slot."""
    counts_variance: float = float("nan")
    """Variance of the noise in each of them."""
    carried: float = 0.0
    """The share of the estimate that was not measured in this slot, but carried on from earlier ones."""
    age: float = 0.0
    """The mean number of slots since the carried share was measured."""
    people: People | None = None
    """Numbers of people where users are measured by class, if newcomers pay all that they were asked for."""
    engagement: Floats | None = None
    """The numbers of `ENGAGEMENT` and their variances, a row each, beside `people`: NaN if no narrower than a prior."""
    across: Floats | None = None
    """The numbers of `ACROSS` and their variances, a row each, where active users are counted."""
    since: int = 0
    """The first slot that was measured: `reach` in `people` is of all who came from then on."""


class Mechanism(Option, ABC, Generic[State]):
    """Options of a mechanism; `State` is what it remembers, all of it public."""

    largest_sensitivity: ClassVar[int | None] = None
    """The most grains by which one user may move a histogram that this mechanism takes; None: any number."""
    discovers: ClassVar[bool] = False
    """Whether it finds values of a domain that grows (`dpi.mechanism.value_discovery`)."""
    by_class: ClassVar[bool] = False
    """Whether it can measure users by class, under the policy `clocked`: it then has `request_payments`."""

    @property
    def name(self) -> str:
        """What certificates call it."""
        return kind_of(type(self))

    @property
    def parameters(self) -> dict[str, object]:
        """Its options for certificates, in the words of the stream's: of a long list its number and digest."""
        return {name: _short(part) for name, part in self.to_options().items() if name != "kind"}

    @property
    def whole_weights(self) -> bool:
        """Whether the loss of a user of weight below one is not smaller: such users then have weight zero."""
        return False

    def divides(self, domain: Domain) -> bool:
        """Return whether it measures users of a domain by class where nobody says how (`policy="auto"`).

        Not where it was given options that classes know nothing of, or where they would take too much. The rule may
        become better: what it came to is declared with each stream.
        """
        return self.by_class

    def top(self, domain: Domain) -> int:
        """Return the class that takes all further payments, where users are divided and nobody says which it is."""
        return Clocked().top

    @abstractmethod
    def initial(self, domain: Domain, classes: int = 1) -> State:
        """Return the state before the first slot, of users in so many classes: one unless it measures `by_class`."""

    def drift(self, state: State) -> float | None:
        """Return the step by which log-probabilities move in a slot, as released so far; None if it is not tracked.

        By it budgets are saved up (`dpi.budget.saving`). It is large after a jump, until the new PDF is
        known.
        """
        return None

    def request_payments(self, state: State, slot: int) -> PaymentRequest:
        """Return, by class, which are due in a slot, the share of what is left that each is asked for, and the groups.

        Class 0 is always due; a share is above 0 and at most 1, in steps of 2^-12; classes of one group are measured in
        one histogram (`dpi.budget.classes`). A function of public state and of the slot's number, before it.
        """
        raise OptionError(f"{type(self).__name__} does not measure users by class.")

    @abstractmethod
    def measure(
        self, state: State, histogram: Histogram, epsilon: Epsilon, slot: int, source: RandomSource
    ) -> Measurement:
        """Look at the histogram: ε-DP for a user of weight one, (ε·w)-DP for a user of weight w.

        With ε = 0 the histogram is not looked at and the measurement's values are empty.
        """

    def measure_classes(
        self, state: State, histogram: Histogram, groups: tuple[GroupBudget, ...], slot: int, source: RandomSource
    ) -> Measurement:
        """Return the histogram of every group of classes plus exact discrete Laplace noise of scale G/E, drawn once.

        **Formal guarantee.** (E·w)-DP for a user of weight w in a group whose price is E.

        *Why.* The user moves the histogram of one group by at most w·G grains in ℓ₁, and no other
        (`dpi.histogram.compression`); noise of scale G/E gives w·E, whoever else is in it. Which classes are measured,
        in which groups and for which prices, follows from the slot's number and earlier measurements; a class in which
        nobody is, is measured too.
        """
        if histogram.sensitivity != GRAINS or histogram.groups != len(groups):
            raise OptionError("groups are measured on one histogram each, which a user moves by at most one unit.")
        rows = zip(histogram.grains.reshape(len(groups), -1), groups, strict=True)
        noisy = [add_laplace(row, group.epsilon.scale, source) for row, group in rows]
        return Measurement(slot, max([group.epsilon for group in groups]), np.concatenate(noisy), groups=groups)

    @abstractmethod
    def update(self, state: State, measurement: Measurement) -> tuple[State, Estimate]:
        """Return the next state and the estimate of the slot: a pure function, its arguments are left as they were."""

    def adapt_to_domain(self, state: State, old: Domain, new: Domain, classes: int = 1) -> State:
        """Return the state for a changed domain, with which the stream goes on: a pure function of what was measured.

        What is the same in both domains is best kept; a mechanism that does not say how starts anew.
        """
        return self.initial(new) if classes == 1 else self.initial(new, classes)

    @abstractmethod
    def to_bytes(self, state: State) -> bytes:
        """Encode the state, for storage."""

    def digested(self, data: bytes) -> int:
        """Return how many first bytes of `to_bytes` end with a BLAKE2b digest (32 bytes) of all that follow; 0 if none.

        A store then seals that digest and not a large state once more; when it reads, it digests the state itself.
        """
        return 0

    @abstractmethod
    def from_bytes(self, domain: Domain, data: bytes) -> State:
        """Read the state of `to_bytes`, bit for bit; raise `StateError` if it is damaged."""


LONGEST = 64
"""Every release repeats the parameters: of a column with more numbers, how many there are and their digest is told."""


def at_most_one(shares: Floats) -> Floats:
    """Return shares that were added up, none above one: how a processor rounds must decide neither promise nor test.

    >>> at_most_one(np.array([0.5, 1 + 2**-52])).tolist()
    [0.5, 1.0]
    """
    return np.minimum(shares, 1.0)


def _short(value: object) -> object:
    if isinstance(value, dict):
        return {name: _short(part) for name, part in value.items()}
    if not isinstance(value, list) or _numbers(value) <= LONGEST:
        return value
    digest = hashlib.blake2b(json.dumps(value).encode(), digest_size=16, person=b"dpi parameters")
    return {"number": len(value), "digest": digest.hexdigest()}


def _numbers(value: object) -> int:
    return sum(map(_numbers, value)) if isinstance(value, list) else 1


MECHANISMS: Family[Mechanism[object]] = Family(
    "mechanism",
    "dpi.mechanism.boosted",
    "dpi.mechanism.active_users",
    "dpi.mechanism.published",
    "dpi.mechanism.text_histogram",
    "dpi.mechanism.value_discovery",
)
