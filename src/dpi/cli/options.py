"""Options that several commands have, so that one name means one thing everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
StoreArgument = Annotated[
    str, typer.Argument(metavar="STORE", help="A store: a path, or postgresql://…", show_default=False)
]
StreamName = Annotated[
    str | None, typer.Option("--stream", metavar="NAME", help="Which stream, if the store has several.")
]
KeyFile = Annotated[
    Path | None, typer.Option("--key-file", metavar="FILE", help="The ledger's key; STORE.key unless given.")
]
PublicKey = Annotated[
    Path | None, typer.Option("--public-key", metavar="FILE", help="Check signatures with this public key.")
]
DomainKeys = Annotated[
    list[Path] | None,
    typer.Option("--domain-key", metavar="FILE", help="Key of a hashed domain. Repeat it for several."),
]
