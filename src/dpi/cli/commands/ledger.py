"""`dpi ledger`: for the curator, how much one user has left, and where accounts are. What it prints is private."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dpi.certificates.declared import DeclaredOptions
from dpi.cli.config import Config
from dpi.cli.engines import move
from dpi.cli.options import BucketPath, Json, KeyFile, StoreArgument, StreamName
from dpi.cli.output import document, note, say
from dpi.errors import OptionError
from dpi.events.identity import users
from dpi.reader import stream_named
from dpi.store import open_store
from dpi.store.bank import stored_accounts
from dpi.store.folder import BITS


def ledger(
    store: StoreArgument,
    user: Annotated[
        str | None, typer.Option("--user", metavar="ID", help="The user; - reads the id from standard input.")
    ] = None,
    slot: Annotated[
        int | None,
        typer.Option("--slot", metavar="N", help="With epochs: in the epoch of this slot; the next one unless given."),
    ] = None,
    layout: Annotated[
        str | None,
        typer.Option(
            "--layout", metavar="LAYOUT", help="Instead: move all accounts of the store, to buckets or embedded."
        ),
    ] = None,
    path: BucketPath = None,
    bits: Annotated[
        int, typer.Option("--bits", metavar="N", help="2^N buckets; each should hold at most some million accounts.")
    ] = BITS,
    witness: Annotated[
        Path | None, typer.Option("--witness", metavar="FILE", help="Of a store that has one, to move its accounts.")
    ] = None,
    key_file: KeyFile = None,
    stream: StreamName = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Say how much of ε one user has left. Private: it tells whether the user was there.

    A user who was never seen has all of ε left, like everybody else who was never seen. Of a stream with a quota, it
    is what is left of that; of one without, what is left of the rest. With --layout, the accounts of the store are
    moved into buckets of files, for engines and for more accounts than memory holds, or back into the database: nobody
    is refilled.

    Examples:
      dpi ledger visits.db --user ada
      echo ada | dpi ledger visits.db --user - --json
      dpi ledger visits.db --layout buckets --path /shared/visits
      dpi ledger visits.db --layout embedded
    """
    if (user is None) == (layout is None):
        raise OptionError("give `--user`, to ask, or `--layout`, to move accounts.")
    if layout is not None:
        with open_store(store, key_file=key_file, witness=witness) as opened:
            move(opened, layout, path, bits)
        if json:
            document({"layout": layout})
        else:
            place = "in buckets of files" if layout == "buckets" else "in its database"
            say(f"the accounts of the store are {place}.")
        return
    assert user is not None  # noqa: S101 - one of both is given
    ids = users([sys.stdin.readline().strip() if user == "-" else user])
    if ids.has_nulls():
        raise OptionError("`--user` must be an id of 1 to 1,024 bytes.")
    with open_store(store, read_only=True, curator=True, key_file=key_file) as opened:
        name = stream_named(opened, stream)
        declared = DeclaredOptions.from_text(opened.streams()[name])
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
