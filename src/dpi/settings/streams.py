"""All options of a stream by the names that people give them, and the stream that they mean.

`dpi run`, `dpi.toml` and the body of a request that declares a stream have the fields below, and no others. Sees
public options, and a store's key where a compression needs one; no event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from dpi.budget import Converging, Ledger
from dpi.budget.epsilon import promised
from dpi.certificates.declared import DeclaredOptions
from dpi.certificates.signature import Signer
from dpi.domain import Discovered, Domain
from dpi.domain.file import from_description
from dpi.errors import OptionError
from dpi.events.identity import KEY_BYTES
from dpi.events.slots import Slots
from dpi.settings import rules
from dpi.settings.declaration import CLOCK, PRIVACY, STORE, Setting, Table, find_settings, read_table
from dpi.settings.domains import DomainSettings, domain_keys
from dpi.store import Store
from dpi.stream import Stream
from dpi.stream.options import StreamOptions, make_options
from dpi.stream.registration import Change
from dpi.stream.slot_closer import Engine

SLOT = Setting("DURATION", "Length of a slot: 1h, 1d, 1w; or day, week, month of the calendar in --zone.", CLOCK)
BEGIN = Setting("TIME", "Beginning of the public period.", CLOCK, name="from")
ZONE = Setting("ZONE", "Time zone of times without one, and of slots.", CLOCK)
ORIGIN = Setting("TIME", "Moment from which slots are counted.", CLOCK)


@dataclass(frozen=True, kw_only=True)
class StreamTerms:
    """What can be said of a stream beside its domain."""

    epsilon: Annotated[str, Setting("NUMBER", "ε per user, for ever.", PRIVACY)]
    slot: Annotated[str, SLOT]
    begin: Annotated[str | None, BEGIN] = None
    zone: Annotated[str, ZONE] = "UTC"
    origin: Annotated[str, ORIGIN] = "1970-01-01"
    lateness: Annotated[str, Setting("DURATION", "Time after its end at which a slot closes.", CLOCK)] = "0s"
    per_slot: Annotated[str | None, Setting("NUMBER", "Fixed price of a slot.", PRIVACY)] = None
    slots_paid: Annotated[
        int | None,
        Setting("N", "Instead of per-slot: number of slots that an account pays for.", PRIVACY, name="slots"),
    ] = None
    every: Annotated[str | None, Setting("N", "Spend most of the budget in every N-th slot, or auto.", PRIVACY)] = None
    period: Annotated[
        int | None, Setting("N", "Refill accounts every N slots: the promise is then ε per epoch.", PRIVACY)
    ] = None
    policy: Annotated[
        str | None, Setting("RULE", "How accounts are spent: auto, clocked, spend-first, fade.", PRIVACY)
    ] = None
    quota: Annotated[str | None, Setting("PART", "Part of ε that is reserved for this stream.", PRIVACY)] = None
    people: Annotated[
        str | None, Setting("PART", "Part of ε for counting active users in every slot, such as 0.2.", PRIVACY)
    ] = None
    not_returning: Annotated[bool, Setting("", "Users do not come back once their account is empty.", PRIVACY)] = False
    converging: Annotated[
        str | None, Setting("SERIES", "Instead of accounts: a series of budgets, such as zeta:2.", PRIVACY)
    ] = None
    draw: Annotated[
        str | None, Setting("RULE", "How the series is drawn: in-order, rba:1e8, ranges:0.1,0.001.", PRIVACY)
    ] = None
    mechanism: Annotated[str, Setting("NAME", "Mechanism: boosted or published.", PRIVACY)] = "boosted"
    season: Annotated[int | None, Setting("N", "Slots after which a pattern repeats, such as 24.", PRIVACY)] = None
    compression: Annotated[
        str, Setting("RULE", "How a user's events are bounded: normalise, truncate:5, whole-pdf.", PRIVACY)
    ] = "normalise"
    accumulate: Annotated[
        str, Setting("RULE", "How the distribution over all slots is made: slots, or tree:0.025.", PRIVACY)
    ] = "slots"
    ids: Annotated[
        str | None,
        Setting(
            "RULE", "How text ids are compared: nfc-strip (Unicode NFC, no outer spaces; the default), exact.", PRIVACY
        ),
    ] = None
    name: Annotated[str, Setting("NAME", "Name of the stream, if the store has several.", STORE)] = ""
    separate: Annotated[bool, Setting("", "Give the stream an ε of its own, which adds to that of others.", STORE)] = (
        False
    )

    @property
    def slots(self) -> Slots:
        """The public clock."""
        return Slots(self.slot, origin=self.origin, zone=self.zone, lateness=self.lateness)

    @property
    def budget(self) -> Ledger | Converging:
        """The budget; accounts, chosen automatically, unless something else is set."""
        if self.converging is None:
            if self.draw is not None:
                raise OptionError("`draw` needs `converging`.", options=("draw", "converging"))
            return Ledger(
                per_slot="auto" if self.per_slot is None else self.per_slot,
                slots=self.slots_paid,
                every=1 if self.every is None else rules.read_every(self.every),
                policy="auto" if self.policy is None else rules.read_policy(self.policy),
                period=self.period,
                returning=not self.not_returning,
                quota=self.quota,
            )
        accounts = (self.per_slot, self.slots_paid, self.every, self.period, self.policy, self.quota)
        if self.not_returning or any(each is not None for each in accounts):
            names = ("per_slot", "slots", "every", "period", "policy", "quota", "not_returning")
            raise OptionError(
                f"`converging` needs no accounts: leave out {', '.join(f'`{name}`' for name in names)}.",
                options=("converging", *names),
            )
        series = rules.read_series(self.converging)
        return Converging(series, draw=None if self.draw is None else rules.read_draw(self.draw))


@dataclass(frozen=True, kw_only=True)
class StreamSettings(StreamTerms):
    """The options of one stream; what is left out is as `dpi run` has it.

    >>> from dpi.domain import Categories
    >>> settings = StreamSettings(name="visits", domain=Categories(["a"]), epsilon="1", slot="1h", begin="2026-01-01")
    >>> settings.slots.width == 3_600_000_000
    True
    """

    domain: Domain
    begin: str

    def make_options(self, key: bytes = bytes(KEY_BYTES), *, new: bool = True) -> StreamOptions:
        """Return the options of a stream in a store with this key; refuse those that no stream takes.

        One that is not new has a beginning already, and `begin` is not looked at.
        """
        return make_options(
            domain=self.domain,
            epsilon=promised(self.epsilon),
            slots=self.slots,
            start=self.begin if new else None,
            budget=self.budget,
            mechanism=rules.read_mechanism(self.mechanism, self.season),
            compression=rules.read_compression(self.compression, key),
            accumulate=rules.read_tree(self.accumulate),
            name=self.name,
            separate=self.separate,
            ids=self.ids,
        )

    def open(
        self, store: Store, *, change: Change = False, signer: Signer | None = None, engine: Engine | None = None
    ) -> Stream:
        """Return the stream in its store: a new one begins at `begin`, one that is there goes on where it stopped."""
        known = store.streams().get(self.name)
        options = self.make_options(store.key, new=known is None)
        if known is not None:
            options = replace(options, start=DeclaredOptions.from_text(known).start)
        return Stream.with_options(
            options, store, separate=self.separate, change=change, signer=signer, engine=engine, people=self.people
        )


@dataclass(frozen=True, kw_only=True)
class StoreSettings:
    """Where a stream is kept, and what guards it."""

    store: Annotated[str | None, Setting("STORE", "A path, or postgresql://…", STORE)] = None
    key_file: Annotated[Path | None, Setting("FILE", "The ledger's key; STORE.key unless given.", STORE)] = None
    witness: Annotated[
        Path | None, Setting("FILE", "File that detects old copies; STORE.witness unless given.", STORE)
    ] = None
    no_witness: Annotated[bool, Setting("", "New store without a witness: old copies are not detected.", STORE)] = False
    new: Annotated[
        bool, Setting("", "Begin a new store although its key exists: every user gets all of ε again.", STORE)
    ] = False
    sign: Annotated[Path | None, Setting("FILE", "Private key that signs the chain; see dpi keys.", STORE)] = None

    @property
    def place(self) -> str:
        """The store, which is required."""
        if self.store is None:
            raise OptionError("`store` is required: it keeps releases and accounts.")
        return self.store

    def __post_init__(self) -> None:
        if self.no_witness and self.witness is not None:
            raise OptionError("give `witness` or `no_witness`, not both.", options=("witness", "no_witness"))


KEYS = {name: each for name, each in find_settings(StreamTerms).items() if name != "name"}
"""The options by the names that people write."""


def read_stream(name: str, table: Table, *, keys: Mapping[str, bytes] | None = None) -> StreamSettings:
    """Return the settings that a request's body states, with its domain as a description or a list of values."""
    values = dict(table)
    if "domain" not in values:
        raise OptionError("`domain` is required: a list or a description of public values.")
    described = values.pop("domain")
    if isinstance(described, list):
        described = {"kind": "categories", "values": described}
    return _settings(name, values, from_description(described, keys))


def read_stream_file(name: str, table: Table, folder: Path) -> tuple[StreamSettings, dict[str, bytes]]:
    """Return the settings in a table of `dpi.toml`, whose files lie beside it, and the keys of its hashed domain."""
    known = find_settings(DomainSettings)
    said = read_table(known, {key: value for key, value in table.items() if key in known})
    path, other, keys = (said.get(key) for key in ("domain", "other", "domain-key"))
    if "amount" in said or "step" in said:
        raise OptionError('a service has amounts from a domain file that says {"kind": "amounts", "step": "0.01"}.')
    if not isinstance(path, Path):
        raise OptionError("`domain` must be the path of a domain file in quotes.")
    files = [folder / each for each in keys] if isinstance(keys, list) else []
    domain = DomainSettings(domain=folder / path, other=None if other is None else str(other), domain_key=files).read()
    values = {key: value for key, value in table.items() if key not in known}
    return _settings(name, values, domain), domain_keys(files)


def _settings(name: str, values: Table, domain: Domain) -> StreamSettings:
    if isinstance(domain, Discovered):
        raise OptionError("values are discovered in files and tables (`dpi run`), not in what a service is sent.")
    given = read_table(KEYS, values)
    for key in ("epsilon", "slot"):
        if key not in given:
            raise OptionError(f"`{key}` is required of a stream.")
    fields = {KEYS[key].field: value for key, value in given.items()}
    fields.setdefault("begin", "")
    settings = StreamSettings(name=name, domain=domain, **fields)  # type: ignore[arg-type] # read by their kinds
    return settings if "from" in given else replace(settings, begin=_now(settings.slots))


def _now(slots: Slots) -> str:
    """Return when the slot begins that is running: a public time, with which a stream begins unless another is set."""
    return slots.start(slots.at(slots.instant(datetime.now(UTC)))).isoformat()
