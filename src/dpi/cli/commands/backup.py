"""Copies of a store for its owner: `dpi backup` makes one, `dpi backup restore` puts it back.

`dpi backup upgrade` brings a store to the format of this version, once a backup of it is there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dpi.certificates.signature import Signer
from dpi.cli._copies import tell_copy
from dpi.cli.options import Json, KeyFile, StoreArgument
from dpi.cli.output import address, answer, note, say
from dpi.cli.signals import Signals
from dpi.settings.declaration import Setting
from dpi.store import open_store
from dpi.store.backup import back_up
from dpi.store.backup import restore as put_back
from dpi.store.upgrade import upgrade as upgrade_store


def backup(
    store: StoreArgument,
    target: Annotated[Path, Setting("FILE", "The new file, such as visits-monday.db.", argument=True)],
    json: Json = False,
) -> None:
    """Copy a store to a new file while it is in use. Private: keep it closed, encrypted, and apart from the key.

    Only a store that has a witness is copied: a restored copy must be distinguished from the newest one. From a file
    or from PostgreSQL, the copy is a file. A file that is there is not replaced. Accounts in buckets are copied to a
    folder beside it, FILE.buckets: both together are the copy. `dpi backup restore` puts it back.

    Examples:
      dpi backup visits.db /backup/visits-monday.db
      dpi backup "postgresql:///visits" /backup/visits-monday.db
      dpi backup restore /backup/visits-monday.db visits.db --witness /mnt/elsewhere/visits.witness
    """
    with Signals():
        back_up(store, target)
    tell_copy(str(target), json, {"backup": str(target), "store": address(store)})
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
    """Put a backup in a place where there is no store. Spent budget stays spent.

    The witness knows what was released. If the backup lacks some of it, it is refused: look for a newer one. With
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
    tell_copy(store, json, {"store": address(store), "charged_units": charged})
    if charged is not None and not json:
        say(
            "Every account was charged for the slots that the backup lacks, and new accounts will be; the last entry "
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

    What is spent, released and waiting stays as it is. The backup is what you return to with the earlier version;
    make it after the service was stopped. Refused while another process writes to the store. A store that has this
    version's format is left as it is; no version takes one to an earlier format.

    Examples:
      dpi backup upgrade visits.db /backup/visits-before.db
      dpi backup upgrade "postgresql:///visits" /backup/visits-before.db
    """
    with Signals() as signals, signals.deferred():
        done = upgrade_store(store, backup)
    formats = {"store": address(store), "format_before": done.before, "format": done.after}
    same = f"{address(store)} has format {done.after}, which is this version's: nothing was changed."
    answer(json, formats, same if done.before == done.after else f"{address(store)} has format {done.after} now.")
