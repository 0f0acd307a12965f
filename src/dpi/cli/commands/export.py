"""`dpi export`: the public part of a store, as a file for analysts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dpi.cli._overwrite_check import TEXT
from dpi.cli.options import Json, StoreArgument
from dpi.cli.output import address, document, say
from dpi.cli.signals import Signals
from dpi.errors import OptionError
from dpi.settings.declaration import Setting
from dpi.store import open_store
from dpi.store.export import export as write_export


def export(
    store: StoreArgument,
    target: Annotated[str, Setting("FILE", "The new file, such as public.db.", argument=True)],
    json: Json = False,
) -> None:
    """Write releases, certificates, options and domains of a store to a new file that may be handed to analysts.

    Never hand out the store itself: it holds accounts, and even a copy without its key tells how many there are. The
    file is made from a list of public columns and of released slots alone; `query`, `report` and `verify`
    read it like a store, and nothing can be written to it. A file that is there is not replaced.

    Examples:
      dpi export visits.db public.db
      dpi verify public.db
      dpi query public.db top 5
    """
    if "://" in target or Path(target).suffix in (".parquet", *TEXT):
        raise OptionError(f"an export is a file of its own kind: give it a name such as public.db. Got {target!r}.")
    with Signals(), open_store(store, read_only=True) as opened:
        if not opened.streams():
            raise OptionError("the store holds no stream yet.")
        write_export(opened, target)
    with open_store(target, read_only=True) as made:
        found = {"export": target, "store": address(store), "streams": list(made.streams())}
        head = made.head()
    if json:
        document({**found, "entries": head.sequence + 1, "head": head.digest})
    else:
        say(f"{target}: {head.sequence + 1} certificates, up to {head.digest}. It may be handed out.")
