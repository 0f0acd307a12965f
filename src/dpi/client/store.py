"""What a reader needs of a store, asked of a service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import cast

from dpi.certificates.chain import Link, canonical, link_of
from dpi.client.requests import Requests
from dpi.domain import Domain
from dpi.domain.file import from_description
from dpi.release import Release


class RemoteStore:
    """The public part of a service's store: as much of `dpi.store.Store` as `dpi.reader.Releases` looks at."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._domains: dict[str, str] = {}

    def streams(self) -> dict[str, str]:
        """Names of the streams, with their newest options as text."""
        listed = cast("list[dict[str, dict[str, object]]]", self._requests.document("/v1/streams")["streams"])
        return {str(each["name"]): canonical(each["options"]) for each in listed}

    def domain(self, digest: str) -> str:
        """The description of a domain, as text."""
        if digest not in self._domains:
            self._domains[digest] = self._requests.send("GET", f"/v1/domains/{digest}").text
        return self._domains[digest]

    def releases(self, stream: str, first: int | None = None, last: int | None = None) -> Iterator[tuple[bytes, Link]]:
        """Content and link of the releases of slots `first` to `last`, in order, some at a time."""
        since = None if first is None else first - 1
        while True:
            found = self._requests.document(
                f"/v1/streams/{stream}/releases", since=since, end=None if last is None else last + 1
            )
            for record in cast("list[dict[str, object]]", found["releases"]):
                domain = self._domain(str(record["domain"]))
                release = Release.from_json(json.dumps(record), domain)
                yield release.content(), link_of(release.certificate)
            since = cast("int | None", found["more_since"])
            if since is None:
                return

    def _domain(self, digest: str) -> Domain:
        return from_description(json.loads(self.domain(digest)))

    def extent(self, stream: str, first: int | None = None, last: int | None = None) -> tuple[int, int, int] | None:
        """How many releases of slots `first` to `last` there are, and the first and last slot; None without any."""
        found = self._requests.document(
            f"/v1/streams/{stream}/extent", first=first, end=None if last is None else last + 1
        )
        number, *ends = (cast("int", found[name] or 0) for name in ("number", "first", "last"))
        return (number, ends[0], ends[1]) if number else None

    def close(self) -> None:
        """Let go of the connections."""
        self._requests.client.close()
