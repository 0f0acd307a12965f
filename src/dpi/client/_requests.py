"""Requests that are tried again: whatever is asked of a service can be asked twice.

Reading changes nothing, and a batch has a (producer, sequence) by which it counts once. So after a lost connection, or
an answer that says to come again, the same request is sent once more, until it was answered or patience is over.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dpi._version import how_to_install
from dpi.errors import OptionError, StoreError

if TYPE_CHECKING:
    import httpx

AGAIN = {408, 429, 502, 503, 504}  # answers after which the same request may fare better
TOO_LARGE = 413
LONGEST = 5.0  # seconds between two tries at most


class TooLarge(OptionError):
    """A batch must be split."""


class Requests:
    """A connection pool to one service, with a token."""

    def __init__(self, url: str, token: str, patience: float) -> None:
        try:
            import httpx
        except ImportError:
            raise OptionError(f"a client needs httpx: {how_to_install('service')}.") from None
        self._patience, self._lost = patience, httpx.TransportError
        headers = {"authorization": f"Bearer {token}"}
        self.client = httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=httpx.Timeout(30.0))

    def send(
        self, method: str, path: str, *, parameters: Mapping[str, object] | None = None, content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:  # fmt: skip
        """Return the answer; raises what the service, or the network, says is wrong."""
        given = {name: str(value) for name, value in (parameters or {}).items() if value is not None}
        deadline, pause = time.monotonic() + self._patience, 0.1
        while True:
            wait = pause * (1 + random.random())  # noqa: S311 - so that clients do not come back together
            try:
                answer = self.client.request(method, path, params=given, content=content, headers=dict(headers or {}))
                if answer.status_code not in AGAIN:
                    return check(answer)
                said = answer.headers.get("retry-after", "")
                wait = max(wait, float(said)) if said.isdecimal() else wait
                problem = f"the service is not ready (HTTP {answer.status_code})"
            except self._lost as error:
                problem = f"the service cannot be reached ({type(error).__name__})"
            if time.monotonic() + wait > deadline:
                raise StoreError(f"{problem}, and it was tried for {self._patience:g} seconds.")
            time.sleep(wait)
            pause = min(2 * pause, LONGEST)

    def document(self, path: str, **parameters: object) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.send("GET", path, parameters=parameters).content)
        return found


def check(answer: httpx.Response) -> httpx.Response:
    if answer.status_code < 400:
        return answer
    try:
        detail = str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        detail = f"the service refused (HTTP {answer.status_code})."
    raise (TooLarge if answer.status_code == TOO_LARGE else OptionError)(detail)
