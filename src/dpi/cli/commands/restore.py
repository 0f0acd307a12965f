"""`dpi restore`: a back-up in the place of a store that was lost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpi.certificates.signature import Signer
from dpi.cli.config import Config
from dpi.cli.options import Json, KeyFile
from dpi.cli.output import address, document, say
from dpi.cli.signals import Signals
from dpi.store import open_store
from dpi.store.backup import restore as put_back


def restore(
    backup: Annotated[Path, typer.Argument(metavar="FILE", show_default=False, help="What dpi backup has made.")],
    store: Annotated[
        str, typer.Argument(metavar="STORE", show_default=False, help="Where no store is: a path, or postgresql://…")
    ],
    witness: Annotated[
        Path, typer.Option("--witness", metavar="FILE", help="The store's witness, which knows what was released.")
    ],
    key_file: KeyFile = None,
    path: Annotated[
        Path | None,
        typer.Option("--path", metavar="FOLDER", help="New folder of bucket files; beside the store unless said."),
    ] = None,
    charge_lost: Annotated[
        bool, typer.Option("--charge-lost", help="Go on with an old copy; everybody pays for what it lacks.")
    ] = False,
    sign: Annotated[
        Path | None, typer.Option("--sign", metavar="FILE", help="Private key of a signed chain; see dpi keys.")
    ] = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Put a back-up in a place where there is no store. Nobody's budget comes back with it.

    The witness knows what was released. If the back-up lacks some of it, it is refused: look for a newer one. With
    --charge-lost every account, future ones included, is charged for what it lacks, and the chain says so.

    Examples:
      dpi restore /backup/visits-monday.db visits.db --witness /mnt/elsewhere/visits.witness
    """
    with Signals():
        signer = None if sign is None else Signer.open(sign)
        seen = put_back(
            backup, store, witness=witness, key_file=key_file, path=path, charge_lost=charge_lost, signer=signer
        )
    with open_store(store, read_only=True) as made:
        head = made.head()
        entry = made.link(head.sequence).entry if head.sequence >= 0 else {}
    charged = entry.get("charged_units") if entry.get("lost_head") == seen.digest else None
    if json:
        document({"store": address(store), "entries": head.sequence + 1, "head": head.digest, "charged_units": charged})
        return
    say(f"{address(store)}: {head.sequence + 1} certificates, up to {head.digest}.")
    if charged is not None:
        say("Every account was charged for the slots that the back-up lacks; the last entry of the chain says so.")
