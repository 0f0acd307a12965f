"""What a chain declares of a stream, as those read it who have no stream: a store, a verifier, the command line.

It says what a promise is made of, and where the stream's clock stands; how the stream measures is left to
`dpi.stream.options`. Sees public text only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction
from functools import lru_cache

from dpi.budget import billing
from dpi.budget.epsilon import Epsilon
from dpi.budget.ledger import BUDGETS
from dpi.budget.policy import POLICIES, Clocked, Policy
from dpi.certificates.chain import canonical, options_digest
from dpi.errors import OptionError, StateError, newer
from dpi.events.identity import EXACT, NFC_STRIP
from dpi.events.slots import Slots
from dpi.options import Options, fraction_of

FORMAT = 1
"""What streams are declared in."""

_FIELDS = {
    "format", "domain", "epsilon_units", "slots", "start", "budget", "mechanism", "compression", "accumulate", "name",
    "ledger", "end",
}  # fmt: skip
_DAMAGED = "the options of a stream are damaged."
_THING = "the options of a stream"


@dataclass(frozen=True)
class DeclaredOptions:
    """A stream's options as they were declared.

    >>> import dpi
    >>> store = dpi.MemoryStore()
    >>> _ = dpi.Stream(domain=dpi.Categories(["a"]), epsilon=1, name="visits", store=store)
    >>> declared = DeclaredOptions.from_text(store.streams()["visits"])
    >>> declared.name, declared.epsilon, declared.ledger, declared.period
    ('visits', Epsilon(1), '', None)
    """

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
    quota: Fraction | None
    """The part of ε that is this stream's alone, if it has one."""
    rest: int | None
    """Without a quota: the units that no quota had when the stream was declared, if there were any."""
    end: int | None
    """The first slot that is never released, if the stream was stopped."""
    ids: str
    """How texts of ids are compared (`dpi.events.identity`): exactly, where nothing is stated."""
    stated: Options = field(repr=False, hash=False)
    """All of it, as it stands in the chain."""

    @classmethod
    @lru_cache(maxsize=256)
    def from_text(cls, text: str) -> DeclaredOptions:
        """Return the options in a store's text; raise `StateError` if it is damaged, or of a newer program."""
        try:
            options = json.loads(text)
        except ValueError:
            options = None
        return cls.from_options(options)

    @classmethod
    def from_options(cls, options: object) -> DeclaredOptions:
        """Return the options of an entry; raise `StateError` if it is damaged, or of a newer program."""
        if not isinstance(options, dict):
            raise StateError(_DAMAGED)
        format = options.get("format")
        if type(format) is not int or format < 1:
            raise StateError(_DAMAGED)
        if format != FORMAT:
            raise newer(f"a declaration of a stream (its options are of format {format}, this program knows {FORMAT})")
        ids = options.get("ids", NFC_STRIP)
        if options.keys() - _FIELDS - {"ids"} or ids != NFC_STRIP:
            raise newer(_THING)  # what is not known cannot be left out of a promise
        if _FIELDS - options.keys():
            raise StateError(_DAMAGED)
        budget = _budget(options["budget"])
        period = budget.get("period")
        match {**options, "rest": budget.get("rest"), "quota": budget.get("quota")}:
            case {
                "domain": str(domain),
                "epsilon_units": int(units),
                "name": str(name),
                "ledger": str() | None as ledger,
                "start": int() | None as start,
                "rest": int() | None as rest,
                "quota": str() | None as part,
                "end": int() | None as end,
            } if isinstance(period, int | None):
                try:
                    quota = None if part is None else fraction_of(part)
                    if quota is None or 0 < quota <= 1:
                        total = Epsilon(units)
                        ids = str(options.get("ids", EXACT))
                        return cls(name, domain, total, ledger, period, start, quota, rest, end, ids, options)
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
    def promise(self) -> tuple[Epsilon, str | None, int | None, str | None, int | None, str]:
        """What no change of options may touch: ε, the ledger that keeps it, its refills, the accounts and whose."""
        return self.epsilon, self.ledger, self.period, self.accounts, self.rest, self.ids

    @property
    def accounts(self) -> str | None:
        """The name under which a store keeps the accounts that pay: the ledger's or, with a quota, the stream's own."""
        return accounts_of(self.name, self.ledger, own=self.quota is not None)

    @property
    def held(self) -> int:
        """What those accounts hold at first, in units, as far as this stream knows: quotas of others may take more."""
        if self.quota is not None:
            return billing.quota_units(self.epsilon.units, self.quota)
        return self.epsilon.units if self.rest is None else self.rest

    @property
    def asked(self) -> bool:
        """Whether people ask the stream: not one that finds values, or counts the users of another."""
        mechanism = self.stated.get("mechanism")
        return not isinstance(mechanism, dict) or mechanism.get("kind") not in ("sparse_histogram", "active_users")

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
        budget = self.stated["budget"]
        try:
            return POLICIES.read(budget.get("policy") if isinstance(budget, dict) else None)
        except OptionError:
            return None

    @property
    def slots(self) -> Slots | None:
        """The stream's clock, if it has one."""
        stated = self.stated["slots"]
        return None if stated is None else Slots.from_options(stated)

    def start_of(self, slot: int) -> str | None:
        """Return when a slot begins, as text; None without a clock, or where no calendar reaches."""
        try:
            return None if self.slots is None else self.slots.start(slot).isoformat()
        except (OverflowError, ValueError):
            return None

    def name_slots(self, first: int, last: int) -> str:
        """Return how a sentence names slots: by when they begin, or by their numbers."""
        starts = self.start_of(first), self.start_of(last)
        return write_slots(*((first, last) if None in starts else starts))


def write_slots(first: object, last: object) -> str:
    """Return how a sentence names slots.

    >>> write_slots(7, 7), write_slots("2026-01-01", "2026-01-02")
    ('slot 7', 'slots 2026-01-01 … 2026-01-02')
    """
    return f"slot {first}" if first == last else f"slots {first} … {last}"


def name_stream(name: str) -> str:
    """Return how a sentence names a stream.

    >>> name_stream("visits"), name_stream("")
    ("stream 'visits'", 'the stream without a name')
    """
    return f"stream {name!r}" if name else "the stream without a name"


def pool_of(name: str, ledger: str | None) -> tuple[str, str]:
    """Return what the ε of a stream of this name and ledger is spent from."""
    return ("series", name) if ledger is None else ("ledger", ledger)


def told_until(streams: Mapping[str, DeclaredOptions], ledger: str | None) -> list[str]:
    """Return the stream, if any, that tells newcomers until a further stream of its ledger is declared.

    It has what is in no quota, alone and as it was when it began, and is measured by class: a first payment is then one
    in its slot, and of all that an account was said to hold. Who has a quota goes on.
    """
    rest = [each for each in streams.values() if each.ledger == ledger is not None and each.quota is None]
    known = len(rest) == 1 and rest[0].held == rest_of(rest[0], streams)
    return [each.name for each in rest if known and each.top is not None and each.period is None]


def accounts_of(name: str, ledger: str | None, *, own: bool) -> str | None:
    """Return the name of the accounts that pay for a stream; `own` are those of a quota."""
    return f"quota {name}" if own and ledger is not None else ledger


def assigned(accounts: str, streams: Mapping[str, DeclaredOptions]) -> int:
    """Return what accounts of this name do not hold of ε, in units, beside these streams: it is in others' quotas.

    Accounts of the rest lack all quotas of their ledger; those of a quota lack all that is not in it.
    """
    mine = next((options for options in streams.values() if options.accounts == accounts), None)
    if mine is None:
        return 0
    return mine.epsilon.units - (mine.held if mine.quota is not None else rest_of(mine, streams))


def rest_of(stream: DeclaredOptions, streams: Mapping[str, DeclaredOptions]) -> int:
    """Return the units of a stream's ε that are in no quota of its ledger."""
    pool = [options for options in streams.values() if options.ledger == stream.ledger]
    return billing.unassigned(stream.epsilon.units, (options.held for options in pool if options.quota is not None))


def _budget(stated: object) -> Options:
    """Return a budget's fields, which need not be made for it: its series, draw or policy may be another class's."""
    if not isinstance(stated, dict) or not isinstance(stated.get("kind"), str):
        raise StateError(_DAMAGED)
    if stated["kind"] not in BUDGETS.kinds:
        raise newer(_THING)
    cls = BUDGETS.kinds[stated["kind"]]
    known: set[str] = {part.name for part in fields(cls)} if is_dataclass(cls) else set()
    if set(stated) - {"kind"} - known:
        raise newer(_THING)  # what is not known cannot be left out of a promise
    return stated


def declared(streams: Mapping[str, str]) -> dict[str, DeclaredOptions]:
    """Return the options of all streams of a store, by name: `declared(store.streams())`."""
    return {name: DeclaredOptions.from_text(text) for name, text in streams.items()}
