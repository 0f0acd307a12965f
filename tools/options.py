"""Writes tables of every command's options from their declarations into docs/cli.md, below the command's heading.

    python tools/options.py            # write them (`make reference`)

An option is declared once, with its name, kind, default and help; these tables, `--help` and `dpi.toml` are made of
that. An option that is the same as one of `run` is named only.
"""

from __future__ import annotations

import re
from inspect import Parameter, getdoc
from pathlib import Path

from dpi.cli._parameters import options_of
from dpi.cli.commands import COMMANDS, SUBCOMMANDS, function
from dpi.settings.declaration import Declared

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
MARK = re.compile(r"^<!-- options ([\w ]+) -->\n.*?^<!-- end of options -->$", re.MULTILINE | re.DOTALL)


def page() -> str:
    """Return the page with the tables of today, of every command once."""
    text = PAGE.read_text("utf-8")
    found, known = MARK.findall(text), sorted((*COMMANDS, *SUBCOMMANDS))
    if sorted(found) != known:
        raise SystemExit(f"docs/cli.md must have `<!-- options NAME -->` once for each of {', '.join(known)}.")
    return MARK.sub(lambda mark: f"<!-- options {mark[1]} -->\n\n{section(mark[1])}\n\n<!-- end of options -->", text)


def section(name: str) -> str:
    """Return what a command is for and a table of its options."""
    shown = {each.name: row(each) for each in options_of(name).values() if each.name not in ("json", "config")}
    usual = {row(each) for each in options_of("run").values()} if name != "run" else set()
    own = [line for line in shown.values() if line not in usual]
    shared = [line.split(" | ")[0].removeprefix("| ") for line in shown.values() if line in usual]
    said = (getdoc(function(name)) or "").partition("\n\n")[0]
    parts = [" ".join(said.split())]
    if own:
        parts.append("\n".join(["| option | value | default | meaning |", "|---|---|---|---|", *own]))
    if shared:
        parts.append(f"As in [`run`](#run): {', '.join(shared)}.")
    return "\n\n".join(parts)


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
