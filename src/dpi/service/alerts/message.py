"""What leaves a service as an alert: one text in two forms. Knows nothing of where its facts come from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Protocol

Fact = str | int | float | None


@dataclass(frozen=True)
class Message:
    """An alert on its way."""

    id: str
    """The same for the same alert, however often it is sent: receivers drop repeats by it."""
    kind: str
    stream: str
    slot: int | None
    sentence: str
    facts: Mapping[str, Fact]

    def to_json(self) -> bytes:
        """The document that a webhook gets."""
        return json.dumps(asdict(self), ensure_ascii=False, sort_keys=True).encode()

    @classmethod
    def from_json(cls, content: bytes) -> Message:
        """The message of a document."""
        return cls(**json.loads(content))


class Box(Protocol):
    """Takes messages and carries them to one receiver."""

    def put(self, message: Message) -> None:
        """Keep a message until it was delivered."""
        ...


def identity(*parts: object) -> str:
    """The id of an alert: a digest of what it is about.

    >>> identity("anomaly", "visits", 7, "DE") == identity("anomaly", "visits", 7, "DE") != identity("lag", "visits", 7)
    True
    """
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()[:32]
