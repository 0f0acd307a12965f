"""`dpi report`: one HTML page about a stream, which needs nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpi.certificates.signature import Verifier
from dpi.cli.config import Config
from dpi.cli.ending import FOUND
from dpi.cli.options import Json, PublicKey, StoreArgument, StreamName
from dpi.cli.output import document, note, say
from dpi.errors import OptionError
from dpi.reader import Releases
from dpi.release import Release
from dpi.release.choice import Values, choose, values_from_text
from dpi.store import open_store
from dpi.verification import verify


def report(
    store: StoreArgument,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="The page; the store's name with .html unless given."),
    ] = None,
    begin: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="The slots that begin at this time or later …")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="… and before this time.")] = None,
    stream: StreamName = None,
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="The store's name unless given.")] = None,
    public_key: PublicKey = None,
    values: Annotated[
        list[str] | None,
        typer.Option(
            "--values",
            metavar="VALUE,…",
            help="Draw these values; of a product PART=VALUE,… for each part. Repeat it for more.",
        ),
    ] = None,
    top: Annotated[
        int | None, typer.Option("--top", metavar="K", help="Draw the K largest values.", show_default=False)
    ] = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Write a self-contained HTML page: shares over time with their uncertainty, the budget, the certificate.

    It is made of releases only, so it may be given to anybody. The chain is verified on the way; if something is wrong
    with it, the page says so and the exit code is 1. Where the domain has changed, rows are those of the newest slot
    and blank in slots that have no such values; `--values` that are in an earlier domain alone end the page with it.

    Examples:
      dpi report visits.db
      dpi report visits.db -o visits.html --title "Visits by country"
      dpi report visits.db --values DE,FR,elsewhere
      dpi report visits.db --from 2026-01-01 --to 2026-02-01
      dpi report pairs.db --values country=DE,FR --values age=30,50
    """
    if out is not None and out.suffix not in (".html", ".htm"):
        raise OptionError(f"`--out` must end in .html. Got {str(out)!r}.")
    if values and top is not None:
        raise OptionError("give `--values` or `--top`, not both.")
    if top is not None and top < 1:
        raise OptionError(f"`--top` must be a whole number above 0. Got {top}.")
    with open_store(store, read_only=True) as opened:
        target = out or Path(Path(store).stem + ".html")
        drawn = top if top is not None else values
        stored = Releases(opened, stream).between(begin, end)
        if not len(stored) and (begin is not None or end is not None):
            raise OptionError("no slot that begins from `--from` on and before `--to` was released.")
        problems = write_page(stored, target, title or Path(store).stem, public_key, drawn)
    if json:
        document({"page": str(target), "problems": problems})
    else:
        say(f"Look at {target}.")
        for problem in problems:
            note(problem)
    if problems:
        raise typer.Exit(FOUND)


def write_page(
    stored: Releases,
    target: Path,
    title: str,
    public_key: Path | None,
    drawn: int | list[str] | None = None,
) -> list[str]:
    """Write the page with the values that are drawn, or as many of the largest; what a verification found wrong."""
    from dpi.report import Status, page, write

    found = verify(stored.store, verifier=None if public_key is None else Verifier.open(public_key))
    releases, values = _chosen(list(stored), drawn)
    status = Status(
        entries=found.entries,
        head=found.head,
        chain_intact=found.intact,
        signed=found.signed,
        streams=len(found.spent),
        spent=found.spent_by_all,
        problems=found.problems,
    )
    if not target.absolute().parent.is_dir():
        raise OptionError(f"`--out` must lie in a folder that exists. Got {str(target)!r}.")
    write(target, page(releases, title=title, verification=status, values=values))
    return list(found.problems)


def _chosen(releases: list[Release], drawn: int | list[str] | None) -> tuple[list[Release], Values | None]:
    """The releases up to the last one whose domain has all values that are drawn, and these; a note says where."""
    if not releases or not isinstance(drawn, list):
        return releases, drawn if isinstance(drawn, int) else None
    refused: OptionError | None = None
    for end in range(len(releases), 0, -1):
        last = releases[end - 1]
        if end < len(releases) and last.domain == releases[end].domain:
            continue
        try:
            values = values_from_text(last.domain, drawn)
            choose(last.domain, last.accumulated, values)
        except OptionError as error:
            refused = refused or error
            continue
        if end < len(releases):
            since = releases[end]
            note(f"the page ends before slot {since.start_text or since.slot}, where the domain has no such values.")
        return releases[:end], values
    assert refused is not None  # noqa: S101 - there are releases, and each was refused
    raise refused
