"""The program: the list of commands, and what is said of a call that is wrong."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from dpi._version import __version__
from dpi.cli._errors import USAGE, Failure, usage_failure
from dpi.cli._parameters import make_command
from dpi.cli.commands import COMMANDS, SUBCOMMANDS
from dpi.errors import OptionError

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter


class Program(TyperGroup):
    """All commands; why one fails, or what is wrong with how it was called, is told in one line."""

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
        as_json = "--json" in (sys.argv[1:] if args is None else args)
        try:
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except Failure as failure:
            code = failure.tell(as_json=as_json)
        except typer.TyperException as error:
            wrong = usage_failure(error)
            code = error.exit_code if wrong is None else wrong.tell(as_json=as_json)
        sys.exit(code or 0)

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Print the list of commands as typer would, without what only other helps need: that takes as long again."""
        console = Console(highlight=False)
        console.print("", Text(f" {self.get_usage(ctx)}", style="bold"), "", sep="\n")
        for paragraph in str(self.help).split("\n\n"):
            console.print(Padding(Text(" ".join(paragraph.split())), (0, 1, 1, 1)))
        options = [record for each in self.get_params(ctx) if (record := each.get_help_record(ctx))]
        commands = [(name, str(each.help)) for name, each in self.commands.items()]
        for title, rows in (("Options", options), ("Commands", commands)):
            grid = Table.grid(padding=(0, 2, 0, 0))
            grid.add_column(style="bold cyan", no_wrap=True)
            for name, says in rows:
                grid.add_row(name, Text(says))
            console.print(Panel(grid, title=title, title_align="left", border_style="dim"))


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
            raise Failure(str(error), USAGE) from None
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
    """Publish what share of your users did what, every hour or day, with differential privacy: one budget ε per user.

    Begin with `dpi demo`. Every command's --help has examples.
    """


def _listed() -> None:
    """Stands for a command in the list."""


for _name, _sentence in COMMANDS.items():
    app.command(_name, cls=Listed, help=_sentence)(_listed)
