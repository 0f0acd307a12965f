"""Who may do what: one table of roles, which the routes name and the reference prints.

An **admin** opens and changes streams, and sees what an operator must: private things too. A **curator** brings events,
and sees the same. An **analyst** sees releases and asks them. An **auditor** sees the chain, and what verifies
it. No role sees more of events than that a batch was kept.
"""

from __future__ import annotations

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
