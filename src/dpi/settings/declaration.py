"""How an option is declared: once, with its name, kind, default and help.

A command's parameter, or a field of a dataclass that holds several options, is annotated with a `Setting`. Flags and
help texts, the keys of `dpi.toml` and of a request's body, and the checks of their values are made of that. Knows no
option by itself.
"""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass, replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from types import NoneType
from typing import Annotated, get_args, get_origin, get_type_hints

from dpi.errors import OptionError, meant

Table = Mapping[str, object]
"""Options by name, as TOML or JSON has them."""
EVENTS, CLOCK, PRIVACY, STORE, OUTPUT = "Events", "Period and clock", "Privacy", "Store", "Output"
"""Under which headings a long help has its options."""


@dataclass(frozen=True)
class Setting:
    """What people are told of an option."""

    metavar: str
    help: str
    panel: str | None = None
    """The heading under which a long help has it."""
    name: str | None = None
    """As people write it; the name in Python with dashes unless given."""
    short: str | None = None
    """A flag of one letter."""
    argument: bool = False
    """Whether a command line has it by its place, without a name."""
    flag: bool = True
    """Whether a command has a flag for it; `dpi.toml` and `--config KEY=VALUE` know it all the same."""


@dataclass(frozen=True)
class Flags:
    """Which options of a group have a flag in a command, in one text."""

    names: str


@dataclass(frozen=True)
class Declared:
    """One option: its name, where its value goes, and of which kind it is."""

    name: str
    field: str
    kind: type
    many: bool
    default: object
    """`inspect.Parameter.empty` if it is required."""
    setting: Setting
    group: str | None = None
    """The parameter that holds it together with others."""
    flag: bool = True

    def read(self, value: object) -> object:
        """Return a value of TOML or JSON as one of the option's kind, or raise `OptionError`."""
        if self.many:
            return [self._read_one(each) for each in (value if isinstance(value, list) else [value])]
        return self._read_one(value)

    def _read_one(self, value: object) -> object:
        types, words = _ACCEPTED[self.kind]
        if not isinstance(value, types) or (isinstance(value, bool) and self.kind is not bool):
            raise OptionError(f"`{self.name}` must be {words}. Got {value!r}.")
        return value.isoformat() if isinstance(value, date) else self.kind(value)


_ACCEPTED: Mapping[type, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float, Decimal), "a number"),
    Path: ((str, Path), "a path in quotes"),
    str: ((str, int, float, Decimal, date), "a text in quotes, or a number"),
}


def find_settings(thing: Callable[..., object]) -> dict[str, Declared]:
    """Return the options of a command or of a dataclass, by the names that people write."""
    options: dict[str, Declared] = {}
    for name, (kind, note, default) in _annotated(thing).items():
        if isinstance(note, Setting):
            written = note.name or name.replace("_", "-")
            options[written] = Declared(written, name, *_kind(kind), default, note, flag=note.flag)
        elif isinstance(kind, type) and is_dataclass(kind):
            for each in find_settings(kind).values():
                flag = not isinstance(note, Flags) or each.name in note.names.split()
                options[each.name] = replace(each, group=name, flag=flag)
    return options


def find_groups(command: Callable[..., object]) -> dict[str, type]:
    """Return the dataclasses that hold several options of a command, by parameter."""
    hints = _annotated(command).items()
    return {name: kind for name, (kind, _, _) in hints if isinstance(kind, type) and is_dataclass(kind)}


def _annotated(thing: Callable[..., object]) -> dict[str, tuple[object, object, object]]:
    """Return the type, the note beside it and the default of each parameter."""
    hints = get_type_hints(thing, include_extras=True)
    return {
        name: (
            *(get_args(hints[name])[:2] if get_origin(hints[name]) is Annotated else (hints[name], None)),
            each.default,
        )
        for name, each in inspect.signature(thing).parameters.items()
    }


def _kind(hint: object) -> tuple[type, bool]:
    """Return what an option is one of, and whether it may be said several times."""
    one = next((each for each in get_args(hint) if each is not NoneType), hint) if NoneType in get_args(hint) else hint
    many = get_origin(one) is list
    kind = get_args(one)[0] if many else one
    assert isinstance(kind, type)  # noqa: S101 - options are of the kinds above
    return kind, many


def read_table(known: Mapping[str, Declared], table: Table, where: str = "") -> dict[str, object]:
    """Return the values of a table by option, each of its kind; refuse a key that is not known."""
    for key in table:
        if key not in known:
            raise OptionError(f"unknown {f'key `{key}` in {where}' if where else f'option `{key}`'}{meant(key, known)}")
    return {key: known[key].read(value) for key, value in table.items()}


def read_value(text: str) -> object:
    """Return the value that a command line's `KEY=VALUE` states: as TOML has it, or the text itself.

    >>> read_value("0.5"), read_value("true"), read_value("rba:1e8")
    (Decimal('0.5'), True, 'rba:1e8')
    """
    try:
        return tomllib.loads(f"value = {text}", parse_float=Decimal)["value"]
    except tomllib.TOMLDecodeError:
        return text


def read_toml(path: Path) -> dict[str, object]:
    """Return what a file in TOML says, numbers as they are written; refuse one that cannot be read or is no TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    except OSError as error:
        raise OptionError(f"the configuration {path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"the configuration {path} is not TOML: {error}.") from None
