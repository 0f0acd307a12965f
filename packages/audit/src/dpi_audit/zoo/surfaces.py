"""Surfaces: private numbers where nobody thinks of them, in a log line and in an error text."""

from __future__ import annotations

import logging
from fractions import Fraction

from dpi_audit import neighbours
from dpi_audit.reach import compare
from dpi_audit.session import StreamSession
from dpi_audit.small import VALUES, stream
from dpi_audit.zoo.base import Check, Pair

FEW = 4
EVERY = neighbours.every_slot(FEW, VALUES)


class BrokenLog(StreamSession):
    """Logs how many rows a slot had."""

    def force(self, output: object) -> str:
        """A release, and a line in the log."""
        logging.getLogger("dpi.broken").debug("slot closed with %d rows", len(self.rows))
        return super().force(output)


class BrokenError(StreamSession):
    """Names the row that it could not read."""

    def attempt(self, users: object, values: object, **options: int) -> None:
        """Refuses with a text that quotes the data."""
        try:
            super().attempt(users, values, **options)
        except TypeError:
            raise TypeError(f"cannot read {self.rows[-1]}") from None


def _check(kind: type[StreamSession]) -> Check:
    return Check(Fraction(0), exact=lambda: compare(lambda: kind(stream()), EVERY).finding)


PAIRS = (
    Pair(
        "a count of rows in a log line",
        "every log line made from private data is private",
        _check(BrokenLog),
        _check(StreamSession),
    ),
    Pair(
        "a row quoted in an error text",
        "errors never hold a private value (STYLE 9)",
        _check(BrokenError),
        _check(StreamSession),
    ),
)
