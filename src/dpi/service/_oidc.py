"""Tokens of an issuer (OpenID Connect): signed JSON Web Tokens (RFC 7519), checked by PyJWT.

**Guarantee.** A token opens something only if a key of the configured issuer has signed it by an algorithm that was
allowed and that fits the key, it is for this service (`aud`), by this issuer (`iss`), at this time (`exp`, `nbf`, up
to the clock skew), and one of its claims has a value to which the operator has given a role. *Why:* algorithms come
from a list without secrets that both sides know and without `none`; the key is looked up by its id in the issuer's own
set, never taken from the token; and for a key of one kind there are algorithms of that kind alone.

The issuer's set of keys (RFC 7517) is a file, or is fetched over HTTPS, and kept for a while. A token names its key. A
key that is not known may be a new one, so that the set is asked for again, but not more often than every `PAUSE`
seconds, whatever tokens come and whatever the issuer answers: nobody can make this service flood it. An issuer that
does not answer changes nothing for keys that are known, for a day. (`jwt.PyJWKClient` bounds neither the size of a set
nor the time that it takes in all, asks again for every token while an issuer fails, and forgets its keys meanwhile.)

Such a token cannot be revoked here: it ends by itself. Sees tokens while they are checked; keeps public keys.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from dpi._version import how_to_install
from dpi.errors import OptionError
from dpi.events.slots import duration
from dpi.service import logs
from dpi.service.tokens import ROLES, Caller

ALGORITHMS: dict[str, tuple[str, str | None]] = {
    "RS256": ("RSA", None), "RS384": ("RSA", None), "RS512": ("RSA", None),
    "PS256": ("RSA", None), "PS384": ("RSA", None), "PS512": ("RSA", None),
    "ES256": ("EC", "P-256"), "ES384": ("EC", "P-384"), "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
}  # fmt: skip
"""What can be allowed, and the kind and curve of its keys."""
LEAST_BITS = 2048  # of an RSA key's modulus
LONGEST, LONGEST_SUBJECT = 16_384, 200  # characters of a token, and of whose it is
FRESH, PAUSE, FORGOTTEN = 3600.0, 30.0, 86_400.0
"""Seconds after which a set is asked for again, between two questions, and after which keys of an issuer that does not
answer open nothing any more."""
TIMEOUT = 5.0
LARGEST = 1 << 20  # bytes of a set
LOOPBACK = ("127.0.0.1", "::1", "localhost")
Key = dict[str, object]


def is_url(place: str) -> bool:
    """Whether a set is fetched, not read from a file; refuses an address that anybody on the way could answer."""
    parts = urlsplit(place)
    if parts.scheme not in ("http", "https"):
        return False
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise OptionError("`jwks` must be an https:// address or a file: who answers it decides who may come in.")
    return True


@dataclass(frozen=True, kw_only=True)
class Issuer:
    """Whose tokens are believed, and what they open: `[serve.oidc]` of `dpi.toml`."""

    issuer: str
    audience: str
    jwks: str  # the issuer's keys: an https:// address, or a file
    roles: Mapping[str, Sequence[str]]  # of each role the values that mean it
    claim: str = "roles"  # where those values stand; dots lead into a claim, as in `realm_access.roles`
    algorithms: Sequence[str] = ("RS256", "ES256", "EdDSA")
    skew: str = "30s"  # how far the clocks of issuer and service may differ

    def __post_init__(self) -> None:
        for name in ("issuer", "audience", "jwks", "claim"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise OptionError(f"`{name}` of [serve.oidc] must be a text.")
        is_url(self.jwks)
        if not isinstance(self.algorithms, list | tuple) or not all(isinstance(each, str) for each in self.algorithms):
            raise OptionError("`algorithms` of [serve.oidc] must be a list of names.")
        if not self.algorithms or not set(self.algorithms) <= set(ALGORITHMS):
            raise OptionError(f"`algorithms` of [serve.oidc] must be among {', '.join(ALGORITHMS)}.")
        if not 0 <= duration(self.skew, "skew") <= 300_000_000:
            raise OptionError(f"`skew` must be from 0s to 5m. Got {self.skew!r}.")
        lists = [*self.roles.values()] if isinstance(self.roles, Mapping) else [None]
        values = [value for each in lists if isinstance(each, list | tuple) for value in each]
        listed = all(isinstance(each, list | tuple) for each in lists) and all(isinstance(v, str) for v in values)
        if not listed or not values or not set(self.roles) <= set(ROLES):
            raise OptionError(f"[serve.oidc.roles] must name lists of texts, by role: {', '.join(ROLES)}.")
        if len(self.meaning) != len(values):
            raise OptionError("[serve.oidc.roles] gives one value to two roles.")

    @property
    def meaning(self) -> dict[str, str]:
        return {value: role for role, values in self.roles.items() for value in values}


class IssuerKeys:
    def __init__(self, place: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._place, self._remote, self._clock = place, is_url(place), clock
        self._keys: dict[str, Key] = {}
        self._got = self._asked = -FORGOTTEN
        self._turn = threading.Lock()

    def find(self, identity: str) -> Key | None:
        """Return the key of an id, from the set as it was lately or, for an id that is not in it, as it is now."""
        now = self._clock()
        if (identity not in self._keys or now - self._got > FRESH) and now - self._asked >= PAUSE:
            self._ask(now)
        return self._keys.get(identity) if self._clock() - self._got <= FORGOTTEN else None

    def _ask(self, now: float) -> None:
        """Get the set: by one thread; others wait for the first set, and later take the keys that there are."""
        if not self._turn.acquire(blocking=not self._keys):
            return
        try:
            if now < self._asked + PAUSE:  # somebody else has asked meanwhile
                return
            self._asked = now
            self._keys = _read_keys(self._fetch() if self._remote else self._read())
            self._got = self._clock()
        except Exception as error:  # whatever an issuer answers, those who have random tokens are served
            logs.failed("keys of the issuer cannot be had", error)
        finally:
            self._turn.release()

    def _read(self) -> bytes:
        with Path(self._place).open("rb") as file:
            return file.read(LARGEST)

    def _fetch(self) -> bytes:
        import httpx

        content, deadline = bytearray(), time.monotonic() + TIMEOUT
        with httpx.stream("GET", self._place, timeout=TIMEOUT, follow_redirects=False) as answer:
            answer.raise_for_status()
            for part in answer.iter_bytes():
                content += part
                if len(content) > LARGEST or time.monotonic() > deadline:
                    raise OptionError("the issuer's set of keys is too large, or takes too long.")
        return bytes(content)


def _read_keys(text: bytes) -> dict[str, Key]:
    """Return the keys of a set that can check signatures; a secret that both sides would know is none of them."""
    document = json.loads(text)
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise OptionError("the issuer's answer is no set of keys.")
    keys = [key for key in listed if isinstance(key, dict) and key.get("kty") in ("RSA", "EC", "OKP")]
    return {str(key["kid"]): key for key in keys if "kid" in key and _verifies(key)}


def _verifies(key: Key) -> bool:
    """Whether checking signatures is what a key is for, as far as it says (RFC 7517, 4.2 and 4.3)."""
    operations = key.get("key_ops", ["verify"])
    return key.get("use", "sig") == "sig" and isinstance(operations, list) and "verify" in operations


class IssuedTokens:
    def __init__(self, issuer: Issuer) -> None:
        try:
            import jwt  # noqa: F401
        except ImportError:
            raise OptionError(f"[serve.oidc] needs PyJWT: {how_to_install('oidc')}.") from None
        self._issuer, self._keys = issuer, IssuerKeys(issuer.jwks)
        self._skew = duration(issuer.skew, "skew") / 1e6

    def check(self, token: str) -> Caller | None:
        """Return who has a token that is valid now; None for any other text. May wait for the issuer's keys."""
        import jwt

        if len(token) > LONGEST:
            return None
        try:
            head = jwt.get_unverified_header(token)
            algorithm, identity = head.get("alg"), head.get("kid")
            if not isinstance(algorithm, str) or not isinstance(identity, str) or "crit" in head:
                return None
            jwk = self._keys.find(identity) if algorithm in self._issuer.algorithms else None
            if jwk is None or not _fits(jwk, algorithm):
                return None
            key = jwt.PyJWK(jwk, algorithm)
            if jwk["kty"] == "RSA" and key.key.key_size < LEAST_BITS:
                return None
            claims = jwt.decode(
                token, key, algorithms=[algorithm], audience=self._issuer.audience, issuer=self._issuer.issuer,
                leeway=self._skew, options={"require": ["exp", "iss", "aud", "sub"]},
            )  # fmt: skip
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            return None
        return self._find_caller(claims)

    def _find_caller(self, claims: Mapping[str, object]) -> Caller | None:
        claim: object = claims
        for part in self._issuer.claim.split("."):
            claim = claim.get(part) if isinstance(claim, Mapping) else None
        values = claim.split() if isinstance(claim, str) else claim if isinstance(claim, list) else []
        meaning = self._issuer.meaning
        roles = frozenset(meaning[value] for value in values if isinstance(value, str) and value in meaning)
        subject = str(claims["sub"])
        if not roles or not 0 < len(subject) <= LONGEST_SUBJECT or not subject.isprintable():
            return None
        return Caller(f"oidc:{subject}", roles)


def _fits(key: Key, algorithm: str) -> bool:
    """Whether an algorithm is one of this kind of key, and the one that the issuer has said, if it has."""
    kind, curve = ALGORITHMS[algorithm]
    return key.get("kty") == kind and curve in (None, key.get("crv")) and key.get("alg", algorithm) == algorithm
