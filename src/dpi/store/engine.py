"""What an SQL store asks of a database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar


class Engine(ABC):
    """A connection to a database. Statements have `?` for their values; errors are `StoreError` without values."""

    types: ClassVar[dict[str, str]]
    """How this database calls the types `bytes` and `whole` of the schema."""

    @abstractmethod
    def execute(self, statement: str, values: Sequence[object] = ()) -> None:
        """Run a statement."""

    @abstractmethod
    def execute_many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Run a statement for every row of values."""

    @abstractmethod
    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """What a query finds."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """All statements inside happen durably at once, or none of them does."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[None]:
        """All queries inside see one state of the database."""

    @abstractmethod
    def exists(self) -> bool:
        """Whether the schema is there."""

    @property
    @abstractmethod
    def read_only(self) -> bool:
        """Whether nothing may be written."""

    @abstractmethod
    def erase(self) -> None:
        """Make what was deleted unreadable on disk, as far as the engine can."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the connection."""
