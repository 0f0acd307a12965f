"""What a verification of the stored releases found: public facts only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Status:
    """The state of the chain of certificates; None means that it was not checked.

    >>> Status(entries=336, head="9f2c", chain_intact=True).sound
    True
    >>> Status(chain_intact=True, problems=("entry 7 is missing",)).sound
    False
    """

    entries: int = 0
    """How many certificates the chain holds."""
    head: str = ""
    """The hash of the newest certificate."""
    chain_intact: bool | None = None
    """Whether every certificate names the hash of the one before it."""
    signed: bool | None = None
    """Whether the head carries a valid signature."""
    curator_checked: bool | None = None
    """Whether the curator found no account above ε. Accounts are private: nobody else can check it."""
    streams: int = 1
    """How many streams the store has …"""
    spent: float | None = None
    """… and the most that one user can have lost by all of them together, if it is known."""
    problems: tuple[str, ...] = ()
    """What was found wrong, in words."""

    @property
    def sound(self) -> bool:
        """Whether nothing was found wrong; what was not checked counts as nothing found."""
        return not self.problems and False not in (self.chain_intact, self.signed, self.curator_checked)
