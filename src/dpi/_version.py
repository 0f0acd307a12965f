"""Which program this is: its version, which the certificate of every release states, and how its extras are had."""

from __future__ import annotations

__version__ = "0.2.0"

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


def load_plugin(group: str, name: str, package: str) -> object:
    """Return what a further package offers under a name in a group of entry points, or say how to install it."""
    from importlib.metadata import entry_points

    from dpi.errors import OptionError

    for entry in entry_points(group=group, name=name):
        return entry.load()
    raise OptionError(
        f"`{name}` is in the package {DISTRIBUTION}-{package}: install that, or packages/{package} of a checkout."
    )
