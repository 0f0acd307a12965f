"""What a service is told: `[serve]` and `[streams.NAME]` of `dpi.toml`.

Public, but for the names of files that hold secrets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from dpi.errors import OptionError, meant
from dpi.events.slots import Slots, duration
from dpi.service.alerts.config import LOOPBACK, AlertConfig
from dpi.service.issuer_keys import is_url
from dpi.service.oidc import Issuer, issuer_of
from dpi.settings.streams import StreamSettings, from_file, keys_in
from dpi.settings.toml import read_toml
from dpi.sources import FollowedEvents, broker

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""Names of streams that can stand in an address."""
SHORTEST_SLOT = 1_000_000
"""Microseconds. Closing an empty slot takes 9 ms of computing, and one thread closes those of all streams: a stream
of such slots takes a hundredth of it. A shorter slot would be seen no sooner, for a release waits for its delay."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """The options of a service."""

    store: str
    tokens: Path
    host: str = "127.0.0.1"
    port: int = 8321
    delay: str = "1s"
    """A release is seen so long after its slot has closed, or at a later whole number of delays."""
    key_file: Path | None = None
    witness: Path | None = None
    no_witness: bool = False
    """A new store keeps no witness; one beside it otherwise, if it is a file."""
    new: bool = False
    """Begin a store though its key is there: every user then has all of ε once more."""
    sign: Path | None = None
    certificate: Path | None = None
    private_key: Path | None = None
    """The files of TLS."""
    behind_proxy: bool = False
    body: int = 16 << 20
    """Bytes of one request at most, as sent and as unpacked."""
    requests: int = 32
    """Batches that are received or wait to be kept at a time; so many times `body` is what they can take of memory."""
    of_one_token: int = 64
    """Batches of one token at a time, those that wait included."""
    patience: float = 30.0
    """Seconds that the body of a request may take."""
    connections: int = 800
    """Connections at a time, readers who follow among them; a process has 1024 files unless it is given more."""
    lease: str = "10s"
    """On PostgreSQL: another replica takes over when nothing was heard of this one for so long."""
    keep_measurements: int | None = None
    """Of each stream, measurements of so many of the last slots are kept, and up to 100 more; None keeps all."""
    acts: Path | None = None
    """The log of administrative acts; `acts.ndjson` beside the tokens unless given."""
    oidc: Issuer | None = None
    """An issuer whose tokens open something as well."""
    alerts: AlertConfig | None = None
    """Who is told of what by hooks; None tells nobody."""
    streams: dict[str, StreamSettings] = field(default_factory=dict)
    keys: dict[str, bytes] = field(default_factory=dict, repr=False)
    """Of hashed domains, by their fingerprints."""
    sources: dict[str, FollowedEvents] = field(default_factory=dict, repr=False)
    """Brokers that feed streams, by the names of these."""

    def __post_init__(self) -> None:
        if self.no_witness and self.witness is not None:
            raise OptionError("give `witness` or `no_witness`, not both.", options=("witness", "no_witness"))
        if duration(self.delay, "delay") <= 0:
            raise OptionError(f"`delay` must be above 0. Got {self.delay!r}.")
        if not 1_000_000 <= duration(self.lease, "lease") <= 3_600_000_000:
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
            check_name(name)
            check_slot(settings.slots)
        for name in self.sources:
            if name not in self.streams:
                raise OptionError(f"there is no stream {name!r} for its source.")

    @property
    def delay_us(self) -> int:
        """The delay in microseconds."""
        return duration(self.delay, "delay")

    @property
    def acts_file(self) -> Path:
        """Where administrative acts are noted."""
        return self.tokens.with_name("acts.ndjson") if self.acts is None else self.acts

    @property
    def lease_seconds(self) -> float:
        """The lease in seconds."""
        return duration(self.lease, "lease") / 1e6


def check_name(name: str) -> str:
    """The name of a stream that is served; refuses one that cannot stand in an address."""
    if NAME.fullmatch(name) is None:
        raise OptionError(
            "the name of a stream that is served must be 1 to 100 letters, digits, dots, dashes or underscores."
        )
    return name


def check_slot(slots: Slots | None) -> None:
    """Refuse slots that are too short to be served."""
    if slots is not None and not slots.calendar and slots.width < SHORTEST_SLOT:
        raise OptionError("`slot` of a stream that is served must be at least 1s.", options=("slot",))


class Stated(NamedTuple):
    """What a `dpi.toml` states of streams."""

    streams: dict[str, StreamSettings]
    keys: dict[str, bytes]
    """Of hashed domains, by their fingerprints."""
    sources: dict[str, FollowedEvents]


def streams_of(path: Path) -> Stated:
    """The streams that a `dpi.toml` states, with their keys and brokers; files are looked for beside it."""
    tables = read_toml(path).get("streams", {})
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise OptionError(f"`streams` in {path} must be tables by name, such as [streams.visits].")
    found: dict[str, StreamSettings] = {}
    keys: dict[str, bytes] = {}
    sources: dict[str, FollowedEvents] = {}
    for name, stated in tables.items():
        table = {key: value for key, value in stated.items() if key != "source"}
        try:
            found[name] = from_file(name, table, path.parent)
            if "source" in stated:
                sources[name] = _source(stated["source"], path.parent)
        except OptionError as error:
            raise OptionError(f"[streams.{name}] of {path}: {error}") from None
        keys |= keys_in(table, path.parent)
    return Stated(found, keys, sources)


def issuer_in(path: Path) -> Issuer | None:
    """The issuer that a `dpi.toml` states in [serve.oidc], if it does; a file of keys is looked for beside it."""
    serve = read_toml(path).get("serve", {})
    table = serve.get("oidc") if isinstance(serve, dict) else None
    if table is None:
        return None
    if not isinstance(table, dict):
        raise OptionError(f"`oidc` in {path} must be a table: [serve.oidc].")
    keys = table.get("jwks")
    if isinstance(keys, str) and keys and not is_url(keys):
        table = {**table, "jwks": str(path.parent / keys)}
    return issuer_of(table)


_SOURCE = ("address", "arrived", "id", "password-file", "table", "time", "unit", "user", "value")


def _source(table: object, folder: Path) -> FollowedEvents:
    """The broker that `[streams.NAME.source]` states."""
    if not isinstance(table, dict) or not isinstance(table.get("address"), str):
        raise OptionError("`source` must be a table with the `address` of a broker.")
    for key, value in table.items():
        if key not in _SOURCE:
            raise OptionError(f"unknown option `{key}` of a source{meant(key, _SOURCE)}")
        parts = key == "value" and isinstance(value, dict) and all(isinstance(each, str) for each in value.values())
        if not isinstance(value, str) and not parts:
            raise OptionError(f"`{key}` of a source must be a text in quotes.")
    given = {key.replace("-", "_"): value for key, value in table.items() if key != "address"}
    if "password_file" in given:
        given["password_file"] = folder / given["password_file"]
    found = broker(table["address"], **given)
    for each in found.live(
        lambda producer: -1, {}
    ):  # refuses an address that is no good, or a library that is not there
        each.close()
    return found
