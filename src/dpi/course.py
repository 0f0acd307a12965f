"""The course of a stream: where it is between two slots, and how a paid slot becomes a release.

`Course.after` is a pure function of the course and the noisy measurement. So a slot that was paid for, and whose
release was lost in a crash, gets the same bytes when it is made again. Sees no event, no histogram and no account.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpi._version import __version__
from dpi.accumulation import Accumulation, users_of
from dpi.brain.base import Floats, Measurement
from dpi.budget.allocation import Allocation
from dpi.budget.epsilon import Epsilon
from dpi.budget.options import Ledger
from dpi.chain import Entry, most_spent
from dpi.noise import Source
from dpi.prefix_tree import PrefixSums
from dpi.release import Release, content_digest
from dpi.setting import Setting
from dpi.store.base import Paid, Progress

PROGRAM = f"dpi {__version__}"


@dataclass(frozen=True, eq=False)
class Course:
    """A stream between two slots: all of it public, but for open nodes of a tree."""

    setting: Setting
    state: object
    """What the brain remembers."""
    accumulation: Accumulation
    tree: PrefixSums | None
    first: int | None = None
    last: int | None = None
    spent: int = 0
    """Sum of the budgets so far, in units."""

    @classmethod
    def initial(cls, setting: Setting, source: Source) -> Course:
        """Before the first slot."""
        tree = None if setting.accumulate is None else setting.accumulate.planted(setting.domain.size, source)
        return cls(setting, setting.brain.initial(setting.domain), Accumulation.of(setting.domain.size), tree)

    @classmethod
    def resumed(cls, setting: Setting, at: Progress, source: Source) -> Course:
        """As a store has kept it; a tree that was not kept is planted anew."""
        bins = setting.domain.size
        tree = _tree(setting, at.tree) if at.tree else cls.initial(setting, source).tree
        state = setting.brain.from_bytes(setting.domain, at.brain())
        return cls(setting, state, Accumulation.from_bytes(bins, at.accumulated), tree, at.first, at.last, at.spent)

    def after(self, paid: Paid, allocation: Allocation, guarantee: str) -> tuple[Course, Release]:
        """The course after a paid slot, and the slot's release without its certificate.

        The allocation hears what the release says.
        """
        setting, epsilon = self.setting, Epsilon(paid.epsilon)
        to_tree, to_brain = setting.split(epsilon)
        values = np.frombuffer(paid.values, dtype="<i8").astype(np.int64)
        state, estimate = setting.brain.update(self.state, Measurement(paid.slot, to_brain, values, paid.partial))
        accumulation, tree, users = self.accumulation.added(estimate), _tree(setting, paid.tree), users_of(estimate)
        if tree is not None and not to_tree.units:
            tree = tree.passed(users * estimate.pdf)
        entropy = -float(estimate.pdf @ np.log(np.maximum(estimate.pdf, 1e-300)))
        allocation.observe(users, float(np.exp(entropy)))
        first = paid.slot if self.first is None else self.first
        after = Course(setting, state, accumulation, tree, first, paid.slot, self.spent + paid.epsilon)
        release = Release(
            domain=setting.domain,
            pdf=estimate.pdf,
            variance=estimate.variance,
            skew=estimate.skew,
            total=float(estimate.total),
            total_variance=float(estimate.total_variance),
            accumulated=after._accumulated(),
            slot=paid.slot,
            start=None if setting.slots is None else setting.slots.start(paid.slot).isoformat(),
            epsilon=float(epsilon),
            epsilon_spent=float(Epsilon(after.most_spent)),
            guarantee=guarantee + (f" Assumed: {paid.assumption}." if paid.assumption else ""),
            certificate={},
        )
        return after, release

    def _accumulated(self) -> Floats:
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
        return most_spent(self.setting.options(), self.first, self.last, self.spent)

    def facts(self, paid: Paid, content: bytes) -> Entry:
        """What the certificate of the slot just released states."""
        return {
            "kind": "release",
            "format": 1,
            "stream": self.setting.name,
            "slot": paid.slot,
            "mechanism": repr(self.setting.brain),
            "adjacency": "all events of one user",
            "epsilon_units": paid.epsilon,
            "epsilon_spent_units": self.most_spent,
            "epsilon_total_units": self.setting.epsilon.units,
            "options": self.setting.digest,
            "measurement": paid.digest,
            "release": content_digest(content),
            "program": PROGRAM,
        }

    def progress(self, allocation: Allocation) -> Progress:
        """For a store, after a slot."""
        assert self.first is not None  # noqa: S101 - a slot was released
        assert self.last is not None  # noqa: S101 - idem
        return Progress(
            first=self.first,
            last=self.last,
            spent=self.spent,
            allocation=allocation.snapshot(),
            brain=lambda: self.setting.brain.to_bytes(self.state),
            accumulated=self.accumulation.to_bytes(),
            tree=b"" if self.tree is None else self.tree.to_bytes(),
        )

    def changed(self, before: Progress, different: set[str]) -> Progress:
        """Where the stream goes on after a change of options, `self` being its beginning under the new ones.

        A brain for another domain or of another kind starts anew, and so do sums over another domain.
        """
        allocation = self.setting.budget.allocation(self.setting.epsilon, self.setting.domain.size)
        anew = replace(self, first=before.first, last=before.last, spent=before.spent).progress(allocation)
        return replace(
            anew,
            brain=anew.brain if different & {"domain", "brain"} else before.brain,
            accumulated=anew.accumulated if "domain" in different else before.accumulated,
            tree=anew.tree if "domain" in different else before.tree,
        )


def _tree(setting: Setting, data: bytes) -> PrefixSums | None:
    return None if setting.accumulate is None else PrefixSums.from_bytes(setting.accumulate, setting.domain.size, data)
