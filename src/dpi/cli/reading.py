"""Files of events as a command line names them, and what is in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpi.domain import Domain, Product
from dpi.errors import OptionError
from dpi.sources import FileEvents, read


@dataclass(frozen=True)
class EventOptions:
    """Which columns are what, and how lines are read."""

    user: str
    time: str
    value: list[str] | None
    unit: str | None = None
    arrived: str | None = None
    format: str | None = None
    separator: str | None = None
    columns: str | None = None

    def open(self, files: Sequence[str], domain: Domain) -> FileEvents:
        """The events of files."""
        return read(
            files,
            user=self.user,
            time=self.time,
            value=values(domain, self.value),
            arrived=self.arrived,
            unit=self.unit,
            format=self.format,
            separator="\t" if self.separator == r"\t" else self.separator,  # a shell has no easy tab
            columns=None if self.columns is None else self.columns.split(","),
        )


def values(domain: Domain, said: list[str] | None) -> str | dict[str, str]:
    """The column of values, or of each part of a product."""
    if not isinstance(domain, Product):
        if said is not None and len(said) > 1:
            raise OptionError("`--value` may be repeated for a product domain alone.")
        return said[0] if said else "value"
    named = dict(text.partition("=")[::2] for text in said or ())
    if named.keys() != domain.parts.keys() or not all(named.values()):
        wanted = " ".join(f"--value {part}=COLUMN" for part in domain.parts)
        raise OptionError(f"a product domain needs a column for each part: {wanted}.")
    return named
