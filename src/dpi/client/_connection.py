"""A service, by its address and a token."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

from dpi.client._requests import Requests
from dpi.client._stream import RemoteStore, RemoteStream
from dpi.domain import Domain
from dpi.domain.file import describe
from dpi.reader import stream_named

if TYPE_CHECKING:
    from dpi.store import Store
    from dpi.verification import Verification


def connect(url: str, token: str, *, patience: float = 60.0) -> Connection:
    """Return a service at an address such as `https://dpi.example:8321`.

    What is asked is asked again for up to `patience` seconds where the network, or the service, is away.

    >>> connect("http://127.0.0.1:1", "token", patience=0).close()     # nothing is asked before something is wanted
    """
    return Connection(Requests(url, token, patience))


class Connection:
    """What a token opens of a service."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of its streams."""
        return tuple(RemoteStore(self._requests).streams())

    def stream(self, name: str | None = None, *, producer: str | None = None) -> RemoteStream:
        """Return a stream, to feed and to read; the name may be left out where there is one alone.

        Batches are sent as `producer`: give a name to go on as the one of before; otherwise it is a new one.
        """
        return RemoteStream(self._requests, stream_named(cast("Store", RemoteStore(self._requests)), name), producer)

    def create(self, name: str, *, domain: Domain, **options: object) -> RemoteStream:
        """Open a stream with options by the names that `dpi.toml` has, _ for -: `epsilon=1, slot="1h", per_slot=…`.

        What is `from` there is `begin` here, since Python has another use for it.
        """
        self._declare("POST", "/v1/streams", {"name": name} | _write_options(domain, options))
        return self.stream(name)

    def change(self, name: str, *, domain: Domain, **options: object) -> None:
        """Go on with other options from a slot on that has not begun; all of them are said, as for a new stream."""
        self._declare("PUT", f"/v1/streams/{name}", _write_options(domain, options))

    def _declare(self, method: str, path: str, content: dict[str, object]) -> None:
        body = json.dumps(content).encode()
        self._requests.send(method, path, content=body, headers={"content-type": "application/json"})

    def operations(self) -> dict[str, object]:
        """Return how the service does, as `dpi serve top` shows it: for a curator alone, for it follows from events."""
        return self._requests.document("/v1/operations")

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write the public part of the service's store to a new file, which `dpi.open` and `dpi verify` read."""
        content = self._requests.send("GET", "/v1/export").content
        with Path(path).open("xb") as file:
            file.write(content)

    def verify(self) -> Verification:
        """Check the chain of certificates and its sums here, on an export: the service is not believed."""
        from dpi.store import open_store
        from dpi.verification import verify

        with tempfile.TemporaryDirectory() as folder:
            self.export(Path(folder) / "public.db")
            with open_store(Path(folder) / "public.db", read_only=True) as store:
                return verify(store)

    def close(self) -> None:
        """Let go of the connections."""
        self._requests.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _write_options(domain: Domain, options: dict[str, object]) -> dict[str, object]:
    named = {"from" if key == "begin" else key.replace("_", "-"): value for key, value in options.items()}
    return {"domain": describe(domain)} | named
