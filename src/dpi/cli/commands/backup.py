"""`dpi backup`: a copy of a store that is in use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpi.cli.config import Config
from dpi.cli.options import Json, StoreArgument
from dpi.cli.output import address, document, note, say
from dpi.cli.signals import Signals
from dpi.store import open_store
from dpi.store.backup import back_up


def backup(
    store: StoreArgument,
    target: Annotated[
        Path, typer.Argument(metavar="FILE", show_default=False, help="The new file, such as visits-monday.db.")
    ],
    json: Json = False,
    config: Config = None,
) -> None:
    """Copy a store to a new file while it is in use. Private: keep it closed, encrypted, and apart from the key.

    Only a store that has a witness is copied, for a copy that is put back must be told from the newest one. From a
    file or from PostgreSQL, the copy is a file. A file that is there is not replaced. Accounts in buckets are copied to
    a folder beside it, FILE.buckets: both together are the copy.

    Examples:
      dpi backup visits.db /backup/visits-monday.db
      dpi backup "postgresql:///visits" /backup/visits-monday.db
    """
    with Signals():
        back_up(store, target)
    with open_store(target, read_only=True) as made:
        head = made.head()
    if json:
        document({"backup": str(target), "store": address(store), "entries": head.sequence + 1, "head": head.digest})
        return
    say(f"{target}: {head.sequence + 1} certificates, up to {head.digest}.")
    note("it holds accounts and events of open slots: encrypt it, keep it apart from the key, delete it on schedule.")
