"""What accuracy will this buy? Answered from stated numbers, before any data is touched.

The figures are those of the plain noisy measurement, which the default brain improves on: one slot's noise on the
share of a bin is Laplace of scale 1/(ε_t·n) for n users of weight one. They are an upper bound of the noise part of
the error, and say nothing about a stream that changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpi.budget.epsilon import Amount, Epsilon
from dpi.errors import OptionError

CHOICES = (1, 2, 4, 10, 20, 40, 100)


@dataclass(frozen=True)
class Option:
    """One way to spend: a slot costs `per_slot`, so a user takes part with weight one in `slots` slots."""

    per_slot: float
    slots: int
    paying: float
    """Mean number of paying users in a slot, if each user comes to `seen` slots spread over the period."""
    half_width: float
    """Half of the 95 % interval of one bin's share, from one slot's measurement alone."""
    l1: float
    """Expected Σ |error| over all bins, from one slot's measurement alone."""


@dataclass(frozen=True)
class Plan:
    """Options for given numbers, from spending all at once to spending little often.

    >>> plan(epsilon=1, users=50_000, bins=200, seen=10).best
    Option(per_slot=1.0, slots=1, paying=5000.0, half_width=0.000599..., l1=0.04)
    """

    epsilon: float
    users: int
    bins: int
    seen: int
    options: tuple[Option, ...]

    @property
    def best(self) -> Option:
        """The option with the smallest error of one slot's measurement."""
        return min(self.options, key=lambda option: option.half_width)

    def __str__(self) -> str:
        head = (
            f"ε = {self.epsilon:g} per user for ever, {self.users:,} users a slot, {self.bins:,} bins, "
            f"each user seen in {self.seen:,} slots\n"
        )
        rows = ["  per slot    slots   paying users   ± share (95 %)   Σ |error|"]
        rows += [
            f"{o.per_slot:10.4g} {o.slots:8d} {o.paying:14,.0f} {o.half_width:15.5f} {o.l1:11.4f}" for o in self.options
        ]
        return head + "\n".join(rows)


def plan(*, epsilon: Amount, users: int, bins: int, seen: int = 1) -> Plan:
    """Expected error for `users` active in a slot, `bins` bins, and users that come to `seen` slots in all."""
    for name, value in (("users", users), ("bins", bins), ("seen", seen)):
        if type(value) is not int or value < 1:
            raise OptionError(f"`{name}` must be a whole number above 0. Got {value!r}.")
    total = float(Epsilon.at_most(epsilon))
    options = []
    for slots in CHOICES:
        per_slot = total / slots
        paying = users * min(1.0, slots / seen)
        scale = 1 / (per_slot * paying)
        options.append(Option(per_slot, slots, paying, math.log(20) * scale, bins * scale))
    return Plan(total, users, bins, seen, tuple(options))
