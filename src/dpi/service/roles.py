"""Who may do what: one table of roles, which the routes name and the reference prints.

An **admin** opens and changes streams, and sees what an operator must: private things too. A **curator** brings events,
and sees the same. An **analyst** sees releases and asks them. An **auditor** sees the chain, and what verifies
it. No role sees more of events than that a batch was kept.
"""

from __future__ import annotations

from dataclasses import dataclass

ROLES = ("admin", "curator", "analyst", "auditor")

ANYBODY: frozenset[str] | None = None
"""No token is asked for."""
EVERYBODY = frozenset(ROLES)
"""Every token."""
ADMIN = frozenset({"admin"})
CURATOR = frozenset({"curator"})
OPERATOR = frozenset({"admin", "curator"})
OVERSEER = frozenset({"admin", "auditor"})
READER = frozenset({"admin", "curator", "analyst"})


@dataclass(frozen=True)
class Caller:
    """Who has sent a request."""

    id: str
    roles: frozenset[str]
    """One for a token of the service's own; several, perhaps, for one of an issuer."""

    def may(self, roles: frozenset[str]) -> str | None:
        """The role by which something is open to them that is open to these roles; None if it is not."""
        return min(self.roles & roles, default=None)
