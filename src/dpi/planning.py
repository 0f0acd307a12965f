"""How accurate will releases be, and which ε is enough? Answered from stated numbers, before any data is touched.

The figures are those of streams that were played: simulated users, released by the real program with its defaults, a
declared week and a fifth of ε for counting users (`people="0.2"`). `benchmarks/plan_table.py` fits what was known to
users × ε, bins and stickiness, and `plan.json` holds the fitted errors at a grid. Between its points logarithms of
errors are linear. Noise depends on users × ε alone, so the table has no axis for ε.

*A 95 % error* is 1.96 root mean squares of the differences from the truth. The jump is another one: the root mean
square of what its first slot misses.

*Plain noise*, for comparison, gives each of T slots a budget of ε/T. Of that it spends as large a part on the count of
users as the stream does, and the rest on shares.

*Outside of the table* nothing is continued. Below its least users × ε a plan is refused. Elsewhere it states the errors
of the nearest edge, and says so.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from dpi.budget.epsilon import WEAK, Amount, promised
from dpi.errors import OptionError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AGES = (30, 365, 1825)
"""After how many slots errors are told."""
USUAL = 0.2
"""The stickiness that is taken unless one is stated."""
LABELS = {
    "share_30": "a share of 30 %",
    "share_10": "a share of 10 %",
    "share_1": "a share of 1 %",
    "active": "active users",
    "active_7": "users of 7 slots",
    "active_28": "users of 28 slots",
    "newcomers": "newcomers, as a share of active users",
    "jump": "a jump from 5 to 15 %, in its first slot",
}
"""What each error is of, in words."""
RELATIVE = ("active", "active_7", "active_28", "plain_active")
"""Errors that are parts of the number itself. Others are parts of all active users: points of a share."""
PLAIN = {"plain_share": "plain noise of ε/slots: a share", "plain_active": "plain noise of ε/slots: active users"}
ACROSS = ("active_7", "active_28")
"""Errors of numbers of several slots, which plans know worse."""
DEVIATIONS, COUNTS = 1.96, 0.2
"""How many root mean squares a 95 % error is, and which part of ε counts users."""
TABLE = "plan.json"


class Expected(NamedTuple):
    """An error, after each of `AGES`."""

    name: str
    label: str
    unit: str
    """Points of a share, or % of the number itself."""
    after: tuple[float, ...]
    """In this unit."""

    @property
    def texts(self) -> list[str]:
        """Return the errors as a reader sees them."""
        sign = "" if self.name == "jump" else "± "
        missed = " missed" if self.name == "jump" else ""
        return [f"{sign}{_write_number(value)} {self.unit}{missed}" for value in self.after]


@dataclass(frozen=True)
class Plan:
    """What a stream will tell of stated numbers.

    >>> forecast = plan(epsilon=1, users=20_000, bins=20)
    >>> [row.name for row in forecast.errors][:4], forecast.errors[3].unit
    (['share_30', 'share_10', 'share_1', 'active'], '%')
    >>> forecast.error("active", 365) < forecast.error("plain_active", 365)
    True
    """

    epsilon: float
    users: int
    bins: int
    stickiness: float
    errors: tuple[Expected, ...]
    within: tuple[float, float]
    """How many of a hundred errors were within a quarter of what was planned, in worlds that the table had not seen:
    of those of one slot, and of those of 7 and 28 slots."""
    notes: tuple[str, ...] = ()
    """Where the stated numbers are outside of the table."""
    want: str | None = None
    """The error that was asked for; `epsilon` is then the smallest that reaches it."""

    def error(self, name: str, age: int) -> float:
        """Return one error by its name, after so many slots."""
        return next(row for row in self.errors if row.name == name).after[AGES.index(age)]

    @property
    def stated(self) -> str:
        """What was stated, in words."""
        part = f"{100 * self.stickiness:g} % of the users of 28 slots"
        each = f"ε = {self.epsilon:g} per user for ever, a fifth of it for counting users"
        return f"{each}; {self.users:,} users a slot, who are {part}; {self.bins:,} bins"

    @property
    def doubt(self) -> str:
        """How wrong a plan is, in words."""
        one, across = self.within
        return (
            f"Plans are made of simulated streams. In other simulated streams {one:.0f} % of planned errors were "
            f"within a quarter of what happened, and {across:.0f} % of those of 7 and 28 slots."
        )

    def headings(self, times: Sequence[str] = ()) -> list[str]:
        """Return the heads of the table's columns; ages are slots, unless they are said otherwise."""
        return ["95 % error of", *(f"after {time}" for time in times or [f"{age:,} slots" for age in AGES])]

    def rows(self) -> list[list[str]]:
        """Return the errors as texts, by `headings`."""
        return [[row.label, *row.texts] for row in self.errors]

    def __str__(self) -> str:
        lines = [f"{row[0]:40}" + "".join(f"{cell:>20}" for cell in row[1:]) for row in (self.headings(), *self.rows())]
        return "\n".join([f"{self.stated}.", *lines, *self.notes, self.doubt])

    def _repr_html_(self) -> str:
        from dpi.display.card import card, table
        from dpi.display.markup import element

        notes = [element("p", text) for text in (*self.notes, self.doubt)]
        return card("Plan", {"for": self.stated}, table(self.headings(), self.rows()), *notes)

    def plot(self) -> Figure:
        """Draw the errors over the age of the stream: shares on the left, numbers of users on the right.

        It needs the extra `plot`.
        """
        from dpi.release.plots import COLOURS, LINES, blank

        figure = blank(9.6, 4.8)
        for axes, relative in zip(figure.subplots(1, 2), (False, True), strict=True):
            shown = [row for row in self.errors if (row.name in RELATIVE) == relative]
            for place, row in enumerate(shown):
                plain = row.name in PLAIN
                colour = COLOURS[-2] if plain else COLOURS[place]
                line = LINES[1] if plain else LINES[0]
                axes.loglog(AGES, row.after, marker="o", color=colour, linestyle=line, lw=1.6, label=row.label)
            axes.set_xticks(AGES, [f"{age:,}" for age in AGES])
            axes.minorticks_off()
            axes.set_xlabel("slots")
            axes.set_ylabel("95 % error, % of the number" if relative else "95 % error, percentage points")
            axes.yaxis.set_major_formatter("{x:g}")
            axes.legend(fontsize=7, frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1))
        return figure


def plan(
    *,
    users: int,
    bins: int,
    epsilon: Amount | None = None,
    stickiness: float = USUAL,
    want: str | None = None,
) -> Plan:
    """Return the errors to expect with `users` active in a slot and `bins` bins; or the smallest ε for one of them.

    `stickiness` says how often users come: active users of a slot over distinct users of 28 slots. Instead of ε,
    `want` is an error such as "active=10": 10 % of active users, and 2 points of a share in "share_10=2".

    >>> import dpi
    >>> dpi.plan(epsilon=1, users=20_000, bins=20).epsilon
    1.0
    >>> dpi.plan(want="share_10=2", users=20_000, bins=20).error("share_10", 30) <= 2
    True
    """
    for name, value in {"users": users, "bins": bins}.items():
        if type(value) is not int or value < 1:
            raise OptionError(f"`{name}` must be a whole number above 0. Got {value!r}.")
    if not isinstance(stickiness, int | float) or not 0 < stickiness <= 1:
        raise OptionError(f"`stickiness` must be above 0 and at most 1. Got {stickiness!r}.")
    if (epsilon is None) == (want is None):
        raise OptionError("state `epsilon`, or the error that you want with `want`.", options=("epsilon", "want"))
    told = float(promised(epsilon)) if epsilon is not None else _find_epsilon(want or "", users, bins, stickiness)
    least = read_table().signal[0]
    if told * users < least * (1 - 1e-6):
        raise OptionError(
            f"`users` times ε must be at least {least:g}: the noise of fewer is as large as most shares. "
            f"Got {told * users:g}.",
        )
    errors = _find_errors(told, users, bins, stickiness)
    rows = [
        Expected(name, label, "%" if name in RELATIVE else "points", tuple(100 * error for error in errors[name]))
        for name, label in (LABELS | PLAIN).items()
    ]
    notes = _note_edges(told, users, bins, stickiness)
    if want is not None and told * users <= 1.1 * least:
        notes.append(f"The table begins at users × ε = {least:g}: a smaller ε may be enough.")
    one, across = read_table().within
    return Plan(told, users, bins, float(stickiness), tuple(rows), (one, across), tuple(notes), want)


class Table(NamedTuple):
    """The errors of `plan.json`, as parts, and the grid that they belong to."""

    signal: list[float]
    """Users of a slot times ε."""
    bins: list[float]
    stickiness: list[float]
    errors: dict[str, list[list[list[list[float]]]]]
    """By name: after each of `AGES`, for each signal, number of bins and stickiness."""
    within: list[float]


@cache
def read_table() -> Table:
    """Return the table, which is read once."""
    stored = json.loads(files("dpi").joinpath(TABLE).read_text("utf-8"))
    return Table(*(stored[name] for name in Table._fields))


def _find_errors(epsilon: float, users: int, bins: int, stickiness: float) -> dict[str, tuple[float, ...]]:
    """Return all errors as parts, by name; at the table's edges those of the edges."""
    errors = {name: _look_up(name, users * epsilon, bins, stickiness) for name in LABELS}
    noise = [DEVIATIONS * math.sqrt(2) * age / (epsilon * users) for age in AGES]
    shares = tuple(min(each / (1 - COUNTS), 1.0) for each in noise)
    return errors | {"plain_share": shares, "plain_active": tuple(each / COUNTS for each in noise)}


def _look_up(name: str, signal: float, bins: int, stickiness: float) -> tuple[float, ...]:
    """Return an error of the table as a part, after each of `AGES`."""
    known = read_table()
    places = [
        _locate(known.signal, signal, math.log),
        _locate(known.bins, bins, math.log),
        _locate(known.stickiness, stickiness, _odds),
    ]
    return tuple(_interpolate(age, places) for age in known.errors[name])


def _locate(grid: Sequence[float], value: float, scale: Callable[[float], float]) -> list[tuple[int, float]]:
    """Return the two points of a grid around a value, each with its weight."""
    inside = min(max(value, grid[0]), grid[-1])
    after = next((number for number, point in enumerate(grid) if point >= inside and number), len(grid) - 1)
    low, high = scale(grid[after - 1]), scale(grid[after])
    part = (scale(inside) - low) / (high - low)
    return [(after - 1, 1 - part), (after, part)]


def _interpolate(table: list[list[list[float]]], places: list[list[tuple[int, float]]]) -> float:
    """Return the value of a table between its points, linear in logarithms."""
    logarithm = 0.0
    for (signal, one), (bins, other), (stickiness, third) in product(*places):
        logarithm += one * other * third * math.log(table[signal][bins][stickiness])
    return math.exp(logarithm)


def _odds(part: float) -> float:
    """Return the logarithm of a part over the rest."""
    return math.log(part / (1 - part))


def _note_edges(epsilon: float, users: int, bins: int, stickiness: float) -> list[str]:
    """Return a sentence for each stated number that is outside of the table."""
    known, notes = read_table(), list[str]()
    if users * epsilon > known.signal[-1]:
        notes.append(
            f"The table ends at users × ε = {known.signal[-1]:,.0f}: these are its errors; yours can be smaller."
        )
    for name, value, grid in (("bins", bins, known.bins), ("stickiness", stickiness, known.stickiness)):
        if not grid[0] <= value <= grid[-1]:
            edge = grid[0] if value < grid[0] else grid[-1]
            ends = "begins" if value < grid[0] else "ends"
            notes.append(f"The table {ends} at {name} = {edge:,g}: errors for {value:,g} can be others.")
    return notes


def _find_epsilon(want: str, users: int, bins: int, stickiness: float) -> float:
    """Return the smallest ε, up to two digits, with which an error is as wanted at all ages."""
    name, sign, text = want.partition("=")
    try:
        wanted = float(text) / 100
    except ValueError:
        wanted = 0.0
    if name not in LABELS or not sign or not wanted > 0 or math.isinf(wanted):
        names = ", ".join(LABELS)
        raise OptionError(f"`want` must be an error such as active=10, of one of: {names}. Got {want!r}.")
    known = read_table()
    low, most = known.signal[0] / users, min(float(WEAK), known.signal[-1] / users)

    def reached(epsilon: float) -> float:
        return max(_look_up(name, users * epsilon, bins, stickiness))

    if low > most or reached(most) > wanted:
        unit = "%" if name in RELATIVE else "points"
        best = "" if low > most else f": with ε = {most:.2g} it is {_write_number(100 * reached(most))} {unit}"
        raise OptionError(
            f"`want`: no ε up to {most:.2g} brings the error of {LABELS[name]} to {100 * wanted:g} {unit}{best}.",
            options=("want",),
        )
    high = most
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if reached(middle) <= wanted else (middle, high)
    step = 10 ** (math.floor(math.log10(high)) - 1)
    return min(float(f"{math.ceil(high / step) * step:.2g}"), most)


def _write_number(value: float) -> str:
    """Return a number with two digits, or all those before the point.

    >>> _write_number(123.4), _write_number(12.34), _write_number(1.0), _write_number(0.1234)
    ('123', '12', '1.0', '0.12')
    """
    return f"{value:,.0f}" if value >= 9.95 else f"{value:#.2g}"
