"""Running the comparisons that a command line asks for, and drawing them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dpi.cli.progress import Steps
from dpi.domain import Bins, Domain
from dpi.errors import OptionError
from dpi.events.slots import Slots
from dpi.sources import Admission, FileEvents
from dpi_research.baselines import PublicFacts
from dpi_research.compare import (
    Comparison,
    Terms,
    coded,
    compare_named,
    compare_slots,
    plot_error,
    plot_loss,
    plot_trade_off,
)
from dpi_research.compare.events import KEY
from dpi_research.datasets.generators import Slot

ERRORS: tuple[Literal["l1", "kl"], ...] = ("l1", "kl")


@dataclass(frozen=True)
class Played:
    """Events of files over a public period."""

    events: FileEvents
    domain: Domain
    clock: Slots
    begin: str
    end: str
    rows: int

    @property
    def period(self) -> tuple[int, int]:
        """Its first slot, and the one after its last."""
        first, last = self.clock.boundary(self.begin, "--from"), self.clock.boundary(self.end, "--to")
        if last <= first:
            raise OptionError("`--to` must be after `--from`.")
        return first, last

    def slots(self) -> Iterator[Slot]:
        """From the beginning."""
        return coded(self.events.slots(Admission(self.clock, self.domain, KEY, *self.period)), self.domain.size)


def compare_events(names: Sequence[str], played: Played, terms: Sequence[Terms]) -> list[Comparison]:
    """On events of files, for each of the terms."""
    first, last = played.period
    domain = played.domain
    facts = PublicFacts(1, domain.size, last - first, rows=played.rows, ordered=isinstance(domain, Bins))
    found = []
    for each in terms:
        with Steps("slots", last - first) as steps:
            slots, name = played.slots(), played.events.path
            found.append(compare_slots(names, slots, facts, each, stream=name, progress=steps.over))
    return found


def compare_made_up(
    names: Sequence[str], stream: str, terms: Sequence[Terms], slots: int, seed: int, churn: float | None
) -> list[Comparison]:
    """On a made-up stream, for each of the terms."""
    found = []
    for each in terms:
        with Steps("slots", slots) as steps:
            found.append(compare_named(names, stream, each, slots=slots, seed=seed, churn=churn, progress=steps.over))
    return found


def draw(found: Sequence[Comparison], folder: Path) -> None:
    """Loss and errors over time, for every ε, and error against loss, with a point for every ε."""
    folder.mkdir(parents=True, exist_ok=True)
    for result in found:
        end = "" if len(found) == 1 else f"-epsilon-{result.epsilon:g}"
        plot_loss(result).savefig(folder / f"loss{end}.svg")
        for error in ERRORS:
            plot_error(result, error).savefig(folder / f"{error}{end}.svg")
    for error in ERRORS:
        plot_trade_off(found, error).savefig(folder / f"{error}-against-loss.svg")
