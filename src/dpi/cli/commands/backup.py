"""Copies of a store: `dpi backup` and `dpi backup restore` for its owner, `dpi export` for analysts.

`dpi backup upgrade` brings a store to the format of this version, once a back-up of it is there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dpi.certificates.signature import Signer
from dpi.cli._outfile import FORMS
from dpi.cli._table_files import write_delta, write_lineage, write_parquet
from dpi.cli.options import Json, KeyFile, StoreArgument, StreamName
from dpi.cli.output import address, answer, note, say
from dpi.cli.signals import Signals
from dpi.errors import OptionError
from dpi.reader import open
from dpi.settings.declaration import Setting
from dpi.store import open_store
from dpi.store.backup import back_up
from dpi.store.backup import restore as put_back
from dpi.store.export import export as write_export
from dpi.store.upgrade import upgrade as upgrade_store

TABLES = {"parquet": write_parquet, "delta": write_delta, "openlineage": write_lineage}
"""What `dpi export --as` writes, beside a file that commands read like a store."""


def backup(
    store: StoreArgument,
    target: Annotated[Path, Setting("FILE", "The new file, such as visits-monday.db.", argument=True)],
    json: Json = False,
) -> None:
    """Copy a store to a new file while it is in use. Private: keep it closed, encrypted, and apart from the key.

    Only a store that has a witness is copied, for a copy that is put back must be told from the newest one. From a
    file or from PostgreSQL, the copy is a file. A file that is there is not replaced. Accounts in buckets are copied to
    a folder beside it, FILE.buckets: both together are the copy. `dpi backup restore` puts it back.

    Examples:
      dpi backup visits.db /backup/visits-monday.db
      dpi backup "postgresql:///visits" /backup/visits-monday.db
      dpi backup restore /backup/visits-monday.db visits.db --witness /mnt/elsewhere/visits.witness
    """
    with Signals():
        back_up(store, target)
    _tell(str(target), json, {"backup": str(target), "store": address(store)})
    if not json:
        note(
            "it holds accounts and events of open slots: encrypt it, keep it apart from the key, delete it on schedule."
        )


def restore(
    backup: Annotated[Path, Setting("FILE", "A file of dpi backup.", argument=True)],
    store: Annotated[str, Setting("STORE", "Place without a store: a path, or postgresql://…", argument=True)],
    witness: Annotated[Path, Setting("FILE", "Witness of the store.")],
    key_file: KeyFile = None,
    path: Annotated[
        Path | None, Setting("FOLDER", "New folder of bucket files; beside the store unless given.")
    ] = None,
    charge_lost: Annotated[
        bool, Setting("", "Continue from an old copy; every account is charged for what it lacks.")
    ] = False,
    sign: Annotated[Path | None, Setting("FILE", "Private key of a signed chain; see dpi keys.")] = None,
    json: Json = False,
) -> None:
    """Put a back-up in a place where there is no store. Spent budget stays spent.

    The witness knows what was released. If the back-up lacks some of it, it is refused: look for a newer one. With
    --charge-lost every account, future ones included, is charged for what it lacks, and the chain says so.

    Examples:
      dpi backup restore /backup/visits-monday.db visits.db --witness /mnt/elsewhere/visits.witness
    """
    with Signals():
        signer = None if sign is None else Signer.open(sign)
        seen = put_back(
            backup, store, witness=witness, key_file=key_file, path=path, charge_lost=charge_lost, signer=signer
        )
    with open_store(store, read_only=True) as made:
        newest = made.head().sequence
        entry = made.link(newest).entry if newest >= 0 else {}
    charged = entry.get("charged_units") if entry.get("lost_head") == seen.digest else None
    _tell(store, json, {"store": address(store), "charged_units": charged})
    if charged is not None and not json:
        say(
            "Every account was charged for the slots that the back-up lacks, and new accounts will be; the last entry "
            "of the chain says so."
        )


def upgrade(
    store: StoreArgument,
    backup: Annotated[
        Path, Setting("FILE", "A file of dpi backup, of this moment, made by the store's own version.", argument=True)
    ],
    json: Json = False,
) -> None:
    """Bring a store of an earlier version to the format of this one: in place, and whole or not at all.

    What is spent, released and waiting stays as it is. The back-up is what you return to with the earlier version;
    make it after the service was stopped. Refused while another process writes to the store. A store that has this
    version's format is left as it is; no version takes one to an earlier format.

    Examples:
      dpi backup upgrade visits.db /backup/visits-before.db
      dpi backup upgrade "postgresql:///visits" /backup/visits-before.db
    """
    with Signals() as signals, signals.deferred():
        done = upgrade_store(store, backup)
    found = {"store": address(store), "format_before": done.before, "format": done.after}
    same = f"{address(store)} has format {done.after}, which is this version's: nothing was changed."
    answer(json, found, same if done.before == done.after else f"{address(store)} has format {done.after} now.")


def export(
    store: StoreArgument,
    target: Annotated[str, Setting("FILE", "The new file, such as public.db; the folder of a table.", argument=True)],
    kind: Annotated[str, Setting("KIND", "store, or of a stream: parquet, delta, openlineage.", name="as")] = "store",
    stream: StreamName = None,
    json: Json = False,
) -> None:
    """Write releases, certificates, options and domains of a store to a new file that may be handed to analysts.

    Never hand out the store itself: it holds accounts, and even a copy without its key tells how many there are. The
    file is made from a list of public columns and of released slots alone; `query`, `report` and `verify`
    read it like a store, and nothing can be written to it. A file that is there is not replaced.

    With --as parquet or --as delta it writes a table of one stream instead, with a row for each slot and value, in a
    folder for each day. The same command adds what was released since. --as delta needs the extra delta.
    With --as openlineage it writes a file with the events of every release for a catalogue of data; extra lineage.

    Examples:
      dpi export visits.db public.db
      dpi export visits.db visits-table --as parquet
      dpi export visits.db visits-lineage.ndjson --as openlineage
      dpi verify public.db
      dpi query public.db top 5
    """
    if kind in TABLES:
        with Signals(), open(store, stream) as stored:
            added = TABLES[kind](stored, target)
            newest = stored.newest.slot if len(stored) else None
        found = {"table": target, "store": address(store), "stream": stored.name, "added": added, "last_slot": newest}
        answer(json, found, f"{target}: {added} {'slot' if added == 1 else 'slots'} added. It may be handed out.")
        return
    if kind != "store" or stream is not None:
        raise OptionError(
            f"`--as` must be store, parquet, delta or openlineage, and `--stream` is for all but a store. Got {kind!r}."
        )
    if "://" in target or Path(target).suffix in FORMS:
        raise OptionError(f"an export is a file of its own kind: give it a name such as public.db. Got {target!r}.")
    with Signals(), open_store(store, read_only=True) as opened:
        if not opened.streams():
            raise OptionError("the store holds no stream yet.")
        write_export(opened, target)
        streams = list(opened.streams())
    _tell(target, json, {"export": target, "store": address(store), "streams": streams}, " It may be handed out.")


def _tell(made: str, json: bool, found: dict[str, object], more: str = "") -> None:
    """Say how far the chain goes in the copy that was made."""
    with open_store(made, read_only=True) as store:
        head = store.head()
    found |= {"entries": head.sequence + 1, "head": head.digest}
    answer(json, found, f"{address(made)}: {head.sequence + 1} certificates, up to {head.digest}.{more}")
