"""The state of a stream: where it is between two slots, and what a store and a certificate hold of that.

How a paid slot becomes a release and the next state is `dpi.stream.closing`. Sees no event, no histogram and no
account.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from dpi._version import __version__
from dpi.budget.allocation import Allocation
from dpi.budget.class_allocation import bounds_of, classes_of
from dpi.budget.classes import ClassBudget
from dpi.budget.epsilon import UNITS, Epsilon
from dpi.budget.ledger import Ledger
from dpi.certificates.chain import Entry, most_spent
from dpi.errors import OptionError
from dpi.mechanism.base import Floats
from dpi.noise import RandomSource
from dpi.release import content_digest
from dpi.store.base import Checkpoint, PaidSlot
from dpi.stream.accumulation import Accumulation
from dpi.stream.options import StreamOptions
from dpi.stream.prefix_tree import PrefixSums

PROGRAM = f"dpi {__version__}"


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
        """Before the first slot."""
        tree = None if setting.accumulate is None else setting.accumulate.planted(setting.domain.size, source)
        divided = {} if setting.classes == 1 else {"classes": setting.classes}
        state = setting.mechanism.initial(setting.domain, **divided)
        return cls(setting, state, Accumulation.of(setting.domain.size), tree)

    @classmethod
    def resumed(cls, setting: StreamOptions, at: Checkpoint, source: RandomSource) -> StreamState:
        """As a store has kept it; a tree that was not kept is planted anew."""
        bins = setting.domain.size
        tree = tree_of(setting, at.tree) if at.tree else cls.initial(setting, source).tree
        state = setting.mechanism.from_bytes(setting.domain, at.mechanism())
        return cls(setting, state, Accumulation.from_bytes(bins, at.accumulated), tree, at.first, at.last, at.spent)

    def accumulated(self) -> Floats:
        """The PDF over all slots so far."""
        tree = self.tree
        sums = self.accumulation if tree is None else self.accumulation.beside(tree.sums(), tree.variance, tree.nodes)
        return sums.pdf()

    def partial(self, epsilon: Epsilon, share: Fraction) -> bool:
        """Whether accounts may fall short of the next slot, of which it takes `share` at most: some then pay less."""
        budget, left = self.setting.budget, self.setting.epsilon.units - self.spent
        return isinstance(budget, Ledger) and budget.returning and left * share < epsilon.units

    @property
    def most_spent(self) -> int:
        """The most that any one user can have lost so far, in units."""
        if self.first is None or self.last is None:
            return 0
        return most_spent(self.setting.epsilon.units, self.setting.period, self.first, self.last, self.spent)

    def facts(self, paid: PaidSlot, content: bytes) -> Entry:
        """What the certificate of the slot just released states."""
        spent, total = self.most_spent, self.setting.epsilon
        return {
            "kind": "release",
            "format": 2,
            "stream": self.setting.name,
            "slot": paid.slot,
            "mechanism": self.setting.mechanism.name,
            "parameters": self.setting.mechanism.parameters,
            "adjacency": "all events of one user",
            "epsilon": float(Epsilon(paid.epsilon)),
            "epsilon_spent": spent / UNITS,  # with refills it may be more than one `Epsilon` can be
            "epsilon_total": float(total),
            "epsilon_units": paid.epsilon,
            "epsilon_spent_units": spent,
            "epsilon_total_units": total.units,
            "options": self.setting.digest,
            "measurement": paid.digest,
            "release": content_digest(content),
            "program": PROGRAM,
            **({"classes": [_stated(due) for due in classes]} if (classes := classes_of(paid.allocation)) else {}),
        }

    def progress(self, allocation: Allocation) -> Checkpoint:
        """For a store, after a slot."""
        assert self.first is not None  # noqa: S101 - a slot was released
        assert self.last is not None  # noqa: S101 - idem
        return Checkpoint(
            first=self.first,
            last=self.last,
            spent=self.spent,
            allocation=allocation.snapshot(),
            mechanism=lambda: self.setting.mechanism.to_bytes(self.state),
            accumulated=self.accumulation.to_bytes(),
            tree=b"" if self.tree is None else self.tree.to_bytes(),
        )

    def changed(self, before: Checkpoint, different: set[str]) -> Checkpoint:
        """Where the stream goes on after a change of options, `self` being its beginning under the new ones.

        A mechanism for another domain or of another kind starts anew, and so do sums over another domain.
        """
        setting, by_class = self.setting, bounds_of(before.allocation) is not None
        if by_class != (setting.classes > 1):
            raise OptionError("a stream measures users by class from its first slot on, or never: use another `name`.")
        allocation = setting.allocation()
        if by_class:
            allocation.restore(before.allocation)  # nobody's payments are forgotten
        anew = replace(self, first=before.first, last=before.last, spent=before.spent).progress(allocation)
        return replace(
            anew,
            mechanism=anew.mechanism if different & {"domain", "mechanism"} else before.mechanism,
            accumulated=anew.accumulated if "domain" in different else before.accumulated,
            tree=anew.tree if "domain" in different else before.tree,
        )


def _stated(due: ClassBudget) -> Entry:
    """The budget of one class, in a certificate."""
    return {
        "epsilon": float(due.epsilon),
        "epsilon_units": due.epsilon.units,
        "share_steps": due.steps,
        "most_left_units": due.most_left,
    }


def tree_of(setting: StreamOptions, data: bytes) -> PrefixSums | None:
    """The tree of sums as a store has kept it; None for a stream without one."""
    return None if setting.accumulate is None else PrefixSums.from_bytes(setting.accumulate, setting.domain.size, data)
