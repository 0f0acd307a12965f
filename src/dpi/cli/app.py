"""The commands, by name. A command's module is loaded when the command is asked for, and no other."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, NoReturn, cast

import typer
from typer.core import TyperCommand, TyperGroup

from dpi._version import __version__, load_plugin
from dpi.cli._errors import USAGE, fail, usage_error
from dpi.cli._parameters import Command, make_command, register
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
    "verify": "Recompute the chain of certificates and its sums. The exit code is 1 if anything is wrong.",
    "export": "Write releases, certificates, options and domains of a store to a new file that may be handed to "
    "analysts.",
    "backup": "Copy a store to a new file while it is in use. Private: keep it closed, encrypted, and apart from the "
    "key.",
    "ledger": "Say how much of ε one user has left. Private: it tells whether the user was there.",
    "keys": "Make a pair of Ed25519 keys: the private one, for its owner alone, signs; the public one checks.",
    "serve": "Serve streams over HTTP: events come in, releases go out by the public clock.",
    "audit": "Try to refute every claim: all mechanisms, what an analyst can reach, and broken ones that must be "
    "caught.",
    "compare": "Compare systems at an equal guarantee, or as they were published: errors of every slot, and what a "
    "user loses.",
    "reproduce": "Compute the published evaluation again and write one page: what is stated, and what each system "
    "gives.",
}
"""The first sentence of each, as its docstring says it: the list of commands is shown without loading one."""

SUBCOMMANDS = ("backup restore", "ledger compact", "serve token", "serve top")
"""Commands that another one's name stands before; the help of that one names them."""

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
        """Return the context of the command itself, or of the one whose name it stands before."""
        name = str(self.name)
        if args and f"{name} {args[0]}" in SUBCOMMANDS:
            name, args = f"{name} {args[0]}", args[1:]
        try:
            command = make_command(name)
        except OptionError as error:  # its package is missing
            fail(str(error), USAGE)
        return command.make_context(name, args, parent, **extra)


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
def function(name: str) -> Command:
    """Return what a command does: the function of its last word, in a module of its name or in a further package."""
    if name in ELSEWHERE:
        return cast("Command", load_plugin("dpi.commands", name, ELSEWHERE[name]))
    homes = {"backup restore": "backup", "export": "backup", "ledger compact": "ledger", "serve token": "serve"}
    module = homes.get(name, name.split()[-1])
    found: Callable[..., None] = getattr(import_module(f"dpi.cli.commands.{module}"), name.split()[-1])
    return found


def _listed() -> None:
    """Stands for a command in the list."""


for _name in (*COMMANDS, *SUBCOMMANDS):
    register(_name, partial(function, _name))
for _name, _sentence in COMMANDS.items():
    app.command(_name, cls=Listed, help=_sentence)(_listed)
