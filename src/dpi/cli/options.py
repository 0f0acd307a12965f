"""Options that several commands have, so that one name means one thing everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from dpi.settings.declaration import Setting

if TYPE_CHECKING:
    from dpi.reader import Releases

Json = Annotated[bool, Setting("", "Print one JSON document and nothing else.")]
Config = Annotated[
    list[Path] | None,
    Setting("FILE|KEY=VALUE", "A TOML file with options, or one of them; see docs/cli.md. May be repeated."),
]
"""A command gets the files that were named, for what it reads in them itself."""
StoreArgument = Annotated[str, Setting("STORE", "A store: a path, or postgresql://…", argument=True)]
StreamName = Annotated[str | None, Setting("NAME", "Which stream, if the store has several.")]
KeyFile = Annotated[Path | None, Setting("FILE", "The ledger's key; STORE.key unless given.")]
PublicKey = Annotated[Path | None, Setting("FILE", "Check signatures with this public key.")]
WitnessFile = Annotated[Path | None, Setting("FILE", "Witness of the store, if it has one.")]
Begin = Annotated[str | None, Setting("TIME", "The slots that begin at this time or later …", name="from")]
End = Annotated[str | None, Setting("TIME", "… and before this time.", name="to")]
Slot = Annotated[str, Setting("N|TIME|last", "Slot, by its number or by a time in it.")]

Rules = Annotated[
    str | None, Setting("RULES", "Show what is good enough: points=X, percent=X, size=N, week, with commas between.")
]


def choose_slots(stored: Releases, slot: str, begin: str | None, end: str | None) -> Releases:
    """Return the releases of a period if one is given, else that of one slot, which must be there."""
    if begin is not None or end is not None:
        return stored.between(begin, end)
    if slot == "last":
        number = stored.newest.slot
    else:
        try:
            number = int(slot)
        except ValueError:
            number = stored.slots.at(stored.slots.instant(slot, "--slot"))
    number = stored.at(number).slot
    return stored.between(number, number + 1)
