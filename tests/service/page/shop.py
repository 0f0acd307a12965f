"""A made-up shop behind a service whose clock a test sets: slots come when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import dpi
from dpi.demo import PAGES, pages
from serving import MOMENT, SECOND, Running, running, settings

VISITORS = 1500


@dataclass
class Shop:
    """A service with a stream of the shop's pages, in slots of ten seconds."""

    found: Running
    hours: int = 0
    domain: str = "pages"

    def hour(self, crowd: bool = False) -> None:
        """One slot of visitors, who were never there before; it is closed and seen."""
        rng = np.random.default_rng(self.hours)
        begin = 10 * self.hours
        page = rng.choice(len(PAGES), VISITORS, p=pages(self.hours, crowd=crowd))
        values: object = [PAGES[each] for each in page]
        if self.domain == "ages":
            values = rng.normal(40, 12, VISITORS).round(1).tolist()
        if self.domain == "product":
            values = {"page": values, "land": [("DE", "FR", "PL")[each] for each in rng.integers(0, 3, VISITORS)]}
        users = [f"{self.hours} {number}" for number in range(VISITORS)]
        self.found.clock.now = MOMENT + (begin + 5) * SECOND
        columns = {"user": users, "time": [MOMENT + (begin + 1) * SECOND] * VISITORS, "value": values}
        given = {"producer": "p", "sequence": self.hours, "unit": "us"}
        sent = self.found.client("curator").post("/v1/streams/visits/events", params=given, json=columns)
        assert sent.status_code == 200, sent.text
        self.hours += 1
        self.found.set(begin + 11)

    def play(self, hours: int, crowd: range = range(0)) -> Shop:
        """Several slots."""
        for _ in range(hours):
            self.hour(self.hours in crowd)
        return self


DOMAINS = {
    "pages": dpi.Categories(PAGES),
    "ages": dpi.Bins(range(0, 100, 4)),
    "product": dpi.Product(page=dpi.Categories(PAGES), land=dpi.Categories(["DE", "FR", "PL"])),
}


@contextmanager
def shop(folder: Path, domain: str = "pages", **options: object) -> Iterator[Shop]:
    """A shop until the test ends."""
    # Visitors are new in every slot and pay the same, so that noise is small beside a crowd: a test that sees one, or
    # an arrow, fails by chance with a probability far below 10⁻⁶.
    with running(folder, settings(domain=DOMAINS[domain], per_slot="0.5"), **options) as found:
        yield Shop(found, domain=domain)
