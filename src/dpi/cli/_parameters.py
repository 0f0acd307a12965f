"""The parameters of a command: its flags, and what `--config` adds, made of the options that it declares.

`--config` names a TOML file with a table for each command, or one option as KEY=VALUE; options without a flag are set
so. A file is read only if it is named, and what the command line says wins. A key that no command knows, or a value of
another kind, is refused before anything else is looked at.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import cache
from keyword import iskeyword
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from typer.core import TyperCommand
from typer.main import get_command

from dpi.cli._errors import USAGE, Failure, exit_on_error
from dpi.cli.commands import COMMANDS, SUBCOMMANDS, Command, function
from dpi.errors import OptionError, meant
from dpi.settings.declaration import Declared, find_groups, find_settings, read_table, read_toml, read_value

_WRITTEN = {"start": "from", "end": "to"}
"""Options that people write by another name; one that is true unless it is denied has `not-` before its own."""
_BY_HAND = {"streams", "alerts"}
"""Tables of a file that `serve` reads itself, as it does [serve.oidc]."""


@cache
def options_of(name: str) -> Mapping[str, Declared]:
    """Return the options of a command by their names, those without a flag among them."""
    return find_settings(function(name))


@cache
def make_command(name: str) -> TyperCommand:
    """Return a command with its flags and its help."""
    command, known = function(name), options_of(name)
    groups = find_groups(command)

    def run(context: typer.Context, **given: object) -> None:
        said: Mapping[str, object] = context.meta.get(__name__, {})
        values: dict[str, dict[str, object]] = {group: {} for group in groups}
        alone: dict[str, object] = {}
        for each in known.values():
            into = alone if each.group is None else values[each.group]
            into[each.field] = given[_identifier(each)] if each.flag else said.get(each.name, each.default)
        command(**alone, **{group: kind(**values[group]) for group, kind in groups.items()})

    flags = [_parameter(name, each) for each in known.values() if each.flag]
    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    run.__signature__ = inspect.Signature([context, *flags])  # type: ignore[attr-defined] # what typer reads
    run.__annotations__ = {each.name: each.annotation for each in (context, *flags)}
    alone = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
    alone.command(name, help=_help(command))(exit_on_error(run, lambda option: _spell(known, option)))
    made = get_command(alone)
    assert isinstance(made, TyperCommand)  # noqa: S101 - a program of one command is that command
    return made


def _identifier(each: Declared) -> str:
    """Return the name of an option's parameter."""
    name = each.name.replace("-", "_")
    return f"{name}_" if iskeyword(name) or name == "context" else name


def _parameter(command: str, each: Declared) -> inspect.Parameter:
    """Return a flag or an argument as a parameter that typer understands."""
    setting, one = each.setting, each.kind
    more: dict[str, object] = {"metavar": setting.metavar or None, "help": _literal(setting.help)}
    if each.name == "config":  # typer would take KEY=VALUE for a path
        one, more = str, {**more, "is_eager": True, "callback": _configure(command)}
    if setting.panel:
        more["rich_help_panel"] = setting.panel
    kind: object = list[one] if each.many else one  # type: ignore[valid-type]
    if each.default is None:
        kind = kind | None  # type: ignore[operator] # a type
    if setting.argument:
        note: object = typer.Argument(show_default=False, **more)  # type: ignore[arg-type]
    else:
        note = typer.Option(f"--{each.name}", *filter(None, [setting.short]), **more)  # type: ignore[arg-type]
    return inspect.Parameter(
        _identifier(each), inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=Annotated[kind, note]
    )


def _configure(command: str) -> Callable[[typer.Context, list[str] | None], list[Path]]:
    """Return what `--config` does: values become the defaults of the command."""

    def use(context: typer.Context, texts: list[str] | None) -> list[Path]:
        files, values, known = list[Path](), dict[str, object](), options_of(command)
        try:
            for text in () if context.resilient_parsing else texts or ():
                key, sign, value = text.partition("=")
                if not sign or Path(text).exists():
                    files.append(Path(text))
                    values |= _read_file(Path(text), command)
                    continue
                plain = value if key in known and known[key].kind in (str, Path) else read_value(value)
                (said,) = read_table(known, {key: plain}, f"the options of `dpi {command}`").values()
                values[key] = [*values.get(key, []), *said] if isinstance(said, list) else said  # type: ignore[misc]
        except OptionError as error:
            raise Failure(str(error), USAGE) from None
        context.default_map = {_identifier(known[key]): _plain(value) for key, value in values.items()}
        context.meta[__name__] = values
        return files

    return use


def _plain(value: object) -> object:
    """Return a value as a command line would say it."""
    return (
        value if isinstance(value, bool) else [str(each) for each in value] if isinstance(value, list) else str(value)
    )


def _read_file(path: Path, command: str) -> dict[str, object]:
    """Return the options of one command; the whole file is checked."""
    values: dict[str, dict[str, object]] = {}
    known = (*COMMANDS, *SUBCOMMANDS)
    for name, table in read_toml(path).items():
        if not isinstance(table, dict):
            raise OptionError(f"`{name}` in {path} must stand in the table of a command, such as [run].")
        if name in _BY_HAND:
            continue
        if name not in known:
            raise OptionError(f"unknown table [{name}] in {path}{meant(name, known)}")
        said = {key: value for key, value in table.items() if (name, key) != ("serve", "oidc")}
        values[name] = read_table(options_of(name), said, f"[{name}] of {path}")
    return values.get(command, {})


def _spell(known: Mapping[str, Declared], option: str) -> str | None:
    """Return an option that an error names as this command writes it; None if it has no such option."""
    name = option.replace("_", "-")
    spelling = next((each for each in (name, f"not-{name}", _WRITTEN.get(option)) if each in known), None)
    flag = spelling is not None and known[spelling].flag and not known[spelling].setting.argument
    return f"--{spelling}" if flag else spelling


def _help(command: Command) -> str:
    """Return the docstring, with its paragraphs as single lines and its examples as they are written."""
    text, _, examples = (inspect.getdoc(command) or "").partition("Examples:\n")
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n") if paragraph.strip()]
    return _literal("\n\n".join([*paragraphs, f"\b\nExamples:\n{examples}"]))


def _literal(text: str) -> str:
    """Return a text so that it is shown as it is written.

    Rich would take 0:100:10 for a picture between two numbers, and would show nothing of [serve].

    >>> from rich.text import Text
    >>> Text.from_markup("0:100:10 [serve]").plain == "0:100:10 ", Text.from_markup(_literal("0:100:10 [serve]")).plain
    (False, '0:100:10 [serve]')
    """
    return re.sub(r"(?<=\w):(?=\w)", "[none]:[/none]", escape(text))
