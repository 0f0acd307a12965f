"""The commands, by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated

import typer

from dpi._version import __version__
from dpi.cli import config
from dpi.cli.audit import audit
from dpi.cli.compare import compare
from dpi.cli.demo import demo
from dpi.cli.domain import domain
from dpi.cli.ending import plainly
from dpi.cli.keys import keys
from dpi.cli.ledger import ledger
from dpi.cli.plan import plan
from dpi.cli.query import query
from dpi.cli.report import report
from dpi.cli.reproduce import reproduce
from dpi.cli.run import run
from dpi.cli.verify import verify
from dpi.cli.watch import watch

COMMANDS = (demo, plan, domain, run, query, report, watch, verify, ledger, keys, audit, compare, reproduce)

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,  # a traceback may show rows
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"dpi {__version__}")
        raise typer.Exit


@app.callback()
def dpi(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Statistics of a stream of user events, slot after slot, with a total privacy loss of at most ε per user.

    Begin with `dpi demo`. Every command's --help has examples.
    """


def _help(command: Callable[..., None]) -> str:
    """The docstring, with its paragraphs as single lines and its examples as they are written."""
    text, _, examples = (inspect.getdoc(command) or "").partition("Examples:\n")
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n") if paragraph.strip()]
    return "\n\n".join([*paragraphs, f"\b\nExamples:\n{examples}"])


for command in COMMANDS:
    config.register(command.__name__, command)
    app.command(command.__name__, help=_help(command))(plainly(command))
