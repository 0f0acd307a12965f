"""The state of a stream: where it is between two slots, and what a store and a certificate hold of that.

How a paid slot becomes a release and the next state is `dpi.stream.closing`. Sees no event, no histogram and no
account.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial

from dpi.budget.allocation import Allocation
from dpi.budget.epsilon import Epsilon
from dpi.budget.ledger import Ledger
from dpi.certificates.chain import most_spent
from dpi.domain.overlap import Overlap
from dpi.errors import OlderState
from dpi.mechanism.base import Floats
from dpi.noise import RandomSource
from dpi.store.base import Checkpoint
from dpi.stream.accumulation import Accumulation
from dpi.stream.options import StreamOptions
from dpi.stream.prefix_tree import PrefixSums


@dataclass(frozen=True, eq=False)
class StreamState:
    """A stream between two slots: all of it public, but for open nodes of a tree."""

    setting: StreamOptions
    state: object
    """What the mechanism remembers."""
    accumulation: Accumulation
    tree: PrefixSums | None
    first: int | None = None
    last: int | None = None
    spent: int = 0
    """Sum of the budgets so far, in units; where users are measured by class, the most that one can have spent."""

    @classmethod
    def initial(cls, setting: StreamOptions, source: RandomSource) -> StreamState:
        """Return the state before the first slot."""
        return cls(setting, begun(setting), Accumulation.of(setting.domain.size), _planted(setting, source))

    @classmethod
    def resumed(
        cls, setting: StreamOptions, at: Checkpoint, source: RandomSource, anew: Callable[[], object]
    ) -> StreamState:
        """Read the state as a store has kept it; what was not kept starts anew.

        `anew` makes what the mechanism remembers of measurements, where an earlier version has kept it in another form.
        """
        domain = setting.domain
        sums = Accumulation.from_bytes(domain.size, at.accumulated) if at.accumulated else Accumulation.of(domain.size)
        return cls(
            setting=setting,
            state=_remembered(setting, at.mechanism(), anew),
            accumulation=sums,
            tree=tree_of(setting, at.tree) if at.tree else _planted(setting, source),
            first=at.first,
            last=at.last,
            spent=at.spent,
        )

    def accumulated(self) -> Floats:
        """Return the PDF over all slots so far."""
        tree = self.tree
        sums = self.accumulation if tree is None else self.accumulation.beside(tree.sums(), tree.variance, tree.nodes)
        return sums.pdf()

    def partial(self, epsilon: Epsilon, share: Fraction, slot: int) -> bool:
        """Return whether accounts may fall short of the next slot, which takes at most `share`: some then pay less."""
        budget, left = self.setting.budget, self.setting.held.units - self._taken(epsilon, slot)
        return isinstance(budget, Ledger) and budget.returning and left * share < epsilon.units

    def _taken(self, epsilon: Epsilon, slot: int) -> int:
        """Return the most that this stream can have taken from an account since it was filled, in units.

        Of accounts that are refilled that is told where all slots have cost the same; elsewhere all slots count.
        """
        period, first, last = self.setting.period, self.first, self.last
        if period is None or first is None or last is None or self.spent != (last - first + 1) * epsilon.units:
            return self.spent
        return (slot - max(first, slot // period * period)) * epsilon.units

    @cached_property
    def most_spent(self) -> int:
        """The most that any one user can have lost so far, in units."""
        if self.first is None or self.last is None:
            return 0
        return most_spent(self.setting.held.units, self.setting.period, self.first, self.last, self.spent)

    def progress(self, allocation: Allocation) -> Checkpoint:
        """Return what a store keeps after a slot."""
        assert self.first is not None  # noqa: S101 - a slot was released
        assert self.last is not None  # noqa: S101 - idem
        return Checkpoint(
            first=self.first,
            last=self.last,
            spent=self.spent,
            allocation=allocation.snapshot(),
            mechanism=partial(self.setting.mechanism.to_bytes, self.state),
            accumulated=self.accumulation.to_bytes(),
            tree=b"" if self.tree is None else self.tree.to_bytes(),
            digested=self.setting.mechanism.digested,
        )

    def adapted(self, setting: StreamOptions, source: RandomSource) -> StreamState:
        """Return the state before the first slot under other options.

        The estimator moves to another domain with what it knows (`Mechanism.adapt_to_domain`), and one with other
        options starts anew. Sums stay (`adapt_to_domain`). A function of public state and options; `source` is for the
        noise of a tree's new nodes alone.
        """
        old, new, sums, tree = self.setting.domain, setting.domain, self.accumulation, self.tree
        state = adapted(self.state, self.setting, setting)
        if old != new:
            overlap = Overlap.of(old, new)
            sums = sums.adapt_to_domain(overlap, new.size)
            tree = None if tree is None else tree.adapt_to_domain(overlap, new.size, source)
        return replace(self, setting=setting, state=state, accumulation=sums, tree=tree)


def adapted(state: object, before: StreamOptions, setting: StreamOptions) -> object:
    """Return what a mechanism remembers before the first slot under other options."""
    if setting.mechanism.to_options() != before.mechanism.to_options():
        return begun(setting)
    if before.domain != setting.domain:
        return setting.mechanism.adapt_to_domain(state, before.domain, setting.domain, **_divided(setting))
    return state


def _remembered(setting: StreamOptions, kept: bytes, anew: Callable[[], object]) -> object:
    if not kept:
        return begun(setting)
    try:
        return setting.mechanism.from_bytes(setting.domain, kept)
    except OlderState:
        return anew()


def begun(setting: StreamOptions) -> object:
    """Return what a mechanism remembers before its first slot."""
    return setting.mechanism.initial(setting.domain, **_divided(setting))


def _divided(setting: StreamOptions) -> dict[str, int]:
    """Say into how many classes, to a mechanism that knows of them; one that does not is not told."""
    return {} if setting.classes == 1 else {"classes": setting.classes}


def tree_of(setting: StreamOptions, data: bytes) -> PrefixSums | None:
    """Read the tree of sums as a store has kept it; None for a stream without one."""
    return None if setting.accumulate is None else PrefixSums.from_bytes(setting.accumulate, setting.domain.size, data)


def _planted(setting: StreamOptions, source: RandomSource) -> PrefixSums | None:
    return None if setting.accumulate is None else setting.accumulate.planted(setting.domain.size, source)
