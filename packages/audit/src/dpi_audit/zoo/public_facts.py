"""What is told without noise: public facts that were read off the data, refusals, log lines, errors."""

from __future__ import annotations

import logging
from collections.abc import Hashable
from fractions import Fraction

import numpy as np
import polars as pl

from dpi.exact.integers import GRAINS
from dpi.testing.class_sums import ClassSums
from dpi.testing.laws import Finite, Law
from dpi_audit import neighbours
from dpi_audit.neighbours import Rows
from dpi_audit.reach import compare
from dpi_audit.session import StreamSession
from dpi_audit.small import EPSILON, VALUES, ChangedSession
from dpi_audit.zoo.base import (
    ALONE,
    EVERY,
    PER_SLOT,
    RUNS,
    SLOTS,
    Check,
    Counts,
    Frame,
    Pair,
    on,
    stream,
    stream_session,
    units,
)


class _Domain(Counts):
    """The values seen so far are the domain: a value that one user alone has gives them away."""

    def __init__(self) -> None:
        self._seen = set[str]()

    def _told(self, rows: Rows) -> Hashable:
        self._seen |= {str(value) for _, value in rows}
        return tuple(sorted(self._seen))


class _Period(Counts):
    """The first slot is that of the first event: whose event that was, everybody learns."""

    _begun = False

    def _told(self, rows: Rows) -> Hashable:
        self._begun = self._begun or bool(rows)
        return self._begun


class _Change(Counts):
    """Other options begin after the last slot that holds an event: the chain tells everybody which that is."""

    _last = -1

    def _told(self, rows: Rows) -> Hashable:
        self._last = self.step if rows else self._last
        return self._last + 1 if self.step == SLOTS // 2 else None


class _Total(Counts):
    """The number of users is printed as it is."""

    def _told(self, rows: Rows) -> Hashable:
        return len({user for user, _ in rows})


class _Spent(StreamSession):
    """`epsilon_spent` is the largest account instead of min(ε, Σ ε_t): it tells whether somebody was there."""

    def __init__(self) -> None:
        self._users = set[str]()
        super().__init__(stream())

    def force(self, output: object) -> str:
        release = super().force(output)
        self._users |= {str(user) for user, _ in self._rows}
        accounts = self.stream._accounts
        assert accounts is not None  # noqa: S101 - the stream has a ledger
        left = accounts.remaining(pl.Series(sorted(self._users), dtype=pl.String), 0)
        return f"{release} spent {float(EPSILON - min(left, default=Fraction(1)))}"


class _Choice(Frame):
    """The value that most have, by an exponential mechanism of 1/24 of ε in every step, whatever the scores span."""

    refuses = False

    def look(self, rows: Rows) -> Law:
        """Return the law of outputs, of which a refusal is one like any other."""
        scores = units(rows)
        if self.refuses and int(scores.max() - scores.min()) >= GRAINS:
            return Finite({"refused": 0.0})
        logarithms = (scores - scores.max()) / GRAINS * float(PER_SLOT / 2)
        logarithms -= np.log(np.exp(logarithms).sum())
        return Finite(dict(zip(VALUES, logarithms.tolist(), strict=True)))


class _Refusal(_Choice):
    """Scores whose span its arithmetic has no room for are refused: one user more, and the slot raises."""

    refuses = True


class _Log(StreamSession):
    """Logs how many rows a slot had."""

    def force(self, output: object) -> str:
        logging.getLogger("dpi.broken").debug("slot closed with %d rows", len(self.rows))
        return super().force(output)


class _Error(StreamSession):
    """Names the row that it could not read."""

    def attempt(self, users: object, values: object, **options: int) -> None:
        try:
            super().attempt(users, values, **options)
        except TypeError:
            raise TypeError(f"cannot read {self.rows[-1]}") from None


def _reached(kind: type[StreamSession]) -> Check:
    few = neighbours.every_slot(4, VALUES)
    return Check(Fraction(0), exact=lambda: compare(lambda: kind(stream()), few).finding)


CORRECT, ALONE_CORRECT = on(stream_session(), EVERY, ALONE), on(stream_session(), ALONE)

PAIRS = (
    Pair("a domain learnt from data", "the set of values seen is private",
         on(_Domain, ALONE, EVERY, runs=RUNS), CORRECT),
    Pair("a period read off the data", "the first and last event decide what is released",
         on(_Period, ALONE, runs=RUNS), ALONE_CORRECT),
    Pair("a change that begins after the last event",
         "options change with a slot that follows from the public clock (dpi.stream.registration)",
         on(_Change, ALONE, runs=RUNS), on(lambda: ChangedSession(mechanism=ClassSums()), ALONE, EVERY)),
    Pair("released true totals", "the size of a slot is private",
         on(_Total, EVERY, runs=RUNS), on(Counts, EVERY, runs=RUNS)),
    Pair("epsilon_spent read off accounts", "what accounts really hold is private",
         on(_Spent, EVERY, ALONE), CORRECT),
    Pair("a refusal that depends on private scores", "whether a slot raises is seen by everybody, and has no noise",
         on(_Refusal, EVERY, runs=RUNS), on(_Choice, EVERY, runs=RUNS)),
    Pair("a count of rows in a log line", "every log line made from private data is private",
         _reached(_Log), _reached(StreamSession)),
    Pair("a row quoted in an error text", "errors never hold a private value (STYLE 9)",
         _reached(_Error), _reached(StreamSession)),
)  # fmt: skip
