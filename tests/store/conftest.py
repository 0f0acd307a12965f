"""Stores of every kind to run a test on."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import dpi
from dpi.store import Store
from dpi.testing.workload import KEY

NO_SERVER = (
    "no PostgreSQL answers: start one on the standard port for the current user, or set DPI_TEST_POSTGRES to its URL"
)


@pytest.fixture(scope="session")
def server() -> str:
    """The URL of a PostgreSQL server for tests."""
    import psycopg

    url = os.environ.get("DPI_TEST_POSTGRES", "postgresql:///postgres")
    try:
        psycopg.connect(url, connect_timeout=3).close()
    except psycopg.Error:
        pytest.skip(NO_SERVER)
    return url


@pytest.fixture
def postgres(server: str) -> Iterator[str]:
    """The URL of a schema that is dropped afterwards."""
    import psycopg

    schema = "dpi_test_" + secrets.token_hex(6)
    yield f"{server}{'&' if '?' in server else '?'}schema={schema}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    """A key that is the same in every store of these tests."""
    path = tmp_path / "key"
    path.write_text(KEY.hex())
    path.chmod(0o600)
    return path


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    """The path of an SQLite store that is not there yet."""
    return str(tmp_path / "visits.db")


@pytest.fixture(params=["sqlite", "postgres"])
def durable(request: pytest.FixtureRequest, key_file: Path) -> Callable[[], Store]:
    """Opens a store on disk, the same one at every call."""
    target = request.getfixturevalue(request.param)
    return lambda **options: dpi.open_store(target, key_file=key_file, **options)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def reopen(request: pytest.FixtureRequest, key_file: Path) -> Callable[[Store | None], Store]:
    """Gives a store, and after it what a later process would find of it."""
    if request.param == "memory":
        return lambda store=None: dpi.MemoryStore(KEY) if store is None else _reloaded(store, key_file.parent)
    target = request.getfixturevalue(request.param)

    def again(store: Store | None = None) -> Store:
        if store is not None:
            store.close()
        return dpi.open_store(target, key_file=key_file)

    return again


def _reloaded(store: dpi.MemoryStore, folder: Path) -> dpi.MemoryStore:
    store.save(folder / "memory")
    return dpi.MemoryStore.load(folder / "memory")
