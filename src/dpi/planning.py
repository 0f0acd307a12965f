"""What accuracy will this buy, and for how long? Answered from stated numbers, before any data is touched.

The figures are those of the plain noisy measurement, which the default mechanism improves on: one slot's noise on the
share of a bin is Laplace of scale 1/(ε_t·n) for n users of weight one. They are an upper bound of the noise part of
the error, and say nothing about a stream that changes.

*How long.* An account of ε pays ε/ε_t slots in which its user is seen. Where users come and go, each is seen in `seen`
slots in all, and pays in the first ε/ε_t of them. Where the same `population` stays for ever and `users` of them are
seen in a slot, each is seen in one of population/users slots, so that the accounts run dry after about
ε/ε_t·population/users slots; then nobody is left to pay, and releases are forecasts.

*By a public clock* (`clocked`) no account runs dry. A user of the first slot pays a half of ε, and then a share of what
is left after about two, four, and from then on eight slots each time. That share follows from what was released: about
a quarter where all return, more where few do. All who are due pay in the same slots, so that the figures of a payment
are those of `users` who pay together.

*For ever.* Levels that walk by a share s of themselves in a slot are tracked the better the more is paid: with ν new
users in a slot the best divergence that can be kept up is about ¾·(s²·k/(ε·ν))^⅔ for k bins, whatever the schedule;
where the same users stay for T slots it is ¾·(s²·T·k/(ε·n))^⅔ for n of them in a slot. That is calculated for filters
that know s, by the Fisher information of the noisy counts. A divergence of d is a relative error of about √(2d).

*Which price is recommended.* `RULE` says it. Where the same users stay for ever and nobody says for how long a stream
lasts, every price empties all accounts, after which a release describes nobody: then no price is recommended.

*Which options.* Those that a user can take: an account that pays for more slots than its user is seen in only makes
each of them noisier, and no slot costs less than the smallest amount there is. A share is off by at most one, and all
shares together by at most two; where the noise is larger, these are the error, and a slot by itself tells nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpi.budget.epsilon import UNITS, Amount, promised
from dpi.errors import OptionError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEADINGS = ("ε of a slot", "slots", "paying users", "± share (95 %)", "Σ |error|", "accounts are empty")
RULE = (
    "Rule: of the prices whose accounts last as long as is stated (seen, or lasting), the one with the smallest error "
    "of one slot is recommended (*); none is whose noise is larger than any share."
)
CHOICES = (1, 2, 4, 10, 20, 40, 100)
NEWCOMERS, OTHERS, PAYMENTS = 0.5, 0.25, 6
"""By a public clock: the share that the first slot asks for, about what is asked for later where all return, and how
many payments are told."""
WALK, HORIZON = 0.03, 1_000
"""Steps of a slot for which it is said what can be known for ever, and for how many slots the same users stay where
nobody says."""
LONGEST = 3
"""Who has paid m times is due in slots of a level of at least min(m, LONGEST): one of eight in the end."""


@dataclass(frozen=True)
class Option:
    """One way to spend: a slot costs `per_slot`, so a user takes part with weight one in `slots` slots."""

    per_slot: float
    slots: int
    paying: float
    """Mean number of paying users in a slot, while accounts last."""
    half_width: float
    """Half of the 95 % interval of one bin's share, from one slot's measurement alone; at most 1."""
    l1: float
    """Expected Σ |error| over all bins, from one slot's measurement alone; at most 2."""
    dry_after: float | None = None
    """The number of slots after which all accounts are empty; None if newcomers keep coming."""


@dataclass(frozen=True)
class Payment:
    """One payment by a public clock, of a user who is seen in every slot."""

    after: int
    """About how many slots after the first in which the user was seen."""
    cost: float
    left: float
    """What is left of ε afterwards."""
    half_width: float
    """Half of the 95 % interval of one bin's share, from a slot in which all its users pay this; at most 1."""


@dataclass(frozen=True)
class Plan:
    """Options for given numbers, from spending all at once to spending little often.

    >>> plan(epsilon=1, users=50_000, bins=200, seen=10).best
    Option(per_slot=0.1, slots=10, paying=50000.0, half_width=0.000599..., l1=0.04, dry_after=None)
    >>> plan(epsilon=1, users=100, bins=9, population=1_000, lasting=24).best.dry_after
    30.0
    >>> plan(epsilon=1, users=100, bins=9, population=1_000).best is None
    True
    """

    epsilon: float
    users: int
    bins: int
    seen: int
    options: tuple[Option, ...]
    population: int | None = None
    lasting: int | None = None
    """How many slots the accounts are wanted to last."""
    payments: tuple[Payment, ...] = ()
    """The first payments by a public clock (`Ledger()`), under which no account is ever empty."""

    @property
    def best(self) -> Option | None:
        """The price that is recommended, by `RULE`; None if there is none.

        An account lasts if it pays for all slots in which its user is seen; of the same population, on average, for the
        slots that are wanted. A price above that says no more of a slot: fewer pay more, and others are left out.
        """
        found = [option for option in self.options if self._lasts(option) and option.half_width < 1]
        return min(found, key=lambda option: option.half_width, default=None)

    def advice(self, time: Callable[[float], str] = "{:,.0f} slots".format) -> str:
        """Which price is recommended and what it buys, or why none is."""
        best, lasting = self.best, [option for option in self.options if self._lasts(option)]
        if best is not None:
            said = f"a share is known to ± {best.half_width:.3g} from one slot alone"
            slots = "1 slot" if self.seen == 1 else f"{self.seen:,} slots"
            ends = f", and accounts last for the {slots} of each user. Users who come more often are left out later"
            if best.dry_after is not None:
                ends = (
                    f", and accounts are empty after {time(best.dry_after)} on average, sooner for users who come more "
                    "often. Releases then describe those who can still pay"
                )
            return f"For a fixed price of a slot, use --per-slot {best.per_slot:.4g}: {said}{ends}."
        if lasting or self.population is None:
            return (
                "No price is recommended: the noise of one slot is larger than any share. Take longer slots, which "
                "have more users, or a larger ε."
            )
        last = self.options[-1]
        return (
            "No price is recommended: the same users stay for ever, and every price empties their accounts "
            f"({last.per_slot:.4g} after {time(last.dry_after or 0)}). Releases then describe nobody. Keep the default "
            "budget, or say with --lasting after how many slots the stream ends."
        )

    def _lasts(self, option: Option) -> bool:
        """Whether accounts last as long as is stated."""
        if option.dry_after is None:
            return option.slots >= self.seen
        return self.lasting is not None and option.dry_after >= self.lasting

    @property
    def for_ever(self) -> float:
        """Half of the 95 % interval of a share, relative to it, that can be kept up for ever while levels walk.

        A bound of what any schedule could do, by `WALK`; at most 1.

        >>> round(plan(epsilon=1, users=50_000, bins=200, seen=10).for_ever, 3)
        0.079
        """
        slots = self.seen if self.population is None else self.lasting or HORIZON
        divergence = 0.75 * (WALK**2 * slots * self.bins / (self.epsilon * self.users)) ** (2 / 3)
        return min(1.96 * math.sqrt(2 * divergence), 1.0)

    def plot(self) -> Figure:
        """Error over the budget of a slot, and paying users or how long accounts last (needs the extra `plot`)."""
        from dpi.release.plots import COLOURS, blank

        cost, lasting = [option.per_slot for option in self.options], self.population is not None
        figure = blank(7, 4.6)
        above, below = figure.subplots(2, 1, sharex=True)
        above.loglog(cost, [option.half_width for option in self.options], "o-", color=COLOURS[0], lw=1.6)
        if self.best is not None:
            above.plot(self.best.per_slot, self.best.half_width, "o", color=COLOURS[1], ms=9)
        above.set_ylabel("± share (95 %), one slot")
        second = [option.dry_after if lasting else option.paying for option in self.options]
        below.semilogx(cost, second, "o-", color=COLOURS[2], lw=1.6)
        below.set_ylim(bottom=0)
        below.set_ylabel("slots until accounts\nare empty" if lasting else "paying users in a slot")
        below.set_xlabel("ε of a slot")
        return figure

    @property
    def stated(self) -> str:
        """What was stated, in words."""
        stay = f"each user seen in {self.seen:,} slots"
        if self.population is not None:
            stay = f"the same {self.population:,} users for ever"
        return f"ε = {self.epsilon:g} per user for ever, {self.users:,} users a slot, {self.bins:,} bins, {stay}"

    def _repr_html_(self) -> str:
        from dpi.display.card import card, table
        from dpi.display.markup import element

        best = None if self.best is None else self.options.index(self.best)
        notes = [element("p", text) for text in (self.advice(), RULE.replace("(*)", "(bold)"))]
        return card("Plan", {"for": self.stated}, table(HEADINGS, self.rows(), marked=best), *notes)

    def __str__(self) -> str:
        lines = ["  ".join(f"{cell:>14}" for cell in row) for row in (HEADINGS, *self.rows())]
        return "\n".join([self.stated, *lines])

    def rows(self, time: Callable[[float], str] = "{:,.0f} slots".format) -> list[list[str]]:
        """The options as texts, by `HEADINGS`; `time` writes a number of slots."""
        return [
            [f"{o.per_slot:.4g}", f"{o.slots:,}", f"{o.paying:,.0f}", f"{o.half_width:.4g}", f"{o.l1:.4g}",
             self._dry(o, time)]
            for o in self.options
        ]  # fmt: skip

    def _dry(self, option: Option, time: Callable[[float], str]) -> str:
        """When accounts are empty: all of them, or one where users come and go."""
        if option.dry_after is not None:
            return f"after {time(option.dry_after)}"
        return f"after {option.slots} of {self.seen} slots" if option.slots < self.seen else "never"


def plan(
    *,
    epsilon: Amount,
    users: int,
    bins: int,
    seen: int | None = None,
    population: int | None = None,
    lasting: int | None = None,
) -> Plan:
    """Expected error for `users` seen in a slot and `bins` bins.

    Users come and go and are seen in `seen` slots in all (one, unless said), or they are the same `population` for
    ever, whose accounts shall last for `lasting` slots.

    >>> import dpi
    >>> dpi.plan(epsilon=1, users=50_000, bins=200, seen=10).epsilon
    1.0
    """
    stated = {"users": users, "bins": bins, "seen": seen, "population": population, "lasting": lasting}
    for name, value in stated.items():
        if value is not None and (type(value) is not int or value < 1):
            raise OptionError(f"`{name}` must be a whole number above 0. Got {value!r}.")
    if population is None and lasting is not None:
        raise OptionError(
            "`lasting` is about a `population` that stays the same; where users come and go, it lasts.",
            options=("lasting", "population"),
        )
    if population is not None and (seen is not None or population < users):
        raise OptionError(
            "`population` must be at least `users`, and needs no `seen`: the same users stay for ever.",
            options=("population", "users", "seen"),
        )
    total, visits = float(promised(epsilon)), seen or 1
    needed = visits if population is None else -(-(lasting or 1) * users // population)
    most = int(total * UNITS)
    if population is not None and needed > most:
        raise OptionError(
            "`lasting` must be shorter: each slot would cost less than the smallest amount of budget, 2^-40.",
        )
    possible = min(most, visits if population is None else most)
    options = []
    for slots in sorted(each for each in {*CHOICES, needed} if each <= possible):
        per_slot = total / slots
        paying = float(users) if population is not None else users * min(1.0, slots / visits)
        scale = 1 / (per_slot * paying)
        dry = None if population is None else slots * population / users
        half_width, l1 = min(math.log(20) * scale, 1.0), min(bins * scale, 2.0)
        options.append(Option(per_slot, slots, paying, half_width, l1, dry))
    return Plan(total, users, bins, visits, tuple(options), population, lasting, _payments(total, users))


def _payments(epsilon: float, users: int) -> tuple[Payment, ...]:
    """The first payments by a public clock."""
    found, left, after = [], epsilon, 0
    for number in range(PAYMENTS):
        cost = left * (OTHERS if number else NEWCOMERS)
        left -= cost
        found.append(Payment(after, cost, left, min(math.log(20) / (cost * users), 1.0)))
        after += 2 ** min(number + 1, LONGEST)
    return tuple(found)
