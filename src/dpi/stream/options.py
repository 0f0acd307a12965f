"""What a stream is: its public options, their fingerprint, and the promise they make, in words.

Nothing here is private, and nothing here is read off data. Options that are part of the promise never change; the
others may change in mid-stream, by an entry of the chain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import cast

from dpi.budget.allocation import Allocation
from dpi.budget.class_allocation import ClassAllocation
from dpi.budget.classes import GroupBudget
from dpi.budget.epsilon import Amount, Epsilon
from dpi.budget.ledger import BUDGETS, Converging, Ledger
from dpi.budget.policy import Clocked, Policy, clocked, spend_first
from dpi.certificates.chain import canonical, options_digest
from dpi.certificates.declared import FORMAT, DeclaredOptions, accounts_of, name_stream, pool_of, rest_of
from dpi.domain import Discovered, Domain, Texts
from dpi.errors import OptionError, StateError
from dpi.events.identity import EXACT, IDS, NFC_STRIP
from dpi.events.slots import Slots
from dpi.histogram.compression import COMPRESSIONS, Compression, Normalise, Totals, WholePDF, totals
from dpi.mechanism import mechanism_named
from dpi.mechanism.base import MECHANISMS, Mechanism
from dpi.mechanism.value_discovery import Discovering
from dpi.options import Options
from dpi.stream.prefix_tree import PrefixTree

CHANGEABLE = {"domain", "mechanism", "compression", "budget"}
"""Options that may change in mid-stream; the others are part of the promise."""
LONGEST_TEXT = 32
"""Bytes of values that are discovered, unless a universe is given."""
STOPPED = "the stream was stopped: its releases stay, and nothing more is released of it. Use another `name`."


@dataclass(frozen=True)
class StreamOptions:
    """The options of one stream. They do not change: what follows from them is found once."""

    domain: Domain
    epsilon: Epsilon
    slots: Slots | None
    start: int | None
    """The first slot, if it was declared."""
    budget: Ledger | Converging
    mechanism: Mechanism[object]
    compression: Compression
    accumulate: PrefixTree | None
    name: str
    ledger: str | None
    """The ledger that pays: "" is the one that streams of a store share; None without accounts."""
    end: int | None = None
    """The first slot that is never released, if the stream was stopped."""
    ids: str = ""
    """How texts of ids are compared (`dpi.events.identity`); "" is as the streams it shares accounts with have it."""

    def __post_init__(self) -> None:
        if self.accumulate is not None and not isinstance(self.accumulate, PrefixTree):
            raise OptionError("`accumulate` must be None or a PrefixTree(per_slot=...).")
        if self.accumulate is not None and isinstance(self.compression, WholePDF):
            raise OptionError("`accumulate` needs a compression that one user moves by one unit: use `normalise`.")
        largest = self.mechanism.largest_sensitivity
        if largest is not None and self.compression.sensitivity > largest:
            raise OptionError(f"{type(self.mechanism).__name__} takes no {self.compression!r}: use `normalise`.")
        if self.mechanism.discovers and not isinstance(self.domain, Discovered):
            raise OptionError('`Discovering` is for `domain="discover"`, and for no other domain.')
        if isinstance(self.domain, Discovered | Texts) and not (
            type(self.compression) is Normalise and self.accumulate is None
        ):
            # A slot's bins are the texts of all users there: what is chosen by a bin's number is chosen by others.
            raise OptionError("where values are discovered, events are counted by `normalise`, without `accumulate`.")
        if self.domain.summed != (type(self.compression) is Totals):
            raise OptionError(
                "amounts are summed by user: leave out `compression`, and give `totals` to no other domain."
            )
        self.allocation()  # refuses a budget that does not fit

    def to_options(self) -> Options:
        """Return all of it as JSON values, as the chain states them.

        Two streams with the same options have the same text, however they were written: `per_slot=0.05` and
        `per_slot="0.05"` are one. Keys are no options, and are not in it.
        """
        return {
            "format": FORMAT,
            "domain": self.domain.digest,
            "epsilon_units": self.epsilon.units,
            "slots": None if self.slots is None else self.slots.to_options(),
            "start": self.start,
            "budget": self.budget.to_options(),
            "mechanism": self.mechanism.to_options(),
            "compression": self.compression.to_options(),
            "accumulate": None if self.accumulate is None else self.accumulate.to_options(),
            "name": self.name,
            "ledger": self.ledger,
            "end": self.end,
        } | ({} if self.ids in ("", EXACT) else {"ids": self.ids})

    @classmethod
    def from_options(cls, options: object, domain: Domain, **secrets: bytes) -> StreamOptions:
        """Return the options of `to_options`, with the domain whose digest they state; `key` is a `truncate`'s."""
        known = DeclaredOptions.from_options(options)
        if known.domain != domain.digest:
            raise OptionError("the options are of a stream with another domain.")
        stated, budget = known.stated, BUDGETS.read(known.stated["budget"])
        assert isinstance(budget, Ledger | Converging)  # noqa: S101 - the family has no other
        return cls(
            domain=domain,
            epsilon=known.epsilon,
            slots=known.slots,
            start=known.start,
            budget=budget,
            mechanism=MECHANISMS.read(stated["mechanism"]),
            compression=COMPRESSIONS.read(stated["compression"], **secrets),
            accumulate=None if stated["accumulate"] is None else PrefixTree.from_options(stated["accumulate"]),
            name=known.name,
            ledger=known.ledger,
            end=known.end,
            ids=known.ids,
        )

    @cached_property
    def text(self) -> str:
        """The options as canonical text."""
        return canonical(self.to_options())

    @cached_property
    def digest(self) -> str:
        """A fingerprint of the options."""
        return options_digest(self.text)

    @cached_property
    def mechanism_name(self) -> str:
        """What certificates call the mechanism."""
        return self.mechanism.name

    @cached_property
    def parameters(self) -> dict[str, object]:
        """The mechanism's options with nothing left out, as every certificate states them."""
        return self.mechanism.parameters

    @cached_property
    def period(self) -> int | None:
        """Slots after which accounts are refilled, if they are."""
        return self.budget.period if isinstance(self.budget, Ledger) else None

    @cached_property
    def quota(self) -> Amount | None:
        """The part of ε that is this stream's alone, if it has one."""
        return self.budget.quota if isinstance(self.budget, Ledger) else None

    @cached_property
    def accounts(self) -> str | None:
        """The name under which a store keeps the accounts that pay: the ledger's or, with a quota, the stream's own."""
        return accounts_of(self.name, self.ledger, own=self.quota is not None)

    @cached_property
    def held(self) -> Epsilon:
        """What one user can pay for this stream, at most."""
        return self.budget.held(self.epsilon) if isinstance(self.budget, Ledger) else self.epsilon

    @cached_property
    def whole_weights(self) -> bool:
        """Whether a user who cannot pay in full must not take part."""
        return self.mechanism.whole_weights or isinstance(self.compression, WholePDF)

    @cached_property
    def classes(self) -> int:
        """Into how many classes users are divided by the number of their own payments: one, unless it is clocked.

        A mechanism that needs users of weight one knows no classes, and a stream that says what a slot costs has no
        use for them: there `clocked` is `spend_first`.
        """
        budget, policy = self.budget, self.policy
        if not isinstance(budget, Ledger) or not isinstance(policy, Clocked):
            return 1
        divided = budget.by_shares and self.mechanism.by_class and not self.whole_weights
        return policy.top + 1 if divided else 1

    @property
    def policy(self) -> Policy | None:
        """How accounts are spent from; None without accounts."""
        if not isinstance(self.budget, Ledger):
            return None
        if self.budget.policy != "auto":
            return self.budget.policy
        divided = self.budget.by_shares and self.mechanism.divides(self.domain) and not self.whole_weights
        return clocked(self.mechanism.top(self.domain)) if divided else spend_first

    def resolved(self, streams: Mapping[str, DeclaredOptions]) -> StreamOptions:
        """Resolve the rule of ids, and the policy that "auto" is, beside the streams of a store.

        That is the one of its accounts or, of new ones, `NFC_STRIP` and `policy`.

        So what is declared says it, and a stream keeps it, also where it would be another for its domain by now. A
        stream without a quota keeps in the same way what quotas of others had left when it was declared.
        """
        if not self.ids:
            return replace(self, ids=self._shared_ids(streams)).resolved(streams)
        budget, policy = self.budget, self.policy
        if not isinstance(budget, Ledger) or policy is None:
            return self
        budget = replace(budget, rest=self._rest(streams))
        if budget.policy == "auto":
            shared = (options.policy for options in streams.values() if options.accounts == self.accounts)
            return replace(self, budget=replace(budget, policy=next(filter(None, shared), policy)))
        if isinstance(policy, Clocked) and not budget.by_shares and self.mechanism.by_class and not self.whole_weights:
            raise OptionError(
                "`clocked` asks for shares of what users have left: leave out `per_slot`, `slots` and `returning`.",
                options=("per_slot", "slots", "returning"),
            )
        return replace(self, budget=budget)

    def _shared_ids(self, streams: Mapping[str, DeclaredOptions]) -> str:
        """Return the rule of ids of the stream, if it is known, or of those whose ledger it shares."""
        known = streams.get(self.name)
        shared = [each for each in streams.values() if each.ledger == self.ledger is not None]
        return NFC_STRIP if not (known or shared) else (known or shared[0]).ids

    def _rest(self, streams: Mapping[str, DeclaredOptions]) -> Epsilon | None:
        """Return what no quota had when a stream without one was declared; None if there were no quotas."""
        known = streams.get(self.name)
        if known is not None:
            return None if known.rest is None else Epsilon(known.rest)
        others = [each for each in streams.values() if each.quota is not None and each.ledger == self.ledger]
        if self.quota is not None or not others:
            return None
        units = rest_of(others[0], streams)
        if units == 0:
            raise OptionError("all of ε is in quotas of other streams: nothing is left for a stream without one.")
        return Epsilon(units)

    def allocation(self) -> Allocation:
        """Return what each slot gets."""
        budget = self.budget
        if self.classes == 1 or not isinstance(budget, Ledger):
            return budget.allocation(self.held, self.domain.size)
        return ClassAllocation(self.held, self.classes - 1, budget.period)

    def split_groups(self, groups: Sequence[GroupBudget]) -> tuple[list[bool], tuple[GroupBudget, ...]]:
        """Say which groups go into the tree, and what it leaves the mechanism: a group below its share stays out."""
        if self.accumulate is None:
            return [False] * len(groups), tuple(groups)
        part = self.accumulate.epsilon.units
        fed = [0 < part < group.epsilon.units for group in groups]
        rest = [Epsilon(group.epsilon.units - part * into) for group, into in zip(groups, fed, strict=True)]
        return fed, tuple(replace(group, epsilon=epsilon) for group, epsilon in zip(groups, rest, strict=True))

    def split(self, epsilon: Epsilon) -> tuple[Epsilon, Epsilon]:
        """Split a slot's budget between tree and mechanism, which has all of it if the tree's part is larger."""
        part = 0 if self.accumulate is None else self.accumulate.epsilon.units
        part = part if part <= epsilon.units else 0
        return Epsilon(part), Epsilon(epsilon.units - part)

    # Beside the other streams of a store.

    def check_new(self, others: Mapping[str, DeclaredOptions], *, separate: bool) -> None:
        """Refuse a second stream without a name, and a silent ε of its own beside streams that have one."""
        there = [name for name, each in others.items() if each.asked]
        if not self.name and there:
            raise OptionError(f"`name` is required: the store has {name_stream(there[0])} already.", options=("name",))
        pools = {options.pool for options in others.values()}
        if pools and pool_of(self.name, self.ledger) not in pools and not separate:
            raise OptionError(
                "this stream would have an ε of its own, which adds to that of the store's other streams: give it "
                "their budget (`Ledger` with the same ε), or say `separate=True`.",
                options=("separate",),
            )

    def check_change(self, known: DeclaredOptions, *, change: bool) -> None:
        """Refuse other options than the stream was started with, unless a change is meant that may be made."""
        if known.end is not None:
            raise StateError(STOPPED, options=("name",))
        different = self.different(known)
        may_change = different <= CHANGEABLE and None not in (self.ledger, known.ledger)
        if not change:
            names = ", ".join(sorted(different - {"epsilon"}))
            if "epsilon" in different:
                further = f" Further options differ, too: {names}." if names else ""
                raise StateError(other_epsilon(known.epsilon, self.epsilon) + further, options=("epsilon",))
            offered = may_change and not isinstance(self.domain, Texts)  # a discovery is begun anew
            public = ", or `change=True` where a public change is meant" if offered else ""
            raise StateError(
                f"the stored stream has other options ({names}): use those it was started with, or another "
                f"`name`{public}.",
                options=("name", "change"),
            )
        if not may_change:
            raise OptionError(
                "only domain, mechanism, compression and a ledger's per-slot budget may change in mid-stream, and a "
                "quota may grow; anything else would be another promise."
            )

    def different(self, known: DeclaredOptions) -> set[str]:
        """Return the names of the options that are not as known."""
        mine, theirs = self.to_options(), known.stated
        names = {
            "epsilon" if name == "epsilon_units" else name
            for name in mine.keys() | theirs.keys()
            if mine.get(name) != theirs.get(name)
        }
        # Parts of the budget that are parts of the promise: what may change of a budget does not include them.
        fixed = {"period": self.period != known.period, "quota": (self.quota is None) != (known.quota is None)}
        return names | {name for name, other in fixed.items() if other}


def other_epsilon(stored: Epsilon, given: Epsilon) -> str:
    """Return the sentence that refuses another ε than the stored one.

    >>> other_epsilon(Epsilon.at_most(1), Epsilon.at_most(2))
    'stored is ε = 1, given is ε = 2: ε never changes.'
    """
    return f"stored is ε = {float(stored):.12g}, given is ε = {float(given):.12g}: ε never changes."


def make_options(
    *,
    domain: Domain | str,
    epsilon: Epsilon,
    slots: Slots | None,
    start: str | datetime | None,
    budget: Ledger | Converging | None,
    mechanism: str | Mechanism[object],
    compression: Compression,
    accumulate: PrefixTree | None,
    name: str,
    separate: bool,
    ids: str | None,
) -> StreamOptions:
    """Return the options that the arguments of `Stream` mean; refuse what no stream takes."""
    if domain == "discover":
        domain = Discovered(Texts(LONGEST_TEXT))
    if not isinstance(domain, Domain):
        raise OptionError('`domain` must be a domain, for example dpi.Categories([...]), or "discover".')
    if ids is not None and ids not in IDS:
        raise OptionError(f"`ids` must be {' or '.join(IDS)}. Got {ids!r}.")
    budget = Ledger() if budget is None else budget
    if not isinstance(budget, Ledger | Converging):
        raise OptionError(
            "`budget` must be a Ledger or a Converging: for an amount that a slot costs, say "
            f"budget=dpi.Ledger(per_slot={budget!r})."
            if isinstance(budget, int | float | str)
            else "`budget` must be a Ledger or a Converging, for example budget=dpi.Ledger(per_slot=0.05)."
        )
    chosen = mechanism_named(mechanism) if isinstance(mechanism, str) else mechanism
    if isinstance(domain, Discovered) and not chosen.discovers:
        chosen = cast("Mechanism[object]", Discovering(chosen))
    return StreamOptions(
        domain=domain,
        epsilon=epsilon,
        slots=slots,
        start=None if start is None else need_clock(slots, "start").boundary(start, "start"),
        budget=budget,
        mechanism=chosen,
        compression=totals if domain.summed and type(compression) is Normalise else compression,
        accumulate=accumulate,
        name=name,
        ledger=None if isinstance(budget, Converging) else f"stream {name}" if separate else "",
        ids="" if ids is None else ids,
    )


def need_clock(slots: Slots | None, what: str) -> Slots:
    """Return the clock of a stream, for what cannot do without; refuse a stream that has none."""
    if slots is None:
        raise OptionError(f"`{what}` needs a stream with a clock: give `slot`, for example slot='1h'.")
    return slots
