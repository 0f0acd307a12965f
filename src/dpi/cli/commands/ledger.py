"""`dpi ledger`: for the curator, how much one user has left, and where accounts are. What it prints is private.

`dpi ledger compact` bounds what a store keeps beside its releases.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from dpi.certificates.declared import DeclaredOptions
from dpi.cli.options import Json, KeyFile, StoreArgument, StreamName, WitnessFile
from dpi.cli.output import address, answer, document, note, say
from dpi.cli.signals import Signals
from dpi.errors import OptionError
from dpi.events.identity import users
from dpi.reader import stream_named
from dpi.settings.declaration import Setting
from dpi.store import open_store
from dpi.store.folder import BITS
from dpi.store.ledger_session import stored_accounts
from dpi.store.opening import store_exists
from dpi.store.sql import SQLStore

KEEP = 1000
"""Slots whose measurements stay unless another number is set."""
PLACES = {"buckets": "in buckets of files", "embedded": "in its database"}


def ledger(
    store: StoreArgument,
    user: Annotated[str | None, Setting("ID", "The user; - reads the id from standard input.")] = None,
    slot: Annotated[
        int | None, Setting("N", "With epochs: slot whose epoch is asked for; the next one unless given.")
    ] = None,
    layout: Annotated[
        str | None,
        Setting("LAYOUT", "Instead of a user: move all accounts to buckets (buckets:N makes 2^N) or embedded."),
    ] = None,
    path: Annotated[Path | None, Setting("FOLDER", "Folder of bucket files; STORE.buckets unless given.")] = None,
    witness: WitnessFile = None,
    key_file: KeyFile = None,
    stream: StreamName = None,
    json: Json = False,
) -> None:
    """Print how much of ε one user has left. Private: it reveals whether the user was active.

    A user who was never seen has all of ε left, like everybody else who was never seen. Of a stream with a quota, it
    is what is left of that; of one without, what is left of the rest. With --layout, the accounts of the store are
    moved into buckets of files, for engines and for more accounts than memory holds, or back into the database: nobody
    is refilled. `dpi ledger compact` drops measurements of old slots.

    Examples:
      dpi ledger visits.db --user ada
      echo ada | dpi ledger visits.db --user - --json
      dpi ledger visits.db --layout buckets --path /shared/visits
      dpi ledger visits.db --layout embedded
      dpi ledger compact visits.db --keep-measurements 200
    """
    if (user is None) == (layout is None):
        raise OptionError("give `--user`, to ask, or `--layout`, to move accounts.")
    if layout is not None:
        with open_store(store, key_file=key_file, witness=witness) as opened:
            move(opened, layout, path)
        answer(json, {"layout": layout}, f"the accounts of the store are {PLACES[layout.partition(':')[0]]}.")
        return
    with open_store(store, read_only=True, curator=True, key_file=key_file) as opened:
        name = stream_named(opened, stream)
        declared = DeclaredOptions.from_text(opened.streams()[name])
        ids = users([sys.stdin.readline().strip() if user == "-" else user], declared.ids)
        if ids.has_nulls():
            raise OptionError("`--user` must be an id of 1 to 1,024 bytes.")
        ledger = declared.accounts
        if ledger is None or ledger not in opened.ledgers():
            raise OptionError("this stream has no accounts: everybody pays every slot of its converging series.")
        accounts, reached = stored_accounts(opened, ledger), opened.reached(name)
        following = slot if slot is not None else 0 if reached is None else reached[0] + 1
        left, payments = float(accounts.remaining(ids, following)[0]), accounts.payments(ids, following, name)[0]
        by_class = opened.bounds(name) is not None
    epsilon = float(accounts.epsilon)
    if json:
        paid = {"payments": payments} if by_class else {}
        held = {} if accounts.held == accounts.epsilon else {"held": float(accounts.held)}
        document({"left": left, "epsilon": epsilon, **held, "slot": following, **paid, "private": True})
        return
    epoch = "" if accounts.period is None else f" in the epoch of slot {following}"
    times = f", {payments} payment{'' if payments == 1 else 's'} in this stream" if by_class else ""
    of = f"{epsilon:g}"
    if accounts.held != accounts.epsilon:
        part = "this stream's quota" if declared.quota is not None else "what is in no quota"
        of = f"{float(accounts.held):g}, {part} of ε = {epsilon:g}"
    say(f"left {left:.6g} of {of}{epoch}{times}")
    note("this is private: it tells whether and how often the user was there.")


def move(store: SQLStore, layout: str, path: Path | None) -> None:
    """Move the accounts of a store into another layout."""
    kind, _, bits = layout.partition(":")
    if kind not in PLACES or (bits and not (kind == "buckets" and bits.isdecimal())):
        raise OptionError(f"`--layout` must be buckets, buckets:N or embedded. Got {layout!r}.")
    if kind == "embedded":
        if path is not None:
            raise OptionError("`--path` is of buckets: leave it out.")
        store.embed()
    else:
        store.lay_out(path, int(bits) if bits else BITS)


def compact(
    store: StoreArgument,
    keep_measurements: Annotated[
        int, Setting("SLOTS", "Measurements to keep of each stream, counted from the last release.")
    ] = KEEP,
    witness: WitnessFile = None,
    key_file: KeyFile = None,
    json: Json = False,
) -> None:
    """Drop measurements of old slots by a public rule; releases, certificates and accounts stay.

    A stream goes on as before, and `dpi verify` holds. Older releases can no longer be checked against their
    measurements. A store that another process writes to is refused: a service thins its own (keep-measurements in
    [serve] of dpi.toml). The file keeps its size; what is freed is used for later slots.

    Examples:
      dpi ledger compact visits.db
      dpi ledger compact visits.db --keep-measurements 200 --witness /mnt/elsewhere/visits.witness
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
