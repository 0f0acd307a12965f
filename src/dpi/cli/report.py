"""`dpi report`: one HTML page about a stream, which needs nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpi.cli.config import Config
from dpi.cli.ending import FOUND
from dpi.cli.options import Json, PublicKey, StoreArgument, StreamName
from dpi.cli.output import document, note, say
from dpi.cli.stored import Stored, reading
from dpi.errors import OptionError
from dpi.signature import Verifier
from dpi.store import Store
from dpi.verification import verify


def report(
    store: StoreArgument,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="The page; the store's name with .html unless given."),
    ] = None,
    stream: StreamName = None,
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="The store's name unless given.")] = None,
    public_key: PublicKey = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Write a self-contained HTML page: shares over time with their uncertainty, the budget, the certificate.

    It is made of releases only, so it may be given to anybody. The chain is verified on the way; if something is wrong
    with it, the page says so and the exit code is 1.

    Examples:
      dpi report visits.db
      dpi report visits.db -o visits.html --title "Visits by country"
    """
    if out is not None and out.suffix not in (".html", ".htm"):
        raise OptionError(f"`--out` must end in .html. Got {str(out)!r}.")
    with reading(store) as opened:
        target = out or Path(Path(store).stem + ".html")
        problems = write_page(opened, target, stream, title or Path(store).stem, public_key)
    if json:
        document({"page": str(target), "problems": problems})
    else:
        say(f"Look at {target}.")
        for problem in problems:
            note(problem)
    if problems:
        raise typer.Exit(FOUND)


def write_page(store: Store, target: Path, stream: str | None, title: str, public_key: Path | None) -> list[str]:
    """Write the page; what a verification found wrong."""
    from dpi.report import Status, page, write

    stored = Stored(store, stream)
    found = verify(store, verifier=None if public_key is None else Verifier.open(public_key))
    releases = list(stored.releases())
    if releases:  # a change of the domain begins a new page
        domain = releases[-1].domain
        releases = [release for release in releases if release.domain == domain]
    status = Status(
        entries=found.entries,
        head=found.head,
        chain_intact=found.intact,
        signed=found.signed,
        problems=found.problems,
    )
    if not target.absolute().parent.is_dir():
        raise OptionError(f"`--out` must lie in a folder that exists. Got {str(target)!r}.")
    write(target, page(releases, title=title, verification=status))
    return list(found.problems)
