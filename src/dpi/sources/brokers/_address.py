"""Addresses of brokers: `kafka://host:9092/topic`. Public, but for the password, which is never shown."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from urllib.parse import parse_qsl, unquote, urlsplit

from dpi._version import how_to_install
from dpi.errors import OptionError

PASSWORD = "DPI_BROKER_PASSWORD"  # noqa: S105 - where it is looked for
"""The environment variable in which a password may stand."""


@dataclass(frozen=True)
class Address:
    """Where a broker is, and what of it is read."""

    scheme: str
    hosts: str
    """One host, or several with commas between them, each with its port if that is not the usual one."""
    name: str
    """The topic, stream, key or database."""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def shown(self) -> str:
        """The address without who asks."""
        return f"{self.scheme}://{self.hosts}/{self.name}"

    def host(self, port: int) -> tuple[str, int]:
        """Return the one host and its port, or the usual one."""
        if "," in self.hosts:
            raise OptionError(f"an address {self.scheme}:// names one host. Got {self.shown!r}.")
        host, _, said = self.hosts.rpartition(":")
        if not said.isdigit():
            host, said = self.hosts, str(port)
        return host.strip("[]") or "localhost", int(said)

    def check(self, options: Collection[str] | None, named: str) -> None:
        """Refuse an address that names nothing to read, or has an option that such a broker has not."""
        if options is None:
            return
        if not self.name:
            raise OptionError(f"the address must name the {named}, as in {self.scheme}://host/{named}.")
        for option in self.options:
            if option not in options:
                known = ", ".join(options) or "none"
                raise OptionError(f"{option!r} is no option of a {self.scheme}:// address. Options are: {known}.")

    def flag(self, option: str) -> bool:
        """Return whether an option says yes."""
        said = self.options.get(option, "false").lower()
        if said not in ("true", "false"):
            raise OptionError(f"`{option}` of an address must be true or false.")
        return said == "true"


def parse_address(text: str, schemes: Collection[str], password_file: str | os.PathLike[str] | None = None) -> Address:
    """Return an address, with the password in its file, in itself or in the environment, in this order.

    >>> parse_address("redis://ada:secret@localhost:6379/visits?tls=true", ["redis"]).shown
    'redis://localhost:6379/visits'
    """
    scheme, separator, _ = text.partition("://")
    if not separator or scheme not in schemes:
        known = ", ".join(f"{each}://" for each in sorted(schemes))
        raise OptionError(f"the address of a broker must begin with one of {known}.")
    split = urlsplit(text)
    who, _, hosts = split.netloc.rpartition("@")
    user, _, password = who.partition(":")
    address = Address(
        scheme,
        hosts,
        unquote(split.path.removeprefix("/")),
        unquote(user) or None,
        unquote(password) or os.environ.get(PASSWORD) or None,
        dict(parse_qsl(split.query, keep_blank_values=True)),
    )
    if password_file is None:
        return address
    try:
        return replace(address, password=Path(password_file).read_text(encoding="utf-8").strip())
    except OSError as error:
        raise OptionError(f"the password file {os.fspath(password_file)!r} cannot be read: {error.strerror}.") from None


def load_client(module: str, extra: str) -> ModuleType:
    """Return the library that speaks with a broker, or raise a sentence that says how to get it."""
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise OptionError(f"this source needs a library that is not installed: {how_to_install(extra)}.") from None
