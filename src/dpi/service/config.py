"""What a service is told: `[serve]`, `[alerts]` and `[streams.NAME]` of `dpi.toml`.

Public, but for the names of files that hold secrets. Hooks of analysts and of curators are listed apart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, NamedTuple
from urllib.parse import urlsplit

from dpi import files
from dpi.errors import OptionError, StateError, meant
from dpi.events.slots import Slots, duration
from dpi.release.quality import Quality, slots_of_week
from dpi.service._oidc import LOOPBACK, Issuer, is_url
from dpi.service._receipts import SILENT
from dpi.settings.declaration import STORE, Setting, find_settings, read_toml
from dpi.settings.quality import read_quality
from dpi.settings.rules import read_size
from dpi.settings.streams import StoreSettings, StreamSettings, read_stream_file
from dpi.sources import FollowedEvents, broker

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")  # names of streams that can stand in an address
SHORTEST_SLOT = 1_000_000
"""Microseconds. Closing an empty slot takes 9 ms of computing, and one thread closes those of all streams: a stream
of such slots takes a hundredth of it. A shorter slot would be seen no sooner, for a release waits for its delay."""
NETWORK, LIMITS = "Network", "Limits"  # headings of the command's help
BODY = 16 << 20
"""Bytes of one request at most, as sent and as unpacked, unless something else is said."""
LIVE = ("requests", "of_one_token", "patience", "connections", "body")
"""Limits that a running service takes over when its configuration is read again."""


class WebhookAddress(NamedTuple):
    """Where a webhook is, and the file of its secret."""

    url: str
    secret_file: Path


@dataclass(frozen=True, kw_only=True)
class AlertConfig:
    """Who is told by hooks, and from which lag, silence or dryness on."""

    analysts: tuple[WebhookAddress, ...] = ()
    curators: tuple[WebhookAddress, ...] = ()
    folder: Path | None = None  # where messages wait; `alerts` beside the tokens unless given
    lag: float = 300.0  # seconds
    silence: int = SILENT  # whole slots without a batch
    dry: float = 0.5
    watch: Mapping[str, object] = field(default_factory=dict)  # options of `dpi.apps.Watch`


@dataclass(frozen=True, kw_only=True)
class Config(StoreSettings):
    """The options of a service: `[serve]` of `dpi.toml`, and what its other tables state."""

    tokens: Annotated[Path, Setting("FILE", "File of tokens, as dpi serve token makes it.", NETWORK)] = Path(
        "tokens.json"
    )
    host: Annotated[str, Setting("ADDRESS", "Where to listen.", NETWORK)] = "127.0.0.1"
    port: Annotated[int, Setting("N", "Where to listen.", NETWORK)] = 8321
    certificate: Annotated[Path | None, Setting("FILE", "File for TLS.", NETWORK)] = None
    private_key: Annotated[Path | None, Setting("FILE", "File for TLS.", NETWORK)] = None
    behind_proxy: Annotated[bool, Setting("", "A proxy in front does TLS.", NETWORK)] = False
    delay: Annotated[
        str, Setting("DURATION", "Time between the closing of a slot and the appearance of its release.", LIMITS)
    ] = "1s"
    requests: Annotated[
        int, Setting("N", "Batches that are coming at the same time, and as many that wait for an answer.", LIMITS)
    ] = 512
    """Twice so many times `body` is what they can take of the disk, in $TMPDIR; in memory they share 256 MiB."""
    of_one_token: Annotated[int, Setting("N", "The same of one token.", LIMITS)] = 64
    patience: Annotated[
        float, Setting("SECONDS", "Longest time for a body to arrive, or for a reader to read.", LIMITS)
    ] = 30.0
    connections: Annotated[int, Setting("N", "Connections at the same time, readers included.", LIMITS)] = 800
    """A process needs twice as many files and some; it takes them, if the system lets it."""
    lease: Annotated[
        str, Setting("DURATION", "On PostgreSQL: silence of the leader after which another replica takes over.", STORE)
    ] = "10s"
    acts: Annotated[
        Path | None, Setting("FILE", "Log of administrative acts; acts.ndjson beside the tokens.", NETWORK)
    ] = None
    keep_measurements: Annotated[
        int | None, Setting("SLOTS", "Measurements to keep, as dpi ledger compact; all unless given.", STORE)
    ] = None
    """Up to 100 more are kept of each stream."""
    body: int = BODY
    oidc: Issuer | None = None  # an issuer whose tokens open something as well
    alerts: AlertConfig | None = None  # who is told of what by hooks; None tells nobody
    streams: dict[str, StreamSettings] = field(default_factory=dict)
    keys: dict[str, bytes] = field(default_factory=dict, repr=False)  # of hashed domains, by their fingerprints
    sources: dict[str, FollowedEvents] = field(default_factory=dict, repr=False)  # brokers, by the streams they feed
    quality: dict[str, Quality] = field(default_factory=dict)  # rules of what is shown, by stream

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delay_us <= 0:
            raise OptionError(f"`delay` must be above 0. Got {self.delay!r}.")
        if not 1 <= self.lease_seconds <= 3600:
            raise OptionError(f"`lease` must be from 1s to 1h. Got {self.lease!r}.")
        if min(self.body, self.requests, self.of_one_token, self.connections) < 1 or not self.patience > 0:
            raise OptionError("`body`, `requests`, `of_one_token`, `connections` and `patience` must be above 0.")
        if self.keep_measurements is not None and self.keep_measurements < 1:
            raise OptionError(f"`keep_measurements` must be at least 1 slot. Got {self.keep_measurements}.")
        if (self.certificate is None) != (self.private_key is None):
            raise OptionError("TLS needs both files: `certificate` and `private_key`.")
        if self.host not in LOOPBACK and self.certificate is None and not self.behind_proxy:
            raise OptionError(
                f"tokens would cross the network in the clear on {self.host!r}: give `certificate` and `private_key`, "
                "or say `behind_proxy` if a proxy in front does TLS.",
                options=("certificate", "private_key", "behind_proxy"),
            )
        for name, settings in self.streams.items():
            check_served(name, settings.slots)
        for name in self.sources:
            if name not in self.streams:
                raise OptionError(f"there is no stream {name!r} for its source.")

    @property
    def delay_us(self) -> int:
        """The delay in microseconds; a release that misses it is seen at a later whole number of delays."""
        return duration(self.delay, "delay")

    @property
    def acts_file(self) -> Path:
        """Where administrative acts are noted."""
        return self.tokens.with_name("acts.ndjson") if self.acts is None else self.acts

    @property
    def signing_key(self) -> Path:
        """Where the private key is that signs the chain: beside the tokens, in a folder that is private and stays."""
        return self.tokens.with_name("signing.pem") if self.sign is None else self.sign

    @property
    def lease_seconds(self) -> float:
        """The lease in seconds."""
        return duration(self.lease, "lease") / 1e6


def check_served(name: str, slots: Slots | None) -> None:
    """Refuse a stream whose name cannot stand in an address, or whose slots are too short to be served."""
    if NAME.fullmatch(name) is None:
        raise OptionError(
            "the name of a stream that is served must be 1 to 100 letters, digits, dots, dashes or underscores."
        )
    if slots is not None and not slots.calendar and slots.width < SHORTEST_SLOT:
        raise OptionError("`slot` of a stream that is served must be at least 1s.", options=("slot",))


def read_secret(path: Path) -> bytes:
    """Return what a secret's file holds, without the line's end; refuses one missing, empty or open to others."""
    try:
        secret = files.read_secret(path).strip()
    except OSError as error:
        raise OptionError(f"the secret {path} cannot be read: {error.strerror}.") from None
    if not secret:
        raise StateError(f"the secret {path} is empty.")
    return secret


def read_limits(path: Path) -> dict[str, object]:
    """Return the limits that [serve] of a `dpi.toml` states, or their defaults."""
    table, known = read_toml(path).get("serve", {}), find_settings(Config)
    if not isinstance(table, dict):
        raise OptionError(f"`serve` in {path} must be a table: [serve].")
    limits: dict[str, object] = {}
    for name in LIVE:
        written = name.replace("_", "-")
        if name == "body":
            limits[name] = read_size(str(table.get(name, BODY)), name)
        else:
            limits[name] = known[written].read(table[written]) if written in table else known[written].default
    return limits


class Stated(NamedTuple):
    """Streams of a `dpi.toml` by name, keys of hashed domains by their fingerprints; brokers and rules by stream."""

    streams: dict[str, StreamSettings]
    keys: dict[str, bytes]
    sources: dict[str, FollowedEvents]
    quality: dict[str, Quality]


def read_streams(path: Path) -> Stated:
    """Return the streams that a `dpi.toml` states, with their keys and brokers; files are looked for beside it."""
    tables = read_toml(path).get("streams", {})
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise OptionError(f"`streams` in {path} must be tables by name, such as [streams.visits].")
    contents = Stated({}, {}, {}, {})
    for name, stated in tables.items():
        table = {key: value for key, value in stated.items() if key not in ("source", "quality")}
        try:
            contents.streams[name], secrets = read_stream_file(name, table, path.parent)
            if "source" in stated:
                contents.sources[name] = _read_source(stated["source"], path.parent)
            if "quality" in stated:
                quality = read_quality(str(stated["quality"]))
                assert quality is not None  # noqa: S101 - a text states rules, or is refused
                if quality.week:
                    slots_of_week(contents.streams[name].slots)
                contents.quality[name] = quality
        except OptionError as error:
            raise OptionError(f"[streams.{name}] of {path}: {error}") from None
        contents.keys.update(secrets)
    return contents


_SOURCE = ("address", "arrived", "id", "password-file", "table", "time", "unit", "user", "value")


def _read_source(table: object, folder: Path) -> FollowedEvents:
    """Return the broker that `[streams.NAME.source]` states."""
    if not isinstance(table, dict) or not isinstance(table.get("address"), str):
        raise OptionError("`source` must be a table with the `address` of a broker.")
    _check_known(table, _SOURCE, "option", " of a source")
    for key, value in table.items():
        parts = key == "value" and isinstance(value, dict) and all(isinstance(each, str) for each in value.values())
        if not isinstance(value, str) and not parts:
            raise OptionError(f"`{key}` of a source must be a text in quotes.")
    given = {key.replace("-", "_"): value for key, value in table.items() if key != "address"}
    if "password_file" in given:
        given["password_file"] = folder / given["password_file"]
    source = broker(table["address"], **given)
    # Refuses an address that is no good, or a library that is not there.
    for each in source.live(lambda producer: -1, {}):
        each.close()
    return source


_OIDC = ("issuer", "audience", "jwks", "roles", "claim", "algorithms", "skew")


def read_oidc(path: Path) -> Issuer | None:
    """Return the issuer that a `dpi.toml` states in [serve.oidc], if any; a file of keys is looked for beside it."""
    serve = read_toml(path).get("serve", {})
    table = serve.get("oidc") if isinstance(serve, dict) else None
    if table is None:
        return None
    if not isinstance(table, dict):
        raise OptionError(f"`oidc` in {path} must be a table: [serve.oidc].")
    _check_known(table, _OIDC, "key", " in [serve.oidc]")
    missing = [f"`{key}`" for key in _OIDC[:4] if key not in table]
    if missing:
        raise OptionError(f"[serve.oidc] must say {', '.join(missing)}.")
    keys = table["jwks"]
    if isinstance(keys, str) and keys and not is_url(keys):
        table = {**table, "jwks": str(path.parent / keys)}
    return Issuer(**table)


_HOOKS, _HOOK = ("analysts", "curators"), ("webhook", "secret-file")
_WATCH = ("detector", "window", "share", "level")
_ALERTS = ("folder", "lag", "silence", "dry", *_WATCH, *_HOOKS)


def read_alerts(path: Path) -> AlertConfig | None:
    """Return the alerts that a `dpi.toml` states, or None; files are looked for beside it."""
    table = read_toml(path).get("alerts")
    try:
        return None if table is None else _read_alerts(table, path.parent)
    except OptionError as error:
        raise OptionError(f"[alerts] of {path}: {error}") from None


def _read_alerts(table: object, folder: Path) -> AlertConfig:
    from dpi.apps import Watch

    if not isinstance(table, dict):
        raise OptionError("it must be a table.")
    _check_known(table, _ALERTS, "key")
    lag = duration(_read_text(table, "lag", "5m"), "lag") / 1e6
    dry, silence = table.get("dry", Decimal("0.5")), table.get("silence", SILENT)
    if isinstance(dry, bool) or not isinstance(dry, int | Decimal) or not 0 < dry <= 1:
        raise OptionError(f"`dry` must be a number above 0 and at most 1. Got {dry!r}.")
    if isinstance(silence, bool) or not isinstance(silence, int) or silence < 1:
        raise OptionError(f"`silence` must be a whole number of slots, at least 1. Got {silence!r}.")
    hooks: dict[str, tuple[WebhookAddress, ...]] = {}
    for name in _HOOKS:
        if not isinstance(table.get(name, []), list):
            raise OptionError(f"`{name}` must be a list.")
        hooks[name] = tuple(_read_hook(hook, folder) for hook in table.get(name, []))
    place = folder / _read_text(table, "folder", "") if "folder" in table else None
    watch = {n: float(v) if isinstance(v, Decimal) else v for n, v in table.items() if n in _WATCH}
    try:
        Watch(**watch)  # type: ignore[arg-type]
    except TypeError:
        raise OptionError("`detector`, `window`, `share` and `level` are as `dpi query --alerts` has them.") from None
    return AlertConfig(lag=lag, silence=silence, dry=float(dry), watch=watch, folder=place, **hooks)


def _read_hook(table: object, folder: Path) -> WebhookAddress:
    if not isinstance(table, dict):
        raise OptionError("a hook is a table with a `webhook`.")
    _check_known(table, _HOOK, "hook")
    url = _read_text(table, "webhook", "")
    parts = urlsplit(url)
    plain = parts.scheme == "http" and parts.hostname in LOOPBACK
    if not parts.hostname or not (parts.scheme == "https" or plain):
        raise OptionError("`webhook` must be an address of https, or of http on this machine.")
    if "secret-file" not in table:
        raise OptionError("a `webhook` needs a `secret-file`, with which messages are signed.")
    return WebhookAddress(url, folder / _read_text(table, "secret-file", ""))


def _check_known(table: Mapping[str, object], known: tuple[str, ...], what: str, where: str = "") -> None:
    for name in table:
        if name not in known:
            raise OptionError(f"unknown {what} `{name}`{where}{meant(name, known)}")


def _read_text(table: Mapping[str, object], name: str, default: str) -> str:
    value = table.get(name, default)
    if not isinstance(value, str):
        raise OptionError(f"`{name}` must be a text in quotes.")
    return value
