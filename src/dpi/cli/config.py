"""`dpi.toml`: whatever a command line can say, under a table of the command's name.

Read only if `--config` names it. A key is an option's name without its dashes, or an argument's name. What the command
line says wins. A key that no command knows, or a value of another type, is refused before anything else is looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Annotated, get_args, get_origin, get_type_hints

import typer

from dpi.cli.ending import USAGE, fail
from dpi.errors import OptionError, meant
from dpi.settings.toml import read_toml

Known = dict[str, tuple[str, object]]
"""The parameter and the type of each option of a command, by the option's name without its dashes."""

_commands: dict[str, Callable[[], Callable[..., None]]] = {}


def register(name: str, load: Callable[[], Callable[..., None]]) -> None:
    """Learn of a command; its options are read off its signature when they are asked for."""
    _commands[name] = load


@cache
def known(name: str) -> Known:
    """The options of a command."""
    found: Known = {}
    for parameter, hint in get_type_hints(_commands[name](), include_extras=True).items():
        if get_origin(hint) is Annotated and parameter != "config":
            kind, information = get_args(hint)[:2]
            texts = (information.default, *(information.param_decls or ()))  # in `Annotated` the first is the default
            names = [text.lstrip("-") for text in texts if isinstance(text, str) and text.startswith("-")]
            found[max(names, key=len, default=parameter)] = (parameter, kind)
    return found


def use(context: typer.Context, path: Path | None) -> Path | None:
    """What `--config` does: the file's values become the defaults of the command."""
    if path is not None and not context.resilient_parsing:
        try:
            context.default_map = read(path, str(context.info_name))
        except OptionError as error:
            fail(str(error), USAGE)
    return path


Config = Annotated[
    Path | None,
    typer.Option(
        "--config", is_eager=True, callback=use, metavar="FILE", help="A TOML file with options; see docs/cli.md."
    ),
]


def read(path: Path, command: str) -> dict[str, object]:
    """The options of one command, by parameter; the whole file is checked."""
    values: dict[str, dict[str, object]] = {}
    for name, table in read_toml(path).items():
        if not isinstance(table, dict):
            raise OptionError(f"`{name}` in {path} must stand in the table of a command, such as [run].")
        if name in ("streams", "alerts"):  # of `serve`, which reads them itself
            continue
        if name not in _commands:
            raise OptionError(f"unknown table [{name}] in {path}{meant(name, _commands)}")
        options = known(name)
        table = {key: value for key, value in table.items() if (name, key) != ("serve", "oidc")}  # idem
        for key in table:
            if key not in options:
                raise OptionError(f"unknown key `{key}` in [{name}] of {path}{meant(key, options)}")
        values[name] = {options[key][0]: _value(key, value, options[key][1]) for key, value in table.items()}
    return values.get(command, {})


def _value(key: str, value: object, kind: object) -> object:
    """The value as the command line would say it."""
    kinds = set(get_args(kind)) - {type(None)} if get_origin(kind) is not list else {kind}
    wanted = next(iter(kinds)) if kinds else kind
    if get_origin(wanted) is list:
        return [_value(key, each, get_args(wanted)[0]) for each in (value if isinstance(value, list) else [value])]
    accepted: dict[object, tuple[tuple[type, ...], str]] = {
        bool: ((bool,), "true or false"),
        int: ((int,), "a whole number"),
        float: ((int, Decimal), "a number"),
        Path: ((str,), "a path in quotes"),
    }
    types, words = accepted.get(wanted, ((str, int, Decimal, date), "a text in quotes, or a number"))
    if not isinstance(value, types) or (isinstance(value, bool) and wanted is not bool):
        raise OptionError(f"`{key}` must be {words}. Got {value!r}.")
    return value if isinstance(value, bool) else value.isoformat() if isinstance(value, date) else str(value)
