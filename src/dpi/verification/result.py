"""What a verification finds."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Span:
    """The first and the last slot of a stream that were seen, and when they began, if the stream has a clock."""

    first: int
    last: int
    first_start: str | None = None
    last_start: str | None = None


@dataclass(frozen=True)
class Restored:
    """A copy of the store that had forgotten slots went on: an entry of the chain says so, and what was charged."""

    entry: int
    lost_entry: int | None
    lost_head: str
    """The last entry of the chain that was lost, and its digest: who has it can check what lay before it."""
    slots: dict[str, tuple[int, int]]
    """By stream the first and the last slot that were lost; their releases were published."""
    charged: dict[str, float]
    """By ledger what an account was charged that was not there yet; others at most as much, or by their class."""


@dataclass(frozen=True)
class Verification:
    """What was found."""

    entries: int
    """How many certificates were seen."""
    head: str
    problems: tuple[str, ...]
    signed: bool | None = None
    """Whether every entry has a valid signature; None if no key was given to check with."""
    accounts_checked: bool = False
    spent: dict[str, float] = field(default_factory=dict)
    """The most that each stream can have cost any one user so far."""
    spent_by_all: float | None = None
    """The most that all streams of the store together can have cost any one user; None where not all were seen."""
    first_entry: int = 0
    last_entry: int = -1
    """Numbers of the first and the last entry of the chain that were seen."""
    spans: dict[str, Span] = field(default_factory=dict)
    """The slots of each stream that were seen."""
    missing: tuple[str, ...] = ()
    """What is known to be there and was not seen, in words; it need not be wrong."""
    restored: tuple[Restored, ...] = ()
    """Where a copy of the store went on that lacked slots."""
    end_known: bool = False
    """Whether something beside it told where the chain ends; a chain alone cannot tell what was cut off."""

    thinned: dict[str, int] = field(default_factory=dict)
    """By stream, the slot before which measurements were dropped (`dpi ledger compact`): of those slots it
    cannot be checked that a release is what its measurement gives."""

    @property
    def intact(self) -> bool:
        """Whether nothing is wrong with what was seen."""
        return not self.problems

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong, and nothing is known to be missing."""
        return not self.problems and not self.missing
