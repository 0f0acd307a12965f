"""Tokens and roles: who may do what. Tokens are random, kept as hashes in a file of their own, with a role and an end.

An **admin** opens and changes streams, and sees what an operator must: private things too. A **curator** brings events,
and sees the same. An **analyst** sees releases and asks them. An **auditor** sees the chain, and what verifies
it. No role sees more of events than that a batch was kept.

A token is `dpi_<id>_<secret>`: the id finds the entry, the secret of 256 random bits is compared as a hash, in constant
time. A hash without salt or stretching is enough for a secret that nobody can guess. The file is read again when it has
changed, so that one that is revoked is refused from the next request on.

Sees secrets while they are checked; keeps hashes.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from dpi.errors import OptionError, StateError
from dpi.files import OWNER, lock_alone, write_file

ROLES = ("admin", "curator", "analyst", "auditor")

ANYBODY: frozenset[str] | None = None  # no token is asked for
EVERYBODY = frozenset(ROLES)  # every token
ADMIN = frozenset({"admin"})
CURATOR = frozenset({"curator"})
OPERATOR = frozenset({"admin", "curator"})
OVERSEER = frozenset({"admin", "auditor"})
READER = frozenset({"admin", "curator", "analyst"})
PREFIX = "dpi_"  # how a token begins
_NOBODY = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True)
class Caller:
    """The sender of a request."""

    id: str
    roles: frozenset[str]  # one for a token of the service's own; several, perhaps, for one of an issuer

    def may(self, roles: frozenset[str]) -> str | None:
        """Return the role by which they may do what these roles may; None if they may not."""
        return min(self.roles & roles, default=None)


@dataclass(frozen=True)
class Entry:
    """What is kept of a token."""

    id: str
    role: str
    hash: str
    name: str = ""  # whose it is, as the administrator wrote it
    expires: str | None = None
    revoked: bool = False

    def valid(self, now: datetime) -> bool:
        """Whether it still opens anything."""
        return not self.revoked and (self.expires is None or now < datetime.fromisoformat(self.expires))


class Tokens:
    """The tokens in a file, which appears with the first one.

    >>> import tempfile
    >>> tokens = Tokens(Path(tempfile.mkdtemp()) / "tokens.json")
    >>> token = tokens.create("analyst", name="ada")
    >>> tokens.check(token).role, tokens.check(token[:-1] + "x")
    ('analyst', None)
    >>> tokens.revoke(tokens.check(token).id); tokens.check(token)
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: tuple[tuple[int, int, int], dict[str, Entry]] | None = None

    def create(self, role: str, *, name: str = "", expires: datetime | None = None) -> str:
        """Return a new token; it is shown here and never again."""
        if role not in ROLES:
            raise OptionError(f"`role` must be one of {', '.join(ROLES)}. Got {role!r}.")
        if expires is not None and expires.tzinfo is None:
            raise OptionError("`expires` must name its zone.")
        identity, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        entry = Entry(identity, role, _hash(secret), name, None if expires is None else expires.isoformat())
        with self._change() as entries:
            entries[identity] = entry
        return f"{PREFIX}{identity}_{secret}"

    def revoke(self, identity: str) -> None:
        """Let a token open nothing any more."""
        with self._change() as entries:
            if identity not in entries:
                raise OptionError(f"there is no token {identity!r}.")
            entries[identity] = replace(entries[identity], revoked=True)

    def entries(self) -> list[Entry]:
        """Return all that were made, as they are kept: no secret is among it."""
        return list(self._entries().values())

    def read_again(self) -> None:
        """Read the file now, also if it looks as before; one that is damaged is refused, and opens nothing."""
        self._read = None
        self._entries()

    def check(self, token: str, now: datetime | None = None) -> Entry | None:
        """Return the entry of a token that is valid now; None for any other text, after the same comparison."""
        identity, _, secret = token.removeprefix(PREFIX).partition("_")
        entry = self._entries().get(identity) if token.startswith(PREFIX) else None
        same = hmac.compare_digest(_hash(secret), _NOBODY if entry is None else entry.hash)
        return entry if entry is not None and same and entry.valid(now or datetime.now(UTC)) else None

    def _entries(self) -> dict[str, Entry]:
        try:
            state = os.stat(self.path)
        except FileNotFoundError:
            return {}
        version = (state.st_mtime_ns, state.st_size, state.st_ino)
        if self._read is None or self._read[0] != version:
            self._read = version, self._parse()
        return self._read[1]

    def _parse(self) -> dict[str, Entry]:
        try:
            listed = json.loads(self.path.read_text("utf-8"))["tokens"]
            return {entry.id: entry for entry in (Entry(**each) for each in listed)}
        except (ValueError, TypeError, KeyError):
            raise StateError(f"the file of tokens {self.path} is damaged.") from None

    @contextmanager
    def _change(self) -> Iterator[dict[str, Entry]]:
        """Lend the entries, to be changed by one process at a time and written back whole."""
        lock = os.open(self.path.with_name(self.path.name + ".lock"), os.O_RDWR | os.O_CREAT, OWNER)
        try:
            lock_alone(lock)
            entries = dict(self._entries())
            yield entries
            text = json.dumps({"tokens": [asdict(entry) for entry in entries.values()]}, indent=1)
            write_file(self.path, text.encode() + b"\n")
        finally:
            os.close(lock)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
