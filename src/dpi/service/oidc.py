"""Tokens of an issuer (OpenID Connect): signed JSON Web Tokens (RFC 7519), checked by PyJWT.

**Guarantee.** A token opens something only if a key of the configured issuer has signed it by an algorithm that was
allowed and that fits the key, it is for this service (`aud`), by this issuer (`iss`), at this time (`exp`, `nbf`, up
to the clock skew), and one of its claims has a value to which the operator has given a role. *Why:* algorithms come
from a list without secrets that both sides know and without `none`; the key is looked up by its id in the issuer's own
set, never taken from the token; and for a key of one kind there are algorithms of that kind alone.

Such a token cannot be revoked here: it ends by itself. Sees tokens while they are checked; keeps none.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpi._version import how_to_install
from dpi.errors import OptionError, meant
from dpi.events.slots import duration
from dpi.service.issuer_keys import IssuerKeys, Key, is_url
from dpi.service.roles import ROLES, Caller

ALGORITHMS: dict[str, tuple[str, str | None]] = {
    "RS256": ("RSA", None), "RS384": ("RSA", None), "RS512": ("RSA", None),
    "PS256": ("RSA", None), "PS384": ("RSA", None), "PS512": ("RSA", None),
    "ES256": ("EC", "P-256"), "ES384": ("EC", "P-384"), "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
}  # fmt: skip
"""What can be allowed, and the kind and curve of its keys."""
LEAST_BITS = 2048
"""Of an RSA key's modulus."""
LONGEST = 16_384
"""Characters of a token."""
LONGEST_SUBJECT = 200


@dataclass(frozen=True, kw_only=True)
class Issuer:
    """Whose tokens are believed, and what they open: `[serve.oidc]` of `dpi.toml`."""

    issuer: str
    audience: str
    jwks: str
    """The issuer's keys: an https:// address, or a file."""
    roles: Mapping[str, Sequence[str]]
    """Of each role the values that mean it."""
    claim: str = "roles"
    """Where those values stand; dots lead into a claim, as in `realm_access.roles`."""
    algorithms: Sequence[str] = ("RS256", "ES256", "EdDSA")
    skew: str = "30s"
    """How far the clocks of issuer and service may differ."""

    def __post_init__(self) -> None:
        for name in ("issuer", "audience", "jwks", "claim"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise OptionError(f"`{name}` of [serve.oidc] must be a text.")
        is_url(self.jwks)
        if not self.algorithms or not set(self.algorithms) <= set(ALGORITHMS):
            raise OptionError(f"`algorithms` of [serve.oidc] must be among {', '.join(ALGORITHMS)}.")
        if not 0 <= duration(self.skew, "skew") <= 300_000_000:
            raise OptionError(f"`skew` must be from 0s to 5m. Got {self.skew!r}.")
        pairs = [(value, role) for role, values in self.roles.items() for value in values]
        if not pairs or not set(self.roles) <= set(ROLES) or not all(isinstance(value, str) for value, _ in pairs):
            raise OptionError(f"[serve.oidc.roles] must name lists of texts, by role: {', '.join(ROLES)}.")
        if len(self.meaning) != len(pairs):
            raise OptionError("[serve.oidc.roles] gives one value to two roles.")

    @property
    def meaning(self) -> dict[str, str]:
        """The role of each value."""
        return {value: role for role, values in self.roles.items() for value in values}


KEYS = ("issuer", "audience", "jwks", "roles", "claim", "algorithms", "skew")


def issuer_of(table: Mapping[str, object]) -> Issuer:
    """The issuer that a table of `dpi.toml` states."""
    for key in table:
        if key not in KEYS:
            raise OptionError(f"unknown key `{key}` in [serve.oidc]{meant(key, KEYS)}")
    missing = [key for key in KEYS[:4] if key not in table]
    if missing:
        raise OptionError(f"[serve.oidc] must say {', '.join(f'`{key}`' for key in missing)}.")
    roles, algorithms = table["roles"], table.get("algorithms", list(Issuer.algorithms))
    if not isinstance(roles, Mapping) or not all(isinstance(values, list) for values in roles.values()):
        raise OptionError(f"[serve.oidc.roles] must name lists of texts, by role: {', '.join(ROLES)}.")
    if not isinstance(algorithms, list) or not all(isinstance(each, str) for each in algorithms):
        raise OptionError("`algorithms` of [serve.oidc] must be a list of names.")
    given = {**table, "algorithms": tuple(algorithms)}
    return Issuer(**given)  # type: ignore[arg-type]  # checked by itself


class IssuedTokens:
    """Checks tokens of an issuer."""

    def __init__(self, issuer: Issuer) -> None:
        try:
            import jwt  # noqa: F401
        except ImportError:
            raise OptionError(f"[serve.oidc] needs PyJWT: {how_to_install('oidc')}.") from None
        self._issuer, self._keys = issuer, IssuerKeys(issuer.jwks)
        self._skew = duration(issuer.skew, "skew") / 1e6

    def check(self, token: str) -> Caller | None:
        """Who has a token that is valid now; None for any other text. May wait for the issuer's keys."""
        import jwt

        if len(token) > LONGEST:
            return None
        try:
            head = jwt.get_unverified_header(token)
            algorithm, identity = head.get("alg"), head.get("kid")
            if not isinstance(algorithm, str) or not isinstance(identity, str) or "crit" in head:
                return None
            if algorithm not in self._issuer.algorithms:
                return None
            key = self._keys.find(identity)
            if key is None or not _fits(key, algorithm):
                return None
            claims = jwt.decode(
                token,
                jwt.PyJWK(key, algorithm),
                algorithms=[algorithm],
                audience=self._issuer.audience,
                issuer=self._issuer.issuer,
                leeway=self._skew,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            return None
        return self._caller(claims)

    def _caller(self, claims: Mapping[str, object]) -> Caller | None:
        found: object = claims
        for part in self._issuer.claim.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        values = found.split() if isinstance(found, str) else found if isinstance(found, list) else []
        meaning = self._issuer.meaning
        roles = frozenset(meaning[value] for value in values if isinstance(value, str) and value in meaning)
        subject = str(claims["sub"])
        if not roles or not 0 < len(subject) <= LONGEST_SUBJECT or not subject.isprintable():
            return None
        return Caller(f"oidc:{subject}", roles)


def _fits(key: Key, algorithm: str) -> bool:
    """Whether an algorithm is one of this kind of key, and the one that the issuer has said, if it has."""
    kind, curve = ALGORITHMS[algorithm]
    if key.get("kty") != kind or key.get("alg", algorithm) != algorithm:
        return False
    if kind == "RSA":
        return _bits(key.get("n")) >= LEAST_BITS
    return key.get("crv") == curve


def _bits(number: object) -> int:
    """The size of a number as keys write it (RFC 7518, 6.3.1.1), by its value: zeros before it add nothing."""
    if not isinstance(number, str):
        return 0
    return int.from_bytes(base64.urlsafe_b64decode(number + "=" * (-len(number) % 4)), "big").bit_length()
