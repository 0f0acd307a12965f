"""The commands, by name. A command's module is loaded when the command is asked for, and no other."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, NoReturn, cast

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

from dpi._version import __version__, load_plugin
from dpi.cli import config
from dpi.cli.ending import USAGE, exit_on_error, fail, usage_error
from dpi.errors import OptionError

if TYPE_CHECKING:
    from typer._click import Context

COMMANDS = {
    "demo": "Release three weeks of a made-up shop, hour by hour; write a store, a report and a picture.",
    "plan": "Say what a budget buys before any data is touched.",
    "domain": "Write a domain file. A domain is public: make it from a public list, or discover it; never copy it from "
    "events.",
    "run": "Release every slot of a public period from files of events, or go on where the store stopped.",
    "query": "Answer a question about one slot, or about every slot of a period, with 95 % intervals.",
    "report": "Write a self-contained HTML page: shares over time with their uncertainty, the budget, the certificate.",
    "registry": "Write an entry for the registry of deployments of differential privacy, from a store and a few words.",
    "watch": "Print alerts: values whose share moved as it hardly ever does, and by more than the noise explains.",
    "verify": "Recompute the chain of certificates and its sums. The exit code is 1 if anything is wrong.",
    "export": "Write releases, certificates, options and domains of a store to a new file that may be handed to "
    "analysts.",
    "backup": "Copy a store to a new file while it is in use. Private: keep it closed, encrypted, and apart from the "
    "key.",
    "restore": "Put a back-up in a place where there is no store. Nobody's budget comes back with it.",
    "compact": "Drop measurements of old slots by a public rule; releases, certificates and accounts stay.",
    "ledger": "Say how much of ε one user has left. Private: it tells whether the user was there.",
    "keys": "Make a pair of Ed25519 keys: the private one, for its owner alone, signs; the public one checks.",
    "serve": "Serve streams over HTTP: events come in, releases go out by the public clock.",
    "token": "Make, list and revoke the tokens of a service. A new one is printed once, or written to --out.",
    "top": "Show how a service or a store does: lag, arrivals, accounts, next closings, releases, budgets.",
    "audit": "Try to refute every claim: all mechanisms, what an analyst can reach, and broken ones that must be "
    "caught.",
    "compare": "Compare systems at an equal guarantee, or as they were published: errors of every slot, and what a "
    "user loses.",
    "reproduce": "Compute the published evaluation again and write one page: what is stated, and what each system "
    "gives.",
}
"""The first sentence of each, as its docstring says it: the list of commands is shown without loading one."""

ELSEWHERE = {"audit": "audit", "compare": "research", "reproduce": "research"}
"""Commands that further packages bring (entry points of the group `dpi.commands`), and which package."""


class Program(TyperGroup):
    """All commands; what is wrong with how one was called is told in one line."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: object,
    ) -> NoReturn:
        """Run a command and exit."""
        try:
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except typer.TyperException as error:
            code = usage_error(error)
        sys.exit(code or 0)


class Listed(TyperCommand):
    """A command that stands in the list by its name and its first sentence, until it is called."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Context | None = None, **extra: object
    ) -> Context:
        """The context of the command itself."""
        try:
            command = _command(str(self.name))
        except OptionError as error:  # its package is missing
            fail(str(error), USAGE)
        return command.make_context(info_name, args, parent, **extra)


app = typer.Typer(
    cls=Program,
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


@cache
def function(name: str) -> Callable[..., None]:
    """What a command does: the function of its name, in the module of its name or in a further package."""
    if name in ELSEWHERE:
        return cast("Callable[..., None]", load_plugin("dpi.commands", name, ELSEWHERE[name]))
    found: Callable[..., None] = getattr(import_module(f"dpi.cli.commands.{name}"), name)
    return found


@cache
def _command(name: str) -> TyperCommand:
    """A command with its options."""
    alone = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
    alone.command(name, help=_help(function(name)))(exit_on_error(function(name), partial(_flags, name)))
    made = get_command(alone)
    assert isinstance(made, TyperCommand)  # noqa: S101 - a program of one command is that command
    for parameter in made.params:
        if isinstance(parameter, TyperOption | TyperArgument) and parameter.help is not None:
            parameter.help = _literal(parameter.help)
    return made


def _flags(name: str) -> set[str]:
    """The options of a command as they are written, with their dashes."""
    return {text for parameter in _command(name).params for text in parameter.opts}


def _help(command: Callable[..., None]) -> str:
    """The docstring, with its paragraphs as single lines and its examples as they are written."""
    text, _, examples = (inspect.getdoc(command) or "").partition("Examples:\n")
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n") if paragraph.strip()]
    return _literal("\n\n".join([*paragraphs, f"\b\nExamples:\n{examples}"]))


def _literal(text: str) -> str:
    """The text as it is written: rich would take 0:100:10 for a picture between two numbers.

    >>> from rich.text import Text
    >>> Text.from_markup("0:100:10").plain == "0:100:10", Text.from_markup(_literal("0:100:10")).plain
    (False, '0:100:10')
    """
    return re.sub(r"(?<=\w):(?=\w)", "[none]:[/none]", text)


def _listed() -> None:
    """Stands for a command in the list."""


for name, sentence in COMMANDS.items():
    config.register(name, partial(function, name))
    app.command(name, cls=Listed, help=sentence)(_listed)
