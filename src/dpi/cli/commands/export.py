"""`dpi export`: what may be handed to analysts, as a file that commands read like a store or as tables of a stream."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dpi.cli._copies import tell_copy
from dpi.cli._outfile import FORMS
from dpi.cli._table_files import write_delta, write_lineage, write_parquet
from dpi.cli.options import Json, Rules, StoreArgument, StreamName
from dpi.cli.output import address, answer
from dpi.cli.signals import Signals
from dpi.errors import OptionError
from dpi.reader import open
from dpi.settings.declaration import Setting
from dpi.settings.quality import read_quality
from dpi.store import open_store
from dpi.store.export import export as write_export

TABLES = {"parquet": write_parquet, "delta": write_delta, "openlineage": write_lineage}
"""What `dpi export --as` writes, beside a file that commands read like a store."""


def export(
    store: StoreArgument,
    target: Annotated[str, Setting("FILE", "The new file, such as public.db; the folder of a table.", argument=True)],
    kind: Annotated[str, Setting("KIND", "store, or of a stream: parquet, delta, openlineage.", name="as")] = "store",
    quality: Rules = None,
    stream: StreamName = None,
    json: Json = False,
) -> None:
    """Write releases, certificates, options and domains of a store to a new file that may be handed to analysts.

    Never hand out the store itself: it holds accounts, and even a copy without its key tells how many there are. The
    file is made from a list of public columns and of released slots alone; `query`, `report` and `verify`
    read it like a store, and nothing can be written to it. A file that is there is not replaced.

    With --as parquet or --as delta it writes a table of one stream instead, with a row for each slot and value, in a
    folder for each day. The same command adds what was released since. --as delta needs the extra delta. --quality has
    rules of what is shown (see `dpi table`), the same in every call.
    With --as openlineage it writes a file with the events of every release for a catalogue of data; extra lineage.

    Examples:
      dpi export visits.db public.db
      dpi export visits.db visits-table --as parquet
      dpi export visits.db shown-table --as parquet --quality points=2,size=20
      dpi export visits.db visits-lineage.ndjson --as openlineage
      dpi verify public.db
      dpi query public.db top 5
    """
    if kind in TABLES:
        _export_table(store, target, kind, quality, stream, json)
        return
    if kind != "store" or stream is not None or quality is not None:
        raise OptionError(
            "`--as` must be store, parquet, delta or openlineage, `--stream` is for all but a store, and `--quality` "
            f"is for a table: releases of a store are whole. Got {kind!r}."
        )
    if "://" in target or Path(target).suffix in FORMS:
        raise OptionError(f"an export is a file of its own kind: give it a name such as public.db. Got {target!r}.")
    with Signals(), open_store(store, read_only=True) as opened:
        if not opened.streams():
            raise OptionError("the store holds no stream yet.")
        write_export(opened, target)
        streams = list(opened.streams())
    tell_copy(target, json, {"export": target, "store": address(store), "streams": streams}, " It may be handed out.")


def _export_table(store: str, folder: str, kind: str, quality: str | None, stream: str | None, json: bool) -> None:
    """Add what was released since the last time to a table of one stream."""
    if quality is not None and kind == "openlineage":
        raise OptionError("`quality` is for a table: events of lineage hold no shares.")
    with Signals(), open(store, stream) as opened:
        stored = opened.under(read_quality(quality))
        added = TABLES[kind](stored, folder)
        newest = stored.newest.slot if len(stored) else None
    facts = {"table": folder, "store": address(store), "stream": stored.name, "added": added, "last_slot": newest}
    answer(json, facts, f"{folder}: {added} {'slot' if added == 1 else 'slots'} added. It may be handed out.")
