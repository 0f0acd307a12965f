"""Writes the reference of every command's options from their declarations: docs/options.md.

    python tools/options.py            # write it (`make reference`)

An option is declared once, with its name, kind, default and help; this page, `--help` and `dpi.toml` are made of that.
"""

from __future__ import annotations

from inspect import Parameter, getdoc
from pathlib import Path

from dpi.cli._parameters import options_of
from dpi.cli.commands import COMMANDS, SUBCOMMANDS, function
from dpi.settings.declaration import Declared

PAGE = Path(__file__).resolve().parent.parent / "docs" / "options.md"
HEAD = """# Options of every command

Each table lists the options of one command. An option with dashes is a flag. An option without dashes is a line of
`dpi.toml`, or `--config KEY=VALUE` ([how](cli.md#dpitoml)). `make reference` writes this page from the program.
"""


def page() -> str:
    """Return the page: a section for each command."""
    return "\n".join([HEAD, *(section(name) for name in sorted((*COMMANDS, *SUBCOMMANDS)))])


def section(name: str) -> str:
    """Return a command with what it is for and a table of its options."""
    rows = [row(each) for each in options_of(name).values() if each.name not in ("json", "config")]
    table = ["| option | value | default | meaning |", "|---|---|---|---|", *rows]
    said = (getdoc(function(name)) or "").partition("\n\n")[0]
    return "\n".join([f"## {name}", "", said, "", *table, ""])


def row(each: Declared) -> str:
    """Return a row of the table."""
    setting = each.setting
    plain = setting.metavar.strip("[].") if setting.argument else each.name
    spelt = plain if setting.argument or not each.flag else f"--{each.name}"
    value = "" if setting.argument or each.kind is bool else setting.metavar
    empty = each.default is None or each.default is False or each.default == ""
    default = "required" if each.default is Parameter.empty else "" if empty else f"`{each.default}`"
    cells = [f"`{spelt}`", value, default, setting.help]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
