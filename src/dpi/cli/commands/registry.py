"""`dpi registry`: what a stream says of itself to a public registry, or to somebody who reviews it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpi.cli.config import Config
from dpi.cli.options import Json, StoreArgument, StreamName
from dpi.cli.output import document, note
from dpi.errors import OptionError, StoreError
from dpi.reader import stream_named
from dpi.report.deployment import describe_deployment
from dpi.report.registry import SCHEMA, make_entry, read_about, to_yaml
from dpi.report.review import write_review
from dpi.store import open_store


def registry(
    store: StoreArgument,
    about: Annotated[
        Path | None,
        typer.Option("--about", metavar="FILE", help="TOML with what the store does not know, such as intended_use."),
    ] = None,
    review: Annotated[
        bool, typer.Option("--review", help="Instead: answers for reviewers, in Markdown; needs no --about.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="A new file; printed unless given.")
    ] = None,
    stream: StreamName = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Write an entry for the registry of deployments of differential privacy, from a store and a few words.

    It is of tier 3, in YAML, as opendp/deployments-registry-data has it. Only public things are read: options, and the
    chain. With --review, the questions of the W3C note and of NIST SP 800-226 are answered for the stream.

    Examples:
      dpi registry visits.db --about about.toml -o visits.yaml
      dpi registry visits.db --review -o review.md
    """
    if review and (about is not None or json):
        raise OptionError("`--review` is Markdown, and takes neither `--about` nor `--json`.")
    said = {} if about is None else read_about(about)
    with open_store(store, read_only=True) as opened, opened.snapshot():
        found = describe_deployment(opened, stream_named(opened, stream))
    if review:
        text = write_review(found)
    else:
        made = make_entry(found, said)
        if json:
            document(made)
            return
        text = f"# opendp/deployments-registry-data, schema of commit {SCHEMA}\n{to_yaml(made)}"
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
