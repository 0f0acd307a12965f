"""A stream: the one object that ties domain, slots, compression, budget and brain together.

It sees events, one slot at a time, and lets out releases. What it keeps of a slot is the noisy measurement's effect
on the brain's public state, and the accounts; events and histograms are gone when `release` returns.

**Guarantee.** All releases together are ε-DP at user level, for ever. *Why:* each slot's measurement loses at most
ε_t·w_{u,t} about user u (the brain's guarantee on a histogram that u moves by at most w_{u,t} units), the rest of the
release is a function of public state, and Σ_t ε_t·w_{u,t} ≤ ε by the ledger's or the series' guarantee.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from dpi import saved
from dpi.accumulation import Accumulation, users_of
from dpi.brain import brain_named
from dpi.brain.base import Brain, Floats
from dpi.budget.epsilon import Amount, Epsilon
from dpi.budget.ledger import Accounts, Bill
from dpi.budget.options import Converging, Ledger
from dpi.compression import Compression, Histogram, WholePDF, compress, normalise
from dpi.domain import Domain
from dpi.errors import ClockError, OptionError, SchemaError, StateError
from dpi.integers import Integers
from dpi.noise import Source, SystemSource
from dpi.prefix_tree import PrefixSums, PrefixTree
from dpi.release import Release
from dpi.slots import Slots
from dpi.tables import Table, take

if TYPE_CHECKING:
    import os

    import polars as pl


class Stream:
    """Releases of one stream, slot after slot.

    `budget` is `Ledger()` (accounts for every user; the default) or `Converging(series)`. `brain` is "boosted"
    (default) or a brain object. With `accumulate=PrefixTree(per_slot=…)` a part of each slot's budget goes to the
    accumulative PDF, which is otherwise made of the slots' own measurements. Streams that share `accounts` share one
    ε; each then needs a `name` of its own.

    >>> import dpi
    >>> stream = dpi.Stream(domain=dpi.Categories(["DE", "FR"]), epsilon=1, budget=dpi.Ledger(per_slot=0.05))
    >>> release = stream.release(users=["ada", "bob"], values=["DE", "FR"])
    >>> release.slot, round(float(release.pdf.sum()), 9), release.epsilon_spent
    (0, 1.0, 0.0499...)
    """

    def __init__(
        self,
        *,
        domain: Domain,
        epsilon: Amount,
        slot: str | None = None,
        origin: str | datetime = "1970-01-01",
        zone: str = "UTC",
        budget: Ledger | Converging | None = None,
        brain: str | Brain[object] = "boosted",
        compression: Compression = normalise,
        accumulate: PrefixTree | None = None,
        accounts: Accounts | None = None,
        name: str = "",
        key: bytes | None = None,
        unsafe_source: Source | None = None,
    ) -> None:
        if not isinstance(domain, Domain):
            raise OptionError("`domain` must be a domain, for example dpi.Categories([...]).")
        if accumulate is not None and not isinstance(accumulate, PrefixTree):
            raise OptionError("`accumulate` must be None or a PrefixTree(per_slot=...).")
        if accumulate is not None and isinstance(compression, WholePDF):
            raise OptionError("`accumulate` needs a compression that one user moves by one unit: use `normalise`.")
        self.domain = domain
        self.epsilon = Epsilon.at_most(epsilon)
        self.slots = None if slot is None else Slots(slot, origin=origin, zone=zone)
        self.budget = Ledger() if budget is None else budget
        self.brain: Brain[object] = brain_named(brain) if isinstance(brain, str) else brain
        self.compression = compression
        self.accumulate = accumulate
        self.name = name
        self._source: Source = SystemSource() if unsafe_source is None else unsafe_source
        self._key = secrets.token_bytes(32) if key is None else key
        self._accounts = self._open_accounts(accounts)
        self._allocation = self.budget.allocation(self.epsilon, domain.size)
        self._state = self.brain.initial(domain)
        self._offer: Epsilon | None = None
        self._last: int | None = None
        self._spent = 0
        self._accumulation = Accumulation.of(domain.size)
        self._tree = None if accumulate is None else accumulate.planted(domain.size, self._source)

    def _open_accounts(self, accounts: Accounts | None) -> Accounts | None:
        if isinstance(self.budget, Converging):
            if accounts is not None:
                raise OptionError("a converging budget has no accounts to share; give `budget=Ledger(...)`.")
            return None
        if accounts is None:
            return self.budget.accounts(self.epsilon, self._key)
        if not self.name:
            raise OptionError("a stream that shares `accounts` needs a `name` of its own.")
        if accounts.epsilon != self.epsilon:
            raise OptionError("`epsilon` must be that of the shared accounts.")
        if (accounts.policy, accounts.period) != (self.budget.policy, self.budget.period):
            raise OptionError("`policy` and `period` must be those of the shared accounts.")
        return accounts

    def __repr__(self) -> str:
        return (
            f"Stream(domain={self.domain!r}, epsilon={float(self.epsilon):g}, budget={self.budget!r}, "
            f"brain={self.brain!r}, compression={self.compression!r})"
        )

    @property
    def guarantee(self) -> str:
        """What is promised, in words."""
        period = None if self._accounts is None else self._accounts.period
        unit = "for ever" if period is None else f"per epoch of {period} slots"
        scope = "all streams of these accounts together" if self.name else "this stream"
        kept = "a converging series" if self._accounts is None else "accounts of every user"
        return (
            f"Pure differential privacy, ε = {float(self.epsilon):g} per user {unit}, for {scope}; "
            f"neighbours differ in all events of one user. Kept by {kept}."
        )

    # One slot.

    def release(self, users: object, values: object, *, slot: int | None = None) -> Release:
        """Close a slot: measure its events once, pay, and release.

        Every slot is released, an empty one too. Without `slot` it is the one after the last. A column that cannot be
        read raises before anything is drawn from data or paid, and the slot can be closed again.
        """
        number = self._next(slot)
        bills: list[Bill] = []
        epsilon = self._offered()

        def weigh(ids: pl.Series) -> Integers:
            assert self._accounts is not None  # noqa: S101 - `weigh` is used with accounts only
            whole = self.brain.whole_weights or isinstance(self.compression, WholePDF)
            share = self._allocation.share
            bills.append(self._accounts.bill(ids, epsilon, number, share=share, whole=whole, stream=self.name))
            return bills[-1].weights

        weights = None if self._accounts is None else weigh
        histogram = compress(users, values, self.domain, method=self.compression, weights=weights)
        return self._close(number, epsilon, histogram, bills)

    def release_counts(self, histogram: Histogram, *, slot: int | None = None) -> Release:
        """Close a slot whose histogram was made from declared counts (`dpi.counts`); needs a converging budget."""
        if self._accounts is not None:
            raise OptionError("counts have no user ids, so no ledger can be kept: use a converging budget.")
        if histogram.grains.size != self.domain.size:
            raise OptionError(f"`histogram` must have {self.domain.size} bins.")
        return self._close(self._next(slot), self._offered(), histogram, [])

    def _next(self, slot: int | None) -> int:
        following = 0 if self._last is None else self._last + 1
        if slot is None:
            return following
        if self._last is not None and slot != following:
            raise ClockError(f"slots are released one after the other: {following} is next.")
        return slot

    def _offered(self) -> Epsilon:
        """The slot's budget: drawn once, and kept until the slot is closed, so that a retry changes nothing."""
        if self._offer is None:
            self._offer = self._allocation.draw(self._source)
        return self._offer

    def _close(self, number: int, epsilon: Epsilon, histogram: Histogram, bills: list[Bill]) -> Release:
        to_tree, to_brain = self._split(epsilon)
        measurement = self.brain.measure(self._state, histogram, to_brain, number, self._source)
        tree = self._tree.added(histogram, self._source) if self._tree is not None and to_tree.units else self._tree
        measurement = replace(measurement, partial=self._accounts is not None and self._spent >= self.epsilon.units)
        if self._accounts is not None:
            self._accounts.debit(bills[0])
        self._state, estimate = self.brain.update(self._state, measurement)
        self._offer, self._last = None, number
        self._spent += epsilon.units
        weight = users_of(estimate)
        self._accumulation = self._accumulation.added(estimate)
        self._tree = tree.passed(weight * estimate.pdf) if tree is not None and not to_tree.units else tree
        entropy = -float(estimate.pdf @ np.log(np.maximum(estimate.pdf, 1e-300)))
        self._allocation.observe(weight, float(np.exp(entropy)))
        spent = min(self.epsilon.units, self._spent)
        guarantee = self.guarantee
        if histogram.assumption:
            guarantee += f" Assumed: {histogram.assumption}."
        return Release(
            domain=self.domain,
            pdf=estimate.pdf,
            variance=estimate.variance,
            skew=estimate.skew,
            total=float(estimate.total),
            total_variance=float(estimate.total_variance),
            accumulated=self._accumulated(),
            slot=number,
            start=None if self.slots is None else self.slots.start(number).isoformat(),
            epsilon=float(epsilon),
            epsilon_spent=float(Epsilon(spent)),
            guarantee=guarantee,
            certificate={
                "mechanism": repr(self.brain),
                "adjacency": "all events of one user",
                "scope": self.name or "stream",
                "epsilon_units": epsilon.units,
                "epsilon_spent_units": spent,
                "epsilon_total_units": self.epsilon.units,
                "options": self.digest,
            },
        )

    def _split(self, epsilon: Epsilon) -> tuple[Epsilon, Epsilon]:
        """The slot's budget for the tree and for the brain; it is for the brain alone if the tree's part is larger."""
        part = 0 if self.accumulate is None else self.accumulate.epsilon.units
        part = part if part <= epsilon.units else 0
        return Epsilon(part), Epsilon(epsilon.units - part)

    def _accumulated(self) -> Floats:
        tree, sums = self._tree, self._accumulation
        return (sums if tree is None else sums.beside(tree.sums(), tree.variance, tree.nodes)).pdf()

    # Many slots.

    def replay(
        self,
        events: object,
        *,
        start: str | datetime,
        end: str | datetime,
        user: str = "user",
        time: str = "time",
        value: str | Mapping[str, str] = "value",
        unit: str | None = None,
    ) -> Iterator[Release]:
        """Release every slot of the public period [start, end), empty ones too.

        `events` is a table: a data frame of any library, a mapping of columns, or an iterable of mappings. `value`
        names the column of values or, for a Product domain, a column for each part. Events outside the period, or
        with a time that cannot be read, are dropped, each by its own time.
        """
        if self.slots is None:
            raise OptionError("`replay` needs a stream with a clock: give `slot`, for example slot='1h'.")
        first, last = self.slots.number(start), self.slots.number(end)
        for moment, number, name in ((start, first, "start"), (end, last, "end")):
            if self.slots.instant(moment) != self.slots.instant(self.slots.start(number)):
                raise OptionError(f"`{name}` must be the border of a slot. Got {moment!r}.")
        if last <= first:
            raise OptionError("`end` must be after `start`.")
        self._next(first)
        return self._replay(Table(events), first, last, user, time, value, unit)

    def _replay(
        self,
        table: Table,
        first: int,
        last: int,
        user: str,
        time: str,
        value: str | Mapping[str, str],
        unit: str | None,
    ) -> Iterator[Release]:
        assert self.slots is not None  # noqa: S101 - `replay` has checked
        numbers = self.slots.numbers(table.column(time), unit)
        order = np.argsort(numbers, kind="stable")
        borders = np.searchsorted(numbers[order], np.arange(first, last + 1))
        users = table.column(user)
        parts = value if isinstance(value, Mapping) else {"": value}
        columns = {part: table.column(name) for part, name in parts.items()}
        if {len(users), *(len(column) for column in columns.values())} != {numbers.size}:
            raise SchemaError("`events` must have columns of the same length.")
        for number in range(first, last):
            rows = order[borders[number - first] : borders[number - first + 1]]
            values = {part: take(column, rows) for part, column in columns.items()}
            yield self.release(take(users, rows), values.get("", values), slot=number)

    # Saving.

    @property
    def digest(self) -> str:
        """A fingerprint of all public options."""
        options = {
            "domain": self.domain.digest,
            "epsilon": self.epsilon.units,
            "slots": repr(self.slots),
            "budget": repr(self.budget),
            "brain": repr(self.brain),
            "compression": repr(self.compression),
            "accumulate": repr(self.accumulate),
            "name": self.name,
        }
        return hashlib.blake2b(json.dumps(options, sort_keys=True).encode(), digest_size=32).hexdigest()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything needed to resume: private (it holds accounts and key), readable by the owner only.

        Accounts that are shared with other streams are not written: save them by themselves (`accounts.snapshot()`).
        """
        saved.write(
            path,
            {
                "options": self.digest,
                "last": self._last,
                "spent": self._spent,
                "offer": None if self._offer is None else self._offer.units,
            },
            {
                "key": self._key,
                "allocation": self._allocation.snapshot().encode(),
                "accounts": b"" if self._accounts is None or self.name else self._accounts.snapshot(),
                "brain": self.brain.to_bytes(self._state),
                "accumulated": self._accumulation.to_bytes(),
                "tree": b"" if self._tree is None else self._tree.to_bytes(),
            },
        )

    def load(self, path: str | os.PathLike[str]) -> None:
        """Resume exactly where `save` was called; refuses a file that is damaged or of a stream with other options."""
        head, parts = saved.read(path)
        if head.get("options") != self.digest:
            raise StateError("the saved stream has other options; resume it with the options it was started with.")
        try:
            allocation = self.budget.allocation(self.epsilon, self.domain.size)
            allocation.restore(parts["allocation"].decode())
            accounts = self._accounts
            if isinstance(self.budget, Ledger) and not self.name:
                accounts = self.budget.accounts(self.epsilon, parts["key"])
                accounts.restore(parts["accounts"])
            elif accounts is not None and accounts.last_slot(self.name) != head["last"]:
                raise StateError("the shared accounts are not at the slot at which this stream was saved.")
            state = self.brain.from_bytes(self.domain, parts["brain"])
            accumulation = Accumulation.from_bytes(self.domain.size, parts["accumulated"])
            tree = None
            if self.accumulate is not None:
                tree = PrefixSums.from_bytes(self.accumulate, self.domain.size, parts["tree"])
            last, spent, offer = head["last"], head["spent"], head["offer"]
        except (KeyError, UnicodeError):
            raise StateError("the saved stream is damaged: a part is missing.") from None
        self._key, self._allocation, self._accounts, self._state = parts["key"], allocation, accounts, state
        self._accumulation, self._tree, self._last, self._spent = accumulation, tree, last, spent
        self._offer = None if offer is None else Epsilon(offer)
