"""The public keys of an issuer: a JSON Web Key Set (RFC 7517), from a file or over HTTPS, and kept for a while.

A token names its key. A key that is not known may be a new one, so that the set is asked for again, but not more often
than every `PAUSE` seconds, whatever tokens come: nobody can make this service flood the issuer. An issuer that does not
answer changes nothing for keys that are known, for a day.

Sees public keys.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from dpi.errors import OptionError
from dpi.service import logs

FRESH = 3600.0
"""Seconds after which a set is asked for again."""
PAUSE = 30.0
"""Seconds between two questions."""
FORGOTTEN = 86_400.0
"""Seconds after which keys of an issuer that does not answer open nothing any more."""
TIMEOUT = 5.0
LARGEST = 1 << 20
"""Bytes of a set."""
LOCAL = ("127.0.0.1", "::1", "localhost")

Key = dict[str, object]


def is_url(place: str) -> bool:
    """Whether a set is fetched, not read from a file; refuses an address that anybody on the way could answer."""
    parts = urlsplit(place)
    if parts.scheme not in ("http", "https"):
        return False
    if parts.scheme == "http" and parts.hostname not in LOCAL:
        raise OptionError("`jwks` must be an https:// address or a file: who answers it decides who may come in.")
    return True


class IssuerKeys:
    """Keys by their ids."""

    def __init__(self, place: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._place, self._remote, self._clock = place, is_url(place), clock
        self._keys: dict[str, Key] = {}
        self._got = self._asked = -FORGOTTEN
        self._turn = threading.Lock()

    def find(self, identity: str) -> Key | None:
        """The key of an id, from the set as it was lately or, for an id that is not in it, as it is now."""
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
            self._keys = _by_id(self._fetched() if self._remote else _read(Path(self._place)))
            self._got = self._clock()
        except Exception as error:  # whatever an issuer answers, those who have random tokens are served
            logs.failed("keys of the issuer cannot be had", error)
        finally:
            self._turn.release()

    def _fetched(self) -> bytes:
        import httpx

        found, deadline = bytearray(), time.monotonic() + TIMEOUT
        with httpx.stream("GET", self._place, timeout=TIMEOUT, follow_redirects=False) as answer:
            answer.raise_for_status()
            for part in answer.iter_bytes():
                found += part
                if len(found) > LARGEST or time.monotonic() > deadline:
                    raise OptionError("the issuer's set of keys is too large, or takes too long.")
        return bytes(found)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(LARGEST)


def _by_id(text: bytes) -> dict[str, Key]:
    """The keys of a set that can check signatures; a secret that both sides would know is none of them."""
    found = json.loads(text)
    listed = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(listed, list):
        raise OptionError("the issuer's answer is no set of keys.")
    keys = [key for key in listed if isinstance(key, dict) and key.get("kty") in ("RSA", "EC", "OKP")]
    return {str(key["kid"]): key for key in keys if "kid" in key and _verifies(key)}


def _verifies(key: Key) -> bool:
    """Whether checking signatures is what a key is for, as far as it says (RFC 7517, 4.2 and 4.3)."""
    operations = key.get("key_ops", ["verify"])
    return key.get("use", "sig") == "sig" and isinstance(operations, list) and "verify" in operations
