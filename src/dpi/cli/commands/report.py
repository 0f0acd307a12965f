"""`dpi report`: one HTML page about a stream, which needs nothing else; or what it says of itself to a registry."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpi.certificates.signature import Verifier
from dpi.cli._errors import FOUND, check_folder
from dpi.cli.options import Begin, End, Json, PublicKey, Rules, StoreArgument, StreamName
from dpi.cli.output import answer, document, note
from dpi.errors import OptionError, StoreError
from dpi.reader import Releases, stream_named
from dpi.release import Release
from dpi.release.choice import Values, choose, values_from_text
from dpi.release.quality import slots_of_week
from dpi.settings.declaration import Setting
from dpi.settings.quality import read_quality
from dpi.store import open_store
from dpi.verification import verify

ANNEXES = ("review", "dpia", "notice", "receipt")
"""Pages in Markdown that are made of options and the chain."""
KINDS = ("page", "registry", *ANNEXES)


def report(
    store: StoreArgument,
    out: Annotated[
        Path | None, Setting("FILE", "The page; the store's name with .html unless given.", short="-o")
    ] = None,
    kind: Annotated[
        str, Setting("KIND", "page, registry (YAML); review, dpia, notice, receipt (Markdown).", name="as")
    ] = "page",
    about: Annotated[Path | None, Setting("FILE", "For registry: TOML file with what the store does not know.")] = None,
    begin: Begin = None,
    end: End = None,
    stream: StreamName = None,
    title: Annotated[str | None, Setting("TEXT", "Title of the page; the store's name unless given.")] = None,
    public_key: PublicKey = None,
    values: Annotated[
        list[str] | None,
        Setting("VALUE,…", "Draw these (a product: PART=VALUE,…), or top:K, the K largest. May be repeated."),
    ] = None,
    quality: Rules = None,
    json: Json = False,
) -> None:
    """Write a self-contained HTML page: shares over time with their uncertainty, the budget, the certificate.

    It is made of releases only, so it may be given to anybody. The chain is verified on the way; if something is wrong
    with it, the page says so and the exit code is 1. Where the domain has changed, rows are those of the newest slot
    and blank in slots that have no such values; `--values` that are in an earlier domain alone end the page with it.
    --quality has rules of what is shown (see `dpi table`): a number that is not good enough has a reason in its place.

    With --as registry it prints an entry of tier 3 for the registry of deployments of differential privacy, as
    opendp/deployments-registry-data has it; with --as review, answers to the questions of the W3C note and of NIST SP
    800-226. --as dpia is an annex to a data protection impact assessment, --as notice wording for users, and --as
    receipt what is gone and what is kept, for a person who asked for erasure. All are made of options and the chain
    alone; --out writes them to a new file. What no program knows is left to the curator.

    Examples:
      dpi report visits.db
      dpi report visits.db -o visits.html --title "Visits by country"
      dpi report visits.db --values DE,FR,elsewhere
      dpi report visits.db --quality points=10,percent=50
      dpi report visits.db --from 2026-01-01 --to 2026-02-01
      dpi report pairs.db --values country=DE,FR --values age=30,50
      dpi report visits.db --as registry --about about.toml -o visits.yaml
      dpi report visits.db --as review -o review.md
      dpi report visits.db --as dpia -o dpia.md
      dpi report visits.db --as receipt -o receipt.md
    """
    if kind not in KINDS:
        raise OptionError(f"`--as` must be one of {', '.join(KINDS)}. Got {kind!r}.")
    if kind != "page":
        if quality is not None:
            raise OptionError("`quality` is for the page.")
        _describe(store, kind, about, out, stream, json)
        return
    if about is not None:
        raise OptionError("`--about` is for `--as registry`.")
    if out is not None and out.suffix not in (".html", ".htm"):
        raise OptionError(f"`--out` must end in .html. Got {str(out)!r}.")
    with open_store(store, read_only=True) as opened:
        target = out or Path(Path(store).stem + ".html")
        stored = Releases(opened, stream).between(begin, end)
        if not len(stored) and (begin is not None or end is not None):
            raise OptionError("no slot that begins from `--from` on and before `--to` was released.")
        stored = stored.under(read_quality(quality))
        problems = write_page(stored, target, title or Path(store).stem, public_key, _drawn(values))
    answer(json, {"page": str(target), "problems": problems}, f"Look at {target}.")
    if problems:
        note(*([] if json else problems))
        raise typer.Exit(FOUND)


def _drawn(values: list[str] | None) -> int | list[str] | None:
    """Return the values that are drawn, or how many of the largest."""
    largest = [text.removeprefix("top:") for text in values or () if text.startswith("top:")]
    if not largest:
        return values
    if len(values or ()) > 1 or not largest[0].isdecimal() or int(largest[0]) < 1:
        raise OptionError(f"`--values` must be values, or top:K with a whole number above 0. Got {values}.")
    return int(largest[0])


def write_page(
    stored: Releases, target: Path, title: str, public_key: Path | None, drawn: int | list[str] | None = None
) -> list[str]:
    """Write the page with the values that are drawn, or as many of the largest; return what a verification found."""
    from dpi.report import Status, page, write

    verification = verify(stored.store, verifier=None if public_key is None else Verifier.open(public_key))
    releases, values = _choose(list(stored), drawn)
    status = Status(
        entries=verification.entries,
        head=verification.head,
        chain_intact=verification.intact,
        signed=verification.signed,
        streams=len(verification.spent),
        spent=verification.spent_by_all,
        problems=verification.problems,
    )
    check_folder(target, "--out")
    rules = stored.quality
    week = slots_of_week(stored.options.slots) if rules is not None and rules.week else None
    write(target, page(releases, title=title, verification=status, values=values, quality=rules, week=week))
    return list(verification.problems)


def _choose(releases: list[Release], drawn: int | list[str] | None) -> tuple[list[Release], Values | None]:
    """Return the releases up to the last one whose domain has all values that are drawn, and these; note where."""
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


def _describe(store: str, kind: str, about: Path | None, out: Path | None, stream: str | None, json: bool) -> None:
    """Print, or write to a new file, what a stream says of itself to a public registry or to a reviewer."""
    from dpi.report.deployment import describe_deployment, write_annex
    from dpi.report.registry import SCHEMA, make_entry, read_about, to_yaml

    if kind in ANNEXES and (about is not None or json):
        raise OptionError(f"`--as {kind}` is Markdown, and takes neither `--about` nor `--json`.")
    said = {} if about is None else read_about(about)
    with open_store(store, read_only=True) as opened, opened.snapshot():
        deployment = describe_deployment(opened, stream_named(opened, stream))
    if kind in ANNEXES:
        text = write_annex(deployment, kind)
    elif json:
        document(make_entry(deployment, said))
        return
    else:
        text = f"# opendp/deployments-registry-data, schema of commit {SCHEMA}\n{to_yaml(make_entry(deployment, said))}"
    if out is None:
        print(text, end="")
        return
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise OptionError(f"{out} exists already; it is not replaced.") from None
    except OSError as error:
        raise StoreError(f"{out} cannot be written: {error.strerror}.") from None
    note(f"{out} is made of public things alone; read it before it is published.")
