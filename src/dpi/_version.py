"""Which program this is: its version, which the certificate of every release states, and how its extras are had.

Code of a plug-in runs in the process that holds events and keys, with all of its rights: it is trusted as this program
is, and no proof covers it. So `installed_plugins` names all of them, without loading one.
"""

from __future__ import annotations

from typing import NamedTuple

__version__ = "0.3.0"

DISTRIBUTION = "dpi-streams"
"""The name under which pip knows this program; those of its further packages begin with it."""


def how_to_install(extra: str) -> str:
    """Return the command that installs what an extra brings, wherever this program itself came from.

    It names the packages, as this program's own metadata lists them: no index needs to know this program.

    >>> how_to_install("postgres")
    "pip install 'psycopg[binary]>=3.2'"
    """
    import sys
    from importlib import metadata

    try:
        needed = [each.partition(";") for each in metadata.requires(DISTRIBUTION) or []]
    except metadata.PackageNotFoundError:  # run from its source, and never installed
        needed = []
    left_out = f"sys_platform != '{sys.platform}'"
    wanted = [
        package.strip()
        for package, _, marker in (tuple(part.replace('"', "'") for part in each) for each in needed)
        if f"extra == '{extra}'" in marker and left_out not in marker
    ]
    named = " ".join(f"'{package}'" for package in wanted)
    return f"pip install {named}" if wanted else f"install the extra `{extra}`"


PLUGIN_GROUPS = ("dpi.commands", "dpi.executors")
"""The groups of entry points from which further packages are loaded."""


class Plugin(NamedTuple):
    """An entry point that this program may load, and the package that brings it."""

    group: str
    name: str
    distribution: str
    version: str


def installed_plugins() -> list[Plugin]:
    """Return all plug-ins of this installation, also those that another one of the same name keeps from being loaded.

    >>> all(plugin.group in PLUGIN_GROUPS for plugin in installed_plugins())
    True
    """
    from importlib.metadata import entry_points

    entries = [entry for group in PLUGIN_GROUPS for entry in entry_points(group=group)]
    brought = [("", "") if entry.dist is None else (entry.dist.name, entry.dist.version) for entry in entries]
    return sorted(Plugin(entry.group, entry.name, *by) for entry, by in zip(entries, brought, strict=True))


def load_plugin(group: str, name: str, package: str) -> object:
    """Return what a further package offers under a name in a group of entry points, or say how to install it."""
    from importlib.metadata import entry_points

    from dpi.errors import OptionError

    for entry in entry_points(group=group, name=name):
        return entry.load()
    raise OptionError(
        f"`{name}` is in the package {DISTRIBUTION}-{package}: install that, or packages/{package} of a checkout."
    )
