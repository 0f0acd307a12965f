"""What a chain declares of a stream, as those read it who have no stream: a store, a verifier, the command line.

One typed view of options of every format. It says what a promise is made of, and where the stream's clock stands; how
the stream measures is left to `dpi.stream.options`. Sees public text only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import lru_cache

from dpi.budget.epsilon import Epsilon
from dpi.budget.ledger import BUDGETS
from dpi.budget.policy import POLICIES, Clocked, Policy, spend_first
from dpi.certificates.chain import canonical, options_digest
from dpi.errors import OptionError, StateError
from dpi.events.slots import Slots
from dpi.options import DEFAULTS, Options, complete

PRINTED = 1
"""The format that wrote objects as Python prints them."""
FORMATS = (PRINTED, *DEFAULTS)

_NEEDED = ("format", "domain", "epsilon_units")
_DAMAGED = "the options of a stream are damaged, or of a newer version of dpi."
_PRINTED_SLOTS = re.compile(r"Slots\(width=(\d+), origin=(-?\d+), zone='([^']+)', lateness=(\d+)\)")


@dataclass(frozen=True)
class DeclaredOptions:
    """A stream's options as they were declared.

    >>> text = '{"domain":"d0","epsilon_units":1099511627776,"format":2,"name":"visits"}'
    >>> declared = DeclaredOptions.from_text(text)
    >>> declared.name, declared.epsilon, declared.ledger, declared.period
    ('visits', Epsilon(1), '', None)
    """

    format: int
    name: str
    domain: str
    """The domain's digest."""
    epsilon: Epsilon
    ledger: str | None
    """The ledger that pays: "" is the one that streams of a store share; None without accounts."""
    period: int | None
    """Slots after which accounts are refilled, if they are."""
    start: int | None
    """The first slot, if it was declared."""
    stated: Options = field(repr=False, hash=False)
    """All of it, as it stands in the chain."""

    @classmethod
    def from_text(cls, text: str) -> DeclaredOptions:
        """The options in a store's text; raises `StateError` if it is damaged, or of a newer program."""
        return _from_text(text)

    @classmethod
    def from_options(cls, options: object) -> DeclaredOptions:
        """The options of an entry; raises `StateError` if it is damaged, or of a newer program."""
        if not isinstance(options, dict):
            raise StateError(_DAMAGED)
        format = options.get("format", PRINTED)
        if type(format) is not int or (format == PRINTED and "format" in options):
            raise StateError(_DAMAGED)
        if format not in FORMATS:
            raise StateError(
                f"the stream was declared by a newer version of dpi (its options are of format {format}, this program "
                f"knows {max(FORMATS)})."
            )
        stated = options if format == PRINTED else {**DEFAULTS[format]["stream"], **options}
        if format != PRINTED and set(options) - {*DEFAULTS[format]["stream"], *_NEEDED}:
            raise StateError(_DAMAGED)  # what is not known cannot be left out of a promise
        period = options.get("period") if format == PRINTED else _period(stated["budget"], format)
        match stated:
            case {
                "domain": str(domain),
                "epsilon_units": int(units),
                "name": str(name),
                "ledger": str() | None as ledger,
                "start": int() | None as start,
            } if period is None or isinstance(period, int):
                try:
                    return cls(format, name, domain, Epsilon(units), ledger, period, start, options)
                except OptionError:
                    pass
        raise StateError(_DAMAGED)

    @property
    def text(self) -> str:
        """The options as canonical text."""
        return canonical(self.stated)

    @property
    def digest(self) -> str:
        """Their fingerprint, which every certificate of the stream states."""
        return options_digest(self.text)

    @property
    def promise(self) -> tuple[Epsilon, str | None, int | None]:
        """What no change of options may touch: ε, the ledger that keeps it, and how often it is refilled."""
        return self.epsilon, self.ledger, self.period

    @property
    def pool(self) -> tuple[str, str]:
        """What the stream's ε is spent from: a ledger, or a series of its own."""
        return pool_of(self.name, self.ledger)

    @property
    def top(self) -> int | None:
        """The top class of a ledger whose users pay by a public clock (`clocked`); None for any other budget."""
        return self.policy.top if isinstance(self.policy, Clocked) else None

    @property
    def policy(self) -> Policy | None:
        """How accounts are spent from; None without accounts, or if this program cannot make it of what is stated.

        What "auto" came to is declared as what it is; options that leave it open say nothing of it.
        """
        if self.ledger is None:
            return None
        if self.format == PRINTED:
            return None if "policy=" in str(self.stated.get("budget")) else spend_first
        budget = complete(self.stated.get("budget", DEFAULTS[self.format]["stream"]["budget"]), self.format)
        try:
            return POLICIES.read(budget.get("policy") if isinstance(budget, dict) else None, self.format)
        except OptionError:
            return None

    @property
    def slots(self) -> Slots | None:
        """The stream's clock, if it has one."""
        stated = self.stated.get("slots")
        if self.format != PRINTED:
            return None if stated is None else Slots.from_options(stated, self.format)
        match = _PRINTED_SLOTS.fullmatch(str(stated))
        if match is None:
            return None
        width, origin, zone, lateness = match.groups()
        known = {"width": int(width), "origin": int(origin), "zone": zone, "lateness": int(lateness)}
        return Slots.from_options({"kind": "slots", **known}, min(DEFAULTS))


def pool_of(name: str, ledger: str | None) -> tuple[str, str]:
    """What the ε of a stream of this name and ledger is spent from."""
    return ("series", name) if ledger is None else ("ledger", ledger)


@lru_cache(maxsize=256)
def _from_text(text: str) -> DeclaredOptions:
    try:
        options = json.loads(text)
    except ValueError:
        options = None
    return DeclaredOptions.from_options(options)


def _period(stated: object, format: int) -> object:
    """The period of a budget, which need not be made for it: its series, draw or policy may be somebody else's."""
    if not isinstance(stated, dict) or stated.get("kind") not in BUDGETS.kinds:
        raise StateError(_DAMAGED)
    cls = BUDGETS.kinds[stated["kind"]]
    known: set[str] = {part.name for part in fields(cls)} if is_dataclass(cls) else set()
    if set(stated) - {"kind"} - known:
        raise StateError(_DAMAGED)  # what is not known cannot be left out of a promise
    return {**DEFAULTS[format].get(stated["kind"], {}), **stated}.get("period")


def declared(streams: Mapping[str, str]) -> dict[str, DeclaredOptions]:
    """The options of all streams of a store, by name: `declared(store.streams())`."""
    return {name: DeclaredOptions.from_text(text) for name, text in streams.items()}
