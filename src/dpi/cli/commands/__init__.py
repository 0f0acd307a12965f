"""The commands, by name. A command's module is loaded when the command is asked for, and no other."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import cast

from dpi._version import load_plugin

Command = Callable[..., None]

COMMANDS = {
    "demo": "Release three weeks of a made-up shop, hour by hour; write a store, a report and a picture.",
    "plan": "Compute the errors to expect, before there are data; or the smallest ε for an error that you want.",
    "domain": "Write a domain file. A domain is public: make it from a public list, or discover it; never copy it from "
    "events.",
    "run": "Release every slot of a public period from files of events, or continue after the last released slot.",
    "query": "Answer a question about one slot, or about every slot of a period, with 95 % intervals.",
    "table": "Print a row for each slot and value, with 95 % intervals; or write these, or synthetic rows, to a file.",
    "report": "Write a self-contained HTML page: shares over time with their uncertainty, the budget, the certificate.",
    "verify": "Recompute the chain of certificates and its sums. The exit code is 1 if anything is wrong.",
    "export": "Write releases, certificates, options and domains of a store to a new file that may be handed to "
    "analysts.",
    "backup": "Copy a store to a new file while it is in use. Private: keep it closed, encrypted, and apart from the "
    "key.",
    "ledger": "Print how much of ε one user has left. Private: it reveals whether the user was active.",
    "keys": "Make a pair of Ed25519 keys: the private one, for its owner alone, signs; the public one checks.",
    "serve": "Serve streams over HTTP: events come in, releases go out by the public clock.",
    "mcp": "Serve releases to agents by the Model Context Protocol, over standard input and output.",
    "audit": "Try to refute the claims of all mechanisms and interfaces; deliberately broken mechanisms must be "
    "detected.",
    "compare": "Compare systems at an equal guarantee, or as they were published: error of every slot, and loss "
    "of a user.",
    "reproduce": "Compute the published evaluation again and write one page: stated results beside those of each "
    "system.",
}
"""The first sentence of each, as its docstring says it: the list of commands is shown without loading one."""

SUBCOMMANDS = (
    *("backup restore", "backup upgrade", "keys cosign", "keys replace", "ledger compact", "serve token", "serve top"),
)
"""Commands that another one's name stands before; the help of that one names them."""

ELSEWHERE = {"audit": "audit", "compare": "research", "reproduce": "research"}
"""Commands that further packages bring (entry points of the group `dpi.commands`), and which package."""


@cache
def function(name: str) -> Command:
    """Return what a command does: the function of its last word, in a module of its name or in a further package."""
    if name in ELSEWHERE:
        return cast("Command", load_plugin("dpi.commands", name, ELSEWHERE[name]))
    homes = {
        "backup restore": "backup",
        "backup upgrade": "backup",
        "keys cosign": "keys",
        "keys replace": "keys",
        "ledger compact": "ledger",
        "serve token": "serve",
    }
    module = homes.get(name, name.split()[-1])
    command: Command = getattr(import_module(f"dpi.cli.commands.{module}"), name.split()[-1])
    return command
