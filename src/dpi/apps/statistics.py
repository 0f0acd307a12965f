"""Series of sums, means, counts, ranges and quantiles, slot after slot, with error bars."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpi.errors import OptionError
from dpi.release import Release
from dpi.release.queries import Answer, Distribution

if TYPE_CHECKING:
    import polars as pl

QUESTIONS = ("count", "mean", "median", "probability", "quantile", "range", "spread", "sum")
"""What can be asked: questions of a release whose answer is a number with an error."""


@dataclass(frozen=True)
class Point:
    """The answer of one slot, and its interval."""

    slot: int
    start: str | None
    value: float
    error: float
    lower: float
    upper: float


class Statistic:
    """A question, asked in every slot.

    >>> import dpi
    >>> stream = dpi.Stream(domain=dpi.Bins(range(0, 100, 10)), epsilon=1, budget=dpi.Ledger(per_slot=1))
    >>> releases = [stream.release(users=range(1000), values=[45] * 1000)]
    >>> [point] = Statistic("quantile", 0.5).over(releases)
    >>> bool(40 < point.value < 50), bool(point.lower < point.value < point.upper)
    (True, True)
    """

    def __init__(self, question: str, *arguments: object) -> None:
        if question not in QUESTIONS:
            raise OptionError(f"`question` must be one of {', '.join(QUESTIONS)}. Got {question!r}.")
        self.question, self.arguments = question, arguments

    def of(self, distribution: Distribution) -> Answer:
        """Return the answer on one release."""
        try:
            answer = getattr(distribution, self.question)(*self.arguments)
        except TypeError:
            raise OptionError(f"{self!r} has too few arguments, too many, or of another type.") from None
        assert isinstance(answer, Answer)  # noqa: S101 - all of QUESTIONS give answers
        return answer

    def over(self, releases: Iterable[Release], level: float = 0.95) -> Iterator[Point]:
        """Yield the answers of all slots; works on a stream that goes on, such as `stream.advance()`."""
        for release in releases:
            answer = self.of(release)
            yield Point(release.slot, release.start_text, answer.value, answer.error, *answer.interval(level))

    def __repr__(self) -> str:
        return f"Statistic({', '.join(map(repr, (self.question, *self.arguments)))})"

    @property
    def name(self) -> str:
        """The question in words.

        >>> Statistic("range", 18, 65).name
        'range 18 65'
        """
        return " ".join(map(str, (self.question, *self.arguments)))


def frame(releases: Iterable[Release], *statistics: Statistic, level: float = 0.95) -> pl.DataFrame:
    """Return a table with a row for each slot and statistic: slot, start, statistic, value, error, lower, upper."""
    import polars as pl

    if not statistics:
        raise OptionError("`frame` needs at least one Statistic.")
    schema = {"slot": pl.Int64, "start": pl.String, "statistic": pl.String}
    schema |= dict.fromkeys(("value", "error", "lower", "upper"), pl.Float64)
    rows = [
        (point.slot, point.start, statistic.name, point.value, point.error, point.lower, point.upper)
        for release in releases
        for statistic in statistics
        for point in statistic.over([release], level)
    ]
    return pl.DataFrame(rows, schema=schema, orient="row")
