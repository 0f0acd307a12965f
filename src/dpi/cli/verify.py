"""`dpi verify`: whether a store, or releases that were handed out, are what their certificates say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from dpi.cli.config import Config
from dpi.cli.domains import read_domain
from dpi.cli.ending import FOUND
from dpi.cli.options import Json, KeyFile, PublicKey, StreamName
from dpi.cli.outfile import TEXT, read_releases
from dpi.cli.output import document, say, table
from dpi.cli.stored import Stored, reading
from dpi.domain import Domain
from dpi.errors import OptionError, StateError
from dpi.signature import Verifier
from dpi.store import open_store
from dpi.store.witness import Witness
from dpi.verification import Verification, check_accounts, verify_releases
from dpi.verification import verify as verify_store


def verify(
    target: Annotated[
        str, typer.Argument(metavar="STORE|FILE", show_default=False, help="A store, or a file of releases.")
    ],
    curator: Annotated[
        bool, typer.Option("--curator", help="Check also that no account is beyond ε; needs the ledger's key.")
    ] = False,
    key_file: KeyFile = None,
    public_key: PublicKey = None,
    witness: Annotated[
        Path | None, typer.Option("--witness", metavar="FILE", help="The chain must hold what this witness saw.")
    ] = None,
    domain: Annotated[
        Path | None, typer.Option("--domain", metavar="FILE", help="Of a file of releases: its domain …")
    ] = None,
    other: Annotated[
        str | None, typer.Option("--other", metavar="NAME", help="… with this bin for what is not listed,")
    ] = None,
    store: Annotated[
        str | None, typer.Option("--store", metavar="STORE", help="… or the store they were made from.")
    ] = None,
    stream: StreamName = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Recompute the chain of certificates and its sums. The exit code is 1 if anything is wrong.

    Anyone can do this: only public bytes are read. With --curator the accounts are checked, too; what is then found is
    private.

    Examples:
      dpi verify visits.db
      dpi verify visits.db --public-key signing.pub --witness /mnt/elsewhere/visits.witness
      dpi verify visits.db --curator --key-file visits.db.key
      dpi verify releases.parquet --domain countries.txt
    """
    verifier = None if public_key is None else Verifier.open(public_key)
    if Path(target).suffix in (".parquet", *TEXT):
        if curator or witness is not None:
            raise OptionError("`--curator` and `--witness` are for a store.")
        if not Path(target).exists():
            raise OptionError(f"there is no file {target}.")
        meant = _domain(domain, other, store, stream)
        try:
            found = verify_releases(read_releases(Path(target), meant), verifier=verifier)
        except StateError as error:
            found = Verification(0, "", (str(error),))
    else:
        found = _store(target, curator, key_file, verifier, witness)
    if json:
        document(
            {
                "intact": found.intact,
                "entries": found.entries,
                "head": found.head,
                "problems": list(found.problems),
                "signed": found.signed,
                "accounts_checked": found.accounts_checked,
                "epsilon_spent": found.spent,
            }
        )
    else:
        _print(found)
    if not found.intact:
        raise typer.Exit(FOUND)


def _domain(path: Path | None, other: str | None, store: str | None, stream: str | None) -> Domain:
    if (path is None) == (store is None):
        raise OptionError("to read a file of releases, give its `--domain`, or the `--store` it was made from.")
    if path is not None:
        return read_domain(path, other, None)
    with reading(str(store)) as opened:
        stored = Stored(opened, stream)
        return stored.slot(stored.last).domain


def _store(
    target: str, curator: bool, key_file: Path | None, verifier: Verifier | None, witness: Path | None
) -> Verification:
    with open_store(target, read_only=True, curator=curator, key_file=key_file) as opened:
        seen = None if witness is None else Witness(witness).read()
        if witness is not None and seen is None:
            raise OptionError(f"there is no witness {witness}.")
        found = verify_store(opened, verifier=verifier, seen=seen)
        if not curator:
            return found
        return replace(found, problems=(*found.problems, *check_accounts(opened)), accounts_checked=True)


def _print(found: Verification) -> None:
    say("The chain is whole." if found.intact else "Something is wrong:")
    say(*(f"  {problem}" for problem in found.problems))
    facts: list[list[object]] = [["certificates", found.entries], ["head", found.head or "–"]]
    if found.signed is not None:
        facts.append(["signatures", "all are of this key" if found.signed else "not all are of this key"])
    facts.append(["accounts", "checked (private)" if found.accounts_checked else "not checked (the curator can)"])
    facts += [[f"spent, stream {name!r}", f"at most {spent:.6g} per user"] for name, spent in found.spent.items()]
    table(["", ""], facts, left=2)
