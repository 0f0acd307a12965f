"""All options of a stream by the names that `dpi run` and `dpi.toml` give them, and the stream that they mean.

Sees public options, and a store's key where a compression needs one; no event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from decimal import Decimal
from pathlib import Path

from dpi.certificates.declared import DeclaredOptions
from dpi.certificates.signature import Signer
from dpi.domain import Domain
from dpi.domain.file import from_description
from dpi.errors import OptionError, meant
from dpi.events.slots import Slots
from dpi.settings import budgets, compressions
from dpi.settings.domains import domain_keys, read_domain
from dpi.store import Store
from dpi.stream import Stream
from dpi.stream.registration import Change

Table = Mapping[str, object]
"""Options by name, as TOML or JSON has them."""


@dataclass(frozen=True, kw_only=True)
class StreamSettings:
    """The options of one stream; what is left out is as `dpi run` has it.

    >>> from dpi.domain import Categories
    >>> settings = StreamSettings(name="visits", domain=Categories(["a"]), epsilon="1", slot="1h", begin="2026-01-01")
    >>> settings.slots.width == 3_600_000_000
    True
    """

    name: str
    domain: Domain
    epsilon: str
    slot: str
    begin: str
    origin: str = "1970-01-01"
    zone: str = "UTC"
    lateness: str = "0s"
    per_slot: str | None = None
    slots_paid: int | None = None
    every: str | None = None
    period: int | None = None
    policy: str | None = None
    quota: str | None = None
    not_returning: bool = False
    converging: str | None = None
    draw: str | None = None
    mechanism: str = "boosted"
    season: int | None = None
    compression: str = "normalise"
    accumulate: str = "slots"
    separate: bool = False

    @property
    def slots(self) -> Slots:
        """The public clock."""
        return Slots(self.slot, origin=self.origin, zone=self.zone, lateness=self.lateness)

    def open(self, store: Store, *, change: Change = False, signer: Signer | None = None) -> Stream:
        """The stream in its store: a new one begins at `begin`, one that is there goes on where it stopped."""
        known = store.streams().get(self.name)
        begun = None if known is None else DeclaredOptions.from_text(known).start
        return Stream(
            domain=self.domain,
            epsilon=self.epsilon,
            slot=self.slot,
            origin=self.origin,
            zone=self.zone,
            lateness=self.lateness,
            start=self.begin if known is None else None if begun is None else self.slots.start(begun),
            budget=budgets.budget(
                per_slot=self.per_slot,
                slots=self.slots_paid,
                every=self.every,
                period=self.period,
                policy=self.policy,
                quota=self.quota,
                returning=not self.not_returning,
                converging=self.converging,
                drawn=self.draw,
            ),
            mechanism=budgets.mechanism(self.mechanism, self.season),
            compression=compressions.compression(self.compression)(store.key),
            accumulate=compressions.accumulate(self.accumulate),
            store=store,
            name=self.name,
            separate=self.separate,
            change=change,
            signer=signer,
        )


_WRITTEN = {"begin": "from", "slots_paid": "slots"}
KEYS = {_WRITTEN.get(field.name, field.name.replace("_", "-")): field for field in fields(StreamSettings)}
"""The options by the names that people write."""
_TEXTS = {
    "str": (str, int, float, Decimal, date),
    "str | None": (str, int, float, Decimal, date),
    "int | None": (int,),
    "bool": (bool,),
}
_WORDS = {"int | None": "a whole number", "bool": "true or false"}


def from_table(name: str, table: Table, *, keys: Mapping[str, bytes] | None = None) -> StreamSettings:
    """The settings that a table of options states, with its domain as a description (`dpi.domain.file`)."""
    values = {key: value for key, value in table.items() if key != "domain"}
    if "domain" not in table:
        raise OptionError("`domain` must be said: what values there are is public, and declared before any event.")
    domain = from_description(_parsed(table["domain"]), keys)
    return _settings(name, values, domain)


def from_file(name: str, table: Table, folder: Path) -> StreamSettings:
    """The settings in a table of `dpi.toml`, whose `domain` is the path of a file beside it."""
    values = dict(table)
    path, other, secrets = (values.pop(key, None) for key in ("domain", "other", "domain-key"))
    if not isinstance(path, str) or not isinstance(other, str | None):
        raise OptionError("`domain` must be the path of a domain file in quotes.")
    files = [secrets] if isinstance(secrets, str) else secrets or []
    if not isinstance(files, Sequence) or not all(isinstance(each, str) for each in files):
        raise OptionError("`domain-key` must be a path in quotes, or a list of them.")
    return _settings(name, values, read_domain(folder / path, other, [folder / each for each in files]))


def keys_in(table: Table, folder: Path) -> dict[str, bytes]:
    """The keys of hashed domains that a table of `dpi.toml` names, by their fingerprints."""
    secrets = table.get("domain-key", [])
    files = [secrets] if isinstance(secrets, str) else secrets if isinstance(secrets, list) else []
    return domain_keys([folder / str(each) for each in files])


def _settings(name: str, values: Table, domain: Domain) -> StreamSettings:
    given: dict[str, object] = {}
    for key, value in values.items():
        if key not in KEYS or key in ("name", "domain"):
            raise OptionError(f"unknown option `{key}`{meant(key, set(KEYS) - {'name'})}")
        field = KEYS[key]
        kind = str(field.type)
        whole = isinstance(value, bool) and kind != "bool"
        if not isinstance(value, _TEXTS[kind]) or whole:
            raise OptionError(f"`{key}` must be {_WORDS.get(kind, 'a text, or a number')}.")
        given[field.name] = str(value) if kind.startswith("str") else value
    for key in ("epsilon", "slot", "from"):
        if KEYS[key].name not in given:
            raise OptionError(f"`{key}` must be said of a stream.")
    return StreamSettings(name=name, domain=domain, **given)  # type: ignore[arg-type] # looked at above


def _parsed(value: object) -> object:
    """A description that came as an object, or as a list of values."""
    return {"kind": "categories", "values": value} if isinstance(value, list) else value


def spelled(text: str) -> str:
    """An error's text with options as tables write them, without dashes before them.

    >>> spelled("`--draw` needs `--converging`, and `per_slot` is one.")
    '`draw` needs `converging`, and `per-slot` is one.'
    """
    import re

    found = re.sub(r"`--([a-z-]+)", r"`\1", text)
    return re.sub(r"`([a-z]+)_([a-z]+)`", r"`\1-\2`", found)
