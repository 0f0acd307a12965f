"""`[alerts]` of `dpi.toml`: who is told, how, and from which lag, silence or dryness on.

Public, but for the names of files that hold secrets.
Hooks of analysts and of curators are listed apart, and made into different things (`Analysts`, `Curators`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from urllib.parse import urlsplit

from dpi.errors import OptionError, StateError, meant
from dpi.events.slots import duration
from dpi.files import private
from dpi.service.silence import SILENT

LOOPBACK = ("127.0.0.1", "::1", "localhost")
_HOOKS = ("analysts", "curators")
_PLAIN = ("folder", "lag", "silence", "dry", "detector", "window", "share", "level")
_SMTP = ("host", "port", "from", "starttls", "user", "password-file", "ca-file")
_HOOK = ("webhook", "secret-file", "mail")


@dataclass(frozen=True)
class WebhookAddress:
    """Where a webhook is, and the file of its secret."""

    url: str
    secret_file: Path


@dataclass(frozen=True)
class MailAddresses:
    """Who gets mail."""

    to: tuple[str, ...]


HookAddress = WebhookAddress | MailAddresses


@dataclass(frozen=True, kw_only=True)
class MailServer:
    """The server that mail is handed to."""

    host: str
    sender: str
    port: int = 587
    starttls: bool = True
    user: str | None = None
    password_file: Path | None = None
    ca_file: Path | None = None


@dataclass(frozen=True, kw_only=True)
class AlertConfig:
    """All of it."""

    analysts: tuple[HookAddress, ...] = ()
    curators: tuple[HookAddress, ...] = ()
    smtp: MailServer | None = None
    folder: Path | None = None
    """Where messages wait; `alerts` beside the tokens unless given."""
    lag: float = 300.0
    """Seconds."""
    silence: int = SILENT
    """Whole slots without a batch."""
    dry: float = 0.5
    watch: Mapping[str, object] = field(default_factory=dict)
    """Options of `dpi.apps.Watch`."""


def alerts_of(path: Path) -> AlertConfig | None:
    """The alerts that a `dpi.toml` states, or None; files are looked for beside it."""
    content = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    table = content.get("alerts")
    if table is None:
        return None
    try:
        return _read(table, path.parent)
    except OptionError as error:
        raise OptionError(f"[alerts] of {path}: {error}") from None


def _read(table: object, folder: Path) -> AlertConfig:
    if not isinstance(table, dict):
        raise OptionError("it must be a table.")
    _known(table, (*_PLAIN, "smtp", *_HOOKS), "key")
    smtp = None if "smtp" not in table else _smtp(table["smtp"], folder)
    hooks = {name: tuple(_hook(each, folder, smtp) for each in _list(table, name)) for name in _HOOKS}
    watch = {
        name: float(value) if isinstance(value := table[name], Decimal) else value
        for name in ("detector", "window", "share", "level")
        if name in table
    }
    _check_watch(watch)
    lag = duration(_text(table, "lag", "5m"), "lag") / 1e6
    dry = table.get("dry", Decimal("0.5"))
    if isinstance(dry, bool) or not isinstance(dry, int | Decimal) or not 0 < dry <= 1:
        raise OptionError(f"`dry` must be a number above 0 and at most 1. Got {dry!r}.")
    silence = table.get("silence", SILENT)
    if isinstance(silence, bool) or not isinstance(silence, int) or silence < 1:
        raise OptionError(f"`silence` must be a whole number of slots, at least 1. Got {silence!r}.")
    where = table.get("folder")
    return AlertConfig(
        smtp=smtp, lag=lag, silence=silence, dry=float(dry), watch=watch, **hooks,
        folder=None if where is None else folder / _text(table, "folder", ""),
    )  # fmt: skip


def _check_watch(given: dict[str, object]) -> None:
    from dpi.apps import Watch

    try:
        Watch(**given)  # type: ignore[arg-type]
    except TypeError:
        raise OptionError("`detector`, `window`, `share` and `level` are as `dpi watch` has them.") from None


def _hook(table: object, folder: Path, smtp: MailServer | None) -> HookAddress:
    if not isinstance(table, dict):
        raise OptionError("a hook is a table with `webhook` or `mail`.")
    _known(table, _HOOK, "hook")
    if ("webhook" in table) == ("mail" in table):
        raise OptionError("a hook has either `webhook` or `mail`.")
    if "webhook" in table:
        return _webhook(table, folder)
    if smtp is None:
        raise OptionError("`mail` needs a server: say it in [alerts.smtp].")
    listed = _list(table, "mail")
    to = tuple(each for each in listed if isinstance(each, str) and _is_address(each))
    if not to or len(to) < len(listed):
        raise OptionError("`mail` must be a list of addresses such as ada@example.org.")
    return MailAddresses(to)


def _webhook(table: Mapping[str, object], folder: Path) -> WebhookAddress:
    url = _text(table, "webhook", "")
    parts = urlsplit(url)
    plain = parts.scheme == "http" and parts.hostname in LOOPBACK
    if not parts.hostname or not (parts.scheme == "https" or plain):
        raise OptionError("`webhook` must be an address of https, or of http on this machine.")
    if "secret-file" not in table:
        raise OptionError("a `webhook` needs a `secret-file`, with which messages are signed.")
    return WebhookAddress(url, folder / _text(table, "secret-file", ""))


def _smtp(table: object, folder: Path) -> MailServer:
    if not isinstance(table, dict):
        raise OptionError("`smtp` must be a table.")
    _known(table, _SMTP, "key")
    missing = [name for name in ("host", "from") if name not in table]
    if missing:
        raise OptionError(f"[alerts.smtp] needs `{'` and `'.join(missing)}`.")
    host, sender, port = _text(table, "host", ""), _text(table, "from", ""), table.get("port", 587)
    starttls = table.get("starttls", True)
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
        raise OptionError(f"`port` must be from 1 to 65535. Got {port!r}.")
    if not isinstance(starttls, bool) or (not starttls and host not in LOOPBACK):
        raise OptionError("`starttls` is true, or false for a server on this machine.")
    if not _is_address(sender):
        raise OptionError("`from` must be an address such as dpi@example.org.")
    if ("user" in table) != ("password-file" in table):
        raise OptionError("`user` and `password-file` belong together.")
    files = {name: folder / _text(table, name, "") for name in ("password-file", "ca-file") if name in table}
    return MailServer(
        host=host, sender=sender, port=port, starttls=starttls, user=_text(table, "user", "") or None,
        password_file=files.get("password-file"), ca_file=files.get("ca-file"),
    )  # fmt: skip


def secret(path: Path) -> bytes:
    """What a secret's file holds, without the line's end; refuses one that is missing, empty or open to others."""
    try:
        found = private.read(path).strip()
    except OSError as error:
        raise OptionError(f"the secret {path} cannot be read: {error.strerror}.") from None
    if not found:
        raise StateError(f"the secret {path} is empty.")
    return found


def _known(table: Mapping[str, object], known: tuple[str, ...], what: str) -> None:
    for name in table:
        if name not in known:
            raise OptionError(f"unknown {what} `{name}`{meant(name, known)}")


def _text(table: Mapping[str, object], name: str, default: str) -> str:
    value = table.get(name, default)
    if not isinstance(value, str):
        raise OptionError(f"`{name}` must be a text in quotes.")
    return value


def _list(table: Mapping[str, object], name: str) -> list[object]:
    value = table.get(name, [])
    if not isinstance(value, list):
        raise OptionError(f"`{name}` must be a list.")
    return value


def _is_address(text: str) -> bool:
    if any(each.isspace() or each in "<>,;\r\n" for each in text):
        return False
    name, _, host = text.partition("@")
    return bool(name) and bool(host) and "@" not in host
