"""`dpi compact`: bounds what a store keeps beside its releases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpi.cli.config import Config
from dpi.cli.options import Json, KeyFile, StoreArgument
from dpi.cli.output import address, document, note, say
from dpi.cli.signals import Signals
from dpi.errors import OptionError
from dpi.store import open_store
from dpi.store.opening import store_exists

KEEP = 1000
"""Slots whose measurements stay unless another number is said."""


def compact(
    store: StoreArgument,
    keep_measurements: Annotated[
        int, typer.Option("--keep-measurements", metavar="SLOTS", help="Of each stream, those of its last releases.")
    ] = KEEP,
    witness: Annotated[
        Path | None, typer.Option("--witness", metavar="FILE", help="Of a store that has one: it is asked first.")
    ] = None,
    key_file: KeyFile = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Drop measurements of old slots by a public rule; releases, certificates and accounts stay.

    A stream goes on as before, and `dpi verify` holds. Of a slot whose measurement is gone nobody can check any more
    that its release is what the measurement gives. A store that another process writes to is refused: a service thins
    its own (`dpi serve --keep-measurements`). The file keeps its size; what is freed in it is used for later slots.

    Examples:
      dpi compact visits.db
      dpi compact visits.db --keep-measurements 200 --witness /mnt/elsewhere/visits.witness
    """
    if keep_measurements < 1:
        raise OptionError(f"`--keep-measurements` must be a whole number of slots above 0. Got {keep_measurements}.")
    if not store_exists(store):
        raise OptionError(f"there is no store at {address(store)}.")
    with Signals() as signals, open_store(store, key_file=key_file, witness=witness) as opened:
        with signals.deferred():
            dropped = opened.thin(keep_measurements)
        since = opened.thinned()
    if json:
        document({"store": address(store), "keep": keep_measurements, "dropped": dropped, "thinned": since})
        return
    for name, number in dropped.items():
        say(f"{name or 'the stream without a name'}: {number} measurements dropped.")
    if any(dropped.values()):
        note("releases of these slots are as their certificates state; they cannot be derived again.")
