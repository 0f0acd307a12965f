"""What a stream is: its public options, their fingerprint, and the promise they make, in words.

Nothing here is private, and nothing here is read off data. Options that are part of the promise never change; the
others may change in mid-stream, by an entry of the chain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dpi.brain.base import Brain
from dpi.budget.epsilon import Epsilon
from dpi.budget.options import Converging, Ledger
from dpi.chain import canonical, options_digest
from dpi.compression import Compression, WholePDF
from dpi.domain import Domain
from dpi.errors import OptionError, StateError
from dpi.prefix_tree import PrefixTree
from dpi.slots import Slots

Options = Mapping[str, object]

CHANGEABLE = {"domain", "brain", "compression", "budget"}
"""Options that may change in mid-stream; the others are part of the promise."""


@dataclass(frozen=True)
class Setting:
    """The options of one stream."""

    domain: Domain
    epsilon: Epsilon
    slots: Slots | None
    start: int | None
    """The first slot, if it was declared."""
    budget: Ledger | Converging
    brain: Brain[object]
    compression: Compression
    accumulate: PrefixTree | None
    name: str
    ledger: str | None
    """The ledger that pays: "" is the one that streams of a store share; None without accounts."""

    def __post_init__(self) -> None:
        if self.accumulate is not None and not isinstance(self.accumulate, PrefixTree):
            raise OptionError("`accumulate` must be None or a PrefixTree(per_slot=...).")
        if self.accumulate is not None and isinstance(self.compression, WholePDF):
            raise OptionError("`accumulate` needs a compression that one user moves by one unit: use `normalise`.")
        largest = self.brain.largest_sensitivity
        if largest is not None and self.compression.sensitivity > largest:
            raise OptionError(f"{type(self.brain).__name__} takes no {self.compression!r}: use `normalise`.")
        self.budget.allocation(self.epsilon, self.domain.size)  # refuses a budget that does not fit

    def options(self) -> dict[str, object]:
        """All of it as JSON values, as the chain states them."""
        return {
            "domain": self.domain.digest,
            "epsilon_units": self.epsilon.units,
            "slots": repr(self.slots),
            "start": self.start,
            "budget": repr(self.budget),
            "brain": repr(self.brain),
            "compression": repr(self.compression),
            "accumulate": repr(self.accumulate),
            "name": self.name,
            "ledger": self.ledger,
            "period": self.period,
        }

    @property
    def text(self) -> str:
        """The options as canonical text."""
        return canonical(self.options())

    @property
    def digest(self) -> str:
        """A fingerprint of the options."""
        return options_digest(self.text)

    @property
    def period(self) -> int | None:
        """Slots after which accounts are refilled, if they are."""
        return self.budget.period if isinstance(self.budget, Ledger) else None

    @property
    def whole_weights(self) -> bool:
        """Whether a user who cannot pay in full must not take part."""
        return self.brain.whole_weights or isinstance(self.compression, WholePDF)

    def split(self, epsilon: Epsilon) -> tuple[Epsilon, Epsilon]:
        """A slot's budget for the tree and for the brain; it is for the brain alone if the tree's part is larger."""
        part = 0 if self.accumulate is None else self.accumulate.epsilon.units
        part = part if part <= epsilon.units else 0
        return Epsilon(part), Epsilon(epsilon.units - part)

    # Beside the other streams of a store.

    def check_new(self, others: Mapping[str, Options], *, separate: bool) -> None:
        """Refuse a silent ε of its own beside streams that have one."""
        pools = {_pool(name, options) for name, options in others.items()}
        if pools and _pool(self.name, self.options()) not in pools and not separate:
            raise OptionError(
                "this stream would have an ε of its own, which adds to that of the store's other streams: give it "
                "their budget (`Ledger` with the same ε), or say `separate=True`."
            )

    def check_change(self, known: Options, *, change: bool) -> None:
        """Refuse other options than the stream was started with, unless a change is meant that may be made."""
        different = self.different(known)
        if not change:
            raise StateError(
                f"the stored stream has other options ({', '.join(sorted(different))}): use those it was started "
                "with, or another `name`, or `change=True` where a public change is meant."
            )
        if not different <= CHANGEABLE or None in (self.ledger, known["ledger"]):
            raise OptionError(
                "only domain, brain, compression and a ledger's per-slot budget may change in mid-stream; anything "
                "else would be another promise."
            )

    def different(self, known: Options) -> set[str]:
        """Names of the options that are not as known."""
        mine = self.options()
        return {key for key in mine.keys() | known.keys() if mine.get(key) != known.get(key)}

    def guarantee(self, streams: Mapping[str, Options]) -> str:
        """What is promised, in words, given all streams of the store."""
        unit = "for ever" if self.period is None else f"per epoch of {self.period} slots"
        kept = "a converging series" if self.ledger is None else "accounts of every user"
        pools = {_pool(name, options): options for name, options in streams.items()}
        scope, total = "this stream" if len(streams) == 1 else "all streams of this store together", ""
        if len(pools) > 1:
            scope = "this stream alone" if self.ledger != "" else "the streams of the shared ledger together"
            amounts = sum(int(str(options["epsilon_units"])) for options in pools.values())
            total = f" All streams of this store sum to {float(Epsilon(amounts)):g} per user."
        return (
            f"Pure differential privacy, ε = {float(self.epsilon):g} per user {unit}, for {scope}; "
            f"neighbours differ in all events of one user. Kept by {kept}.{total}"
        )


def _pool(name: str, options: Options) -> object:
    """What a stream's ε is spent from: a ledger, or a series of its own."""
    return ("series", name) if options["ledger"] is None else ("ledger", options["ledger"])
