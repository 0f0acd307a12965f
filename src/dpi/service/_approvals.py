"""Approval by a second administrator of what raises the most that a user can lose.

A stream with an ε of its own (`separate`, or a series of budgets) adds it to what the streams of a store promise
together, for ever. In a store that has streams the service opens such a stream only when two administrators have sent
the same request within a week. So the second one states all that is approved, and approves nothing unseen. No other act
raises the sum: ε, its renewal and its ledger change for nobody, and a further stream of a ledger shares its ε.

What was proposed stands in the log of acts, with the digest of the request; so a restart forgets nothing, and who has
proposed and who has opened a stream can be read there.

**What it does not do.** Who can write the store and its key, or make tokens, is the trusted curator, and needs nobody.

Sees public options and ids of tokens.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from dpi.certificates.declared import DeclaredOptions
from dpi.service._problems import Problem
from dpi.service.audit_log import AuditLog
from dpi.service.tokens import Tokens

PROPOSED = "stream proposed"
DAYS = 7
"""For which a proposal holds."""


class Unapproved(Problem):
    """A stream that one administrator alone does not open."""

    def __init__(self) -> None:
        super().__init__(
            403,
            "this stream has an ε of its own, which adds to what users can lose by the others. It waits for another "
            f"administrator: it is opened when they send the same request within {DAYS} days.",
        )


def adds_loss(pool: tuple[str, str], streams: Mapping[str, DeclaredOptions]) -> bool:
    """Return whether a new stream that spends from a pool raises what those of a store can cost a user: public."""
    return bool(streams) and pool not in {each.pool for each in streams.values()}


class Approvals:
    """Proposals of administrators, as the log of acts has them."""

    def __init__(self, acts: AuditLog, tokens: Tokens) -> None:
        self._acts, self._tokens = acts, tokens

    def propose(self, name: str, request: object, by: str) -> None:
        """Note that an administrator asks for a stream."""
        self._acts.note(PROPOSED, by=by, about={"stream": name, "request": digest_of(request)})

    def find(self, request: object, by: str) -> str | None:
        """Return the other administrator who has proposed the same of late, if one has and is one still."""
        since, wanted = datetime.now(UTC) - timedelta(days=DAYS), digest_of(request)
        for act in self._acts.entries():
            about, other = act.get("about"), str(act["by"])
            if act["act"] != PROPOSED or not isinstance(about, dict) or about.get("request") != wanted:
                continue
            if datetime.fromisoformat(str(act["at"])) > since and self._are_two(other, by):
                return other
        return None

    def _are_two(self, one: str, other: str) -> bool:
        """Return whether these are tokens of two people, as far as names tell, and that of the first still opens."""
        entries = {f"{each.role} {each.id}": each for each in self._tokens.entries()}
        first, second = entries.get(one), entries.get(other)
        if first is not None and not first.valid(datetime.now(UTC)):
            return False
        if first is not None and second is not None and first.name and first.name == second.name:
            return False
        return one != other


def digest_of(request: object) -> str:
    """Return the digest of a request, whatever the order of its fields."""
    return hashlib.sha256(msgspec.json.encode(request, order="deterministic")).hexdigest()
