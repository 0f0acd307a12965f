"""Files of events, or a broker, as a command line names them, and what is in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dpi.domain import Domain, Product
from dpi.errors import OptionError
from dpi.sources import BrokerEvents, FileEvents, broker, read


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


@dataclass(frozen=True)
class BrokerOptions:
    """The broker that events come from, if it is not files."""

    address: str | None
    table: str | None = None
    id: str | None = None
    password_file: Path | None = None

    def open(self, columns: EventOptions, files: Sequence[str], domain: Domain, *, dry: bool) -> BrokerEvents | None:
        """The events of the broker; None if there is none."""
        if self.address is None:
            if self.table or self.id or self.password_file:
                raise OptionError("`--table`, `--id` and `--password-file` are for `--from-broker`.")
            if not files:
                raise OptionError("name the files of events, or `--from-broker`.")
            return None
        if files:
            raise OptionError("events come from files or from a broker: leave out one of the two.")
        if columns.format or columns.separator or columns.columns:
            raise OptionError("`--format`, `--separator` and `--columns` are for files: messages are JSON.")
        if dry:
            raise OptionError("`--dry-run` is for files: a broker is followed.")
        return broker(
            self.address,
            user=columns.user,
            time=columns.time,
            value=values(domain, columns.value),
            arrived=columns.arrived,
            unit=columns.unit,
            table=self.table,
            id=self.id or "id",
            password_file=self.password_file,
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
