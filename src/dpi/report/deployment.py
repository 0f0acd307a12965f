"""What a store says of a stream to somebody who reviews it: its options and its chain, in words.

All of it is public: it is declared, or states what was released. Sees no measurement and no account. The questions of
`review.md` follow what the W3C note for reviewers and NIST SP 800-226 look at; docs/howto-officer.md says which, and
answers them for the program as a whole.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from importlib import resources
from typing import TYPE_CHECKING, cast

from dpi.budget.epsilon import UNITS
from dpi.budget.odds import likely, odds
from dpi.budget.policy import POLICIES
from dpi.certificates.declared import DeclaredOptions, declared
from dpi.domain.file import from_description
from dpi.events.slots import Slots
from dpi.store.spent import sentences, spent_in, sum_of

if TYPE_CHECKING:
    from dpi.certificates.chain import Entry
    from dpi.options import Options
    from dpi.store import Store

_HOUR = 3_600_000_000
_DAY = 24 * _HOUR
_UNITS = (("day", _DAY), ("hour", _HOUR), ("minute", 60_000_000))

MECHANISMS = {
    "boosted": "discrete Laplace noise of scale 2^24/ε_t grains on every bin of a slot's histogram, by an exact "
    "sampler; estimates are made of the noisy counts by an ensemble of trackers",
    "published": "exponential mechanisms that select among a pool of distributions, with rates by the score's true "
    "sensitivity, by an exact sampler",
    "sparse_histogram": "discrete Laplace noise of scale 2^24/ε_t grains on every text of a public universe, by an "
    "exact sampler; texts above a public threshold are shown, also texts without users",
}
COMPRESSIONS = {
    "normalise": "each user is one unit, spread over the values of their events in the slot",
    "truncate": "at most a declared number of a user's events in a slot count, chosen by a keyed hash",
    "whole_pdf": "each user adds a whole distribution, with the published bound of 2 on what one user changes",
}
PAYING = {
    "spend_first": "a user counts in full until their account is empty, then with what is left, then not at all",
    "fade": "a user counts less with every slot they are in, by a series, and no more than their account can pay",
    "clocked": "a user pays when a public clock and earlier releases say, a share of what is left and never all of it",
}
ASK = "*To be said by the curator.*"  # where no program can answer

BIAS = {
    "spend_first": "Users whose account is empty do not count: releases then describe those who have some left.",
    "fade": "Users count less with every slot they are in, so frequent users are underrepresented.",
    "clocked": "Users who return are measured in some slots only; in the others their part is an estimate.",
    "series": "Later slots have less budget and more noise.",
    "": ASK,
}
"""Whom each way of paying leaves out."""

ACCOUNTS = {
    "accounts": "; accounts under keyed names, for ever, since to delete one would be to refill it. An account holds "
    "the spent part of ε, the number of payments and the epoch; by class also both amounts for each stream.",
    "kept": "an account under a keyed name: the spent part of ε, the number of payments, the epoch; for a stream that "
    "measures by class also what was paid in it, and how often; for a quota an account of its own. No id, and no value "
    "of an event. It is pseudonymous personal data as long as the key exists",
    "keeping": "accounts: until the stream has ended and its key is destroyed",
    "stays": "An account of how much of your protection is used up stays.",
    "erasing": "the account stays, since to delete it would refill the person's budget and end their protection;",
    "account": "We also keep an account under a scrambled name. It says how much of your protection is used up, by "
    "which of our statistics, and in how many time slots your events were counted. Without it we could not protect you "
    "any longer, so it stays until the statistics end.",
}
"""What is said of a stream that has accounts, by the names that pages have for it."""
NO_ACCOUNTS = {
    "accounts": ". There are no accounts.",
    "kept": "nothing: this stream has no accounts",
    "keeping": "there are no accounts",
    "stays": "Nothing else about you is kept.",
    "erasing": "nothing else is kept;",
    "account": "We keep nothing else about you.",
}


@dataclass(frozen=True)
class Deployment:
    """Public facts of one stream."""

    stream: str
    program: str | None  # that made the newest release
    epsilon: float
    period: int | None
    accounts: bool  # whether every user has an account, or the slots a converging series of budgets
    streams: int  # how many streams the store has
    sum: str  # what their ε sum to, as a further sentence; empty where they share one
    guarantee: str
    domain: str
    clock: str
    first_closing: str | None  # the day on which the first slot that was released closed, by the stream's clock
    span: str  # which slots were released
    spent: str  # what one user can have lost by now: by this stream, and by all streams of the store
    mechanism: str
    compression: str
    budget: str
    bias: str  # whom that leaves out
    tree: bool  # whether sums over time have a part of each slot's budget
    options: str  # the fingerprint of the options, as every certificate states it
    entries: int
    head: str
    signed: bool  # whether the newest entry of the chain has a signature
    thinned: int | None  # the slot before which measurements were dropped
    until: str  # the end of the last slot that was released: events before it are gone
    longest: str | None  # how long an event is kept at most, by the stream's clock

    @property
    def lasting(self) -> str:
        """For how long ε holds."""
        return "for ever" if self.period is None else f"in every epoch of {self.period} slots"

    @property
    def odds(self) -> str:
        """What ε means for the odds of a guess about one user."""
        return odds(self.epsilon, epochs=self.period is not None)

    @property
    def likely(self) -> str:
        """What ε means for what was published, in words to a user."""
        return f"{'they' if self.period is None else 'those of one epoch'} are {likely(self.epsilon)}"

    @property
    def covered(self) -> str:
        """What ε holds for: never what another store publishes, nor a stream with a budget of its own."""
        return f"everything that is published from {'the same budget' if self.sum else 'this store'}"

    @property
    def method(self) -> str:
        """The mechanism, as a sentence."""
        tree = " A tree of sums over time has a part of each slot's budget." if self.tree else ""
        return f"{self.mechanism[0].upper()}{self.mechanism[1:]}.{tree}"


def describe_deployment(store: Store, stream: str) -> Deployment:
    """Return the public facts of a stream of a store, or of an export."""
    texts = store.streams()
    options = DeclaredOptions.from_text(texts[stream])
    extent, head = store.extent(stream), store.head()
    newest, said = _newest(store, stream, None if extent is None else extent[2])
    slots, spent = options.slots, newest.get("epsilon_spent")
    mechanism, compression, accumulate = (_kind(options.stated[n]) for n in ("mechanism", "compression", "accumulate"))
    when = "for ever" if options.period is None else f"per epoch of {options.period} slots"
    promised = (
        f"Pure differential privacy, ε = {float(options.epsilon):g} per user {when}, for this stream alone; neighbours "
        f"differ in all events of one user. {odds(float(options.epsilon), epochs=options.period is not None)}"
    )
    return Deployment(
        stream=stream,
        program=None if "program" not in newest else str(newest["program"]),
        epsilon=float(options.epsilon),
        period=options.period,
        accounts=options.ledger is not None,
        streams=len(texts),
        sum=sum_of(declared(texts)),
        guarantee=said or promised,
        domain=from_description(json.loads(store.domain(options.domain))).summary,
        clock="slots by number" if slots is None else _describe_clock(slots),
        first_closing=None if slots is None or extent is None else slots.start(extent[1] + 1).date().isoformat(),
        span="none yet" if extent is None else f"{extent[0]:,}, of the slots {extent[1]} … {extent[2]}",
        spent=sentences(float(spent) if isinstance(spent, int | float) else 0.0, spent_in(store), len(texts)),
        mechanism=MECHANISMS.get(mechanism, f"a mechanism of its own ({mechanism})"),
        compression=COMPRESSIONS.get(compression, f"a compression of its own ({compression})"),
        budget=_describe_budget(options),
        bias=BIAS["series" if options.ledger is None else _paying(options)],
        tree=accumulate != "none",
        options=options.digest,
        entries=head.sequence + 1,
        head=head.digest,
        signed=head.sequence >= 0 and store.link(head.sequence).signature is not None,
        thinned=store.thinned().get(stream),
        until=_describe_end(slots, None if extent is None else extent[2]),
        longest=None if slots is None else _describe_longest(slots),
    )


def _newest(store: Store, stream: str, slot: int | None) -> tuple[Entry, str]:
    """Return the newest certificate, and the guarantee as that release states it; nothing before the first."""
    for content, link in () if slot is None else store.releases(stream, slot, slot):
        return link.certificate, str(json.loads(content.partition(b"\n")[0]).get("guarantee", ""))
    return {}, ""


def _kind(stated: object) -> str:
    return str(stated.get("kind")) if isinstance(stated, dict) else "none"


def _describe_budget(options: DeclaredOptions) -> str:
    if options.ledger is None:
        return "a converging series: the budgets of all slots for ever sum to ε, so that no account is kept"
    words = f"accounts of every user: {PAYING.get(_paying(options), 'a policy of its own')}"
    cost = cast("Options", options.stated["budget"]).get("per_slot")
    return words if not isinstance(cost, int) else f"{words}; a slot takes at most {cost / UNITS:.4g}"


def _paying(options: DeclaredOptions) -> str:
    """Return the kind of policy by which users pay for this stream, "" without accounts or for one of somebody's own.

    A stream that says what a slot costs, or whose mechanism knows no classes, spends accounts of `clocked` first.
    """
    kind = next((kind for kind, made in POLICIES.kinds.items() if type(options.policy) is made), "")
    stated = {"per_slot": "auto", "slots": None, "returning": True}
    by_shares = stated.items() <= cast("Options", options.stated["budget"]).items()
    by_class = by_shares and _kind(options.stated["mechanism"]) != "published"
    return "spend_first" if kind == "clocked" and not by_class else kind


def _describe_clock(slots: Slots) -> str:
    width = f"a {slots.calendar}" if slots.calendar else describe_length(slots.width)
    late = f", closed {describe_length(slots.lateness)} after their end" if slots.lateness else ""
    return f"slots of {width}, zone {slots.zone}{late}"


def describe_length(microseconds: int) -> str:
    """Return a length of time in words.

    >>> describe_length(86_400_000_000), describe_length(4_200_000_000), describe_length(500_000)
    ('1 day', '1 hour and 10 minutes', '0.5 seconds')
    """
    rest, parts = microseconds, list[str]()
    for name, width in _UNITS:
        number, rest = divmod(rest, width)
        parts += [f"{number} {name}{'' if number == 1 else 's'}"] if number else []
    if rest or not parts:
        parts.append("1 second" if rest == 1_000_000 else f"{rest / 1_000_000:g} seconds")
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _describe_end(slots: Slots | None, last: int | None) -> str:
    if last is None:
        return "none: no slot was released yet"
    return f"slot {last}" if slots is None else slots.start(last + 1).isoformat()


def _describe_longest(slots: Slots) -> str:
    days = {"day": 1, "week": 7, "month": 31}.get(slots.calendar)
    return describe_length(slots.lateness + (slots.width if days is None else days * _DAY + _HOUR))


def _in_cell(text: str) -> str:
    """Return a text that somebody has declared as it may stand in a table: in one line, without its borders."""
    return " ".join(text.split()).replace("|", "\\|")


def write_annex(deployment: Deployment, kind: str) -> str:
    """Return one page about a stream, in Markdown: a review, an impact assessment's annex, a notice or a receipt.

    Every answer is a function of what was declared and released; two stores with the same chain give the same page.
    """
    large = " ε above 1 is not commonly regarded as strong: give a reason." if deployment.epsilon > 1 else ""
    renewed = "Never: what is spent stays spent." if deployment.period is None else (
        f"Every {deployment.period} slots: over E epochs a user may lose E times ε. A bound that is renewed is weaker "
        "than one that lasts; weigh what repeats from epoch to epoch."
    )  # fmt: skip
    derived = "" if deployment.thinned is None else (
        f" Measurements of slots before {deployment.thinned} were dropped by a public rule: those releases match their "
        "certificates, and cannot be derived again."
    )  # fmt: skip
    beside = (
        deployment.sum and f" Other statistics of ours have a budget of their own, which adds to this.{deployment.sum}"
    )
    return (
        resources.files(__package__)
        .joinpath(f"{kind}.md")
        .read_text(encoding="utf-8")
        .format(
            deployment=replace(deployment, domain=_in_cell(deployment.domain)),
            name=_in_cell(deployment.stream) or "a stream without a name",
            signed="signed" if deployment.signed else "not signed",
            program=deployment.program or "no release yet",
            streams=f"{deployment.streams} stream{'' if deployment.streams == 1 else 's'}",
            last=deployment.entries - 1,
            longest=""
            if deployment.longest is None
            else f": normally {deployment.longest} after it began, and later if the slot closes late",
            large=large,
            beside=beside,
            renewed=renewed,
            derived=derived,
            ask=ASK,
            **(ACCOUNTS if deployment.accounts else NO_ACCOUNTS),
        )
    )
