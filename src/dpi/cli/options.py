"""Options that several commands have, so that one name means one thing everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dpi.settings.declaration import Setting

Json = Annotated[bool, Setting("", "Print one JSON document and nothing else.")]
Config = Annotated[
    list[Path] | None,
    Setting("FILE|KEY=VALUE", "A TOML file with options, or one of them; see docs/options.md. May be repeated."),
]
"""A command gets the files that were named, for what it reads in them itself."""
StoreArgument = Annotated[str, Setting("STORE", "A store: a path, or postgresql://…", argument=True)]
StreamName = Annotated[str | None, Setting("NAME", "Which stream, if the store has several.")]
KeyFile = Annotated[Path | None, Setting("FILE", "The ledger's key; STORE.key unless given.")]
PublicKey = Annotated[Path | None, Setting("FILE", "Check signatures with this public key.")]
WitnessFile = Annotated[Path | None, Setting("FILE", "Witness of the store, if it has one.")]
Begin = Annotated[str | None, Setting("TIME", "The slots that begin at this time or later …", name="from")]
End = Annotated[str | None, Setting("TIME", "… and before this time.", name="to")]
