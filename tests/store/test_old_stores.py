"""A store that an earlier version wrote goes on: every account and every bound is as it was, and nobody pays twice.

`stores/` has, of each version from 0.3.0 on and of one before, a store in each place in which accounts are kept, and
what the version said of it (`tools/old_stores.py`). A version is never taken away from there.
"""

from __future__ import annotations

import json
import runpy
import secrets
import subprocess
import sys
import tarfile
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import dpi
from dpi.service.config import read_streams
from dpi.store.backup import restore
from dpi.verification import check_accounts, verify
from serving import MOMENT, SECOND, running

ROOT = Path(__file__).parents[2]
STORES = Path(__file__).parent / "stores"
TOOL = runpy.run_path(str(ROOT / "tools" / "old_stores.py"))
SAID = {path.name.removesuffix(".json"): json.loads(path.read_text("utf-8")) for path in sorted(STORES.glob("*.json"))}
PLACES = [(version, place) for version, said in SAID.items() for place in said if place != "service"]
SERVICES = [version for version, said in SAID.items() if "service" in said]
EXPORTS = [version for version, said in SAID.items() if "postgres" in said]  # all but the one before 0.3.0


@pytest.fixture
def unpacked(request, tmp_path):
    """The folder of a version's stores, and what that version said of them."""
    with tarfile.open(STORES / f"{request.param}.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path, SAID[request.param]


@pytest.fixture
def place(request, tmp_path):
    """What opens a store of a version in this process, each time, and what that version said of it."""
    version, where = request.param
    with tarfile.open(STORES / f"{version}.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    folder = tmp_path / where
    with OPENED[where](folder, request) as opened:
        yield opened, SAID[version][where]


@contextmanager
def in_a_file(folder, _):
    """As it was."""
    yield lambda: dpi.open_store(folder / "visits.db")


@contextmanager
def in_buckets(folder, _):
    """Put back from its backup."""
    files = {"witness": folder / "visits.witness", "key_file": folder / "visits.key"}
    restore(folder / "copy.db", folder / "visits.db", **files)
    yield lambda: dpi.open_store(folder / "visits.db", **files)


@contextmanager
def in_postgres(folder, request):
    """Put into a schema of a server."""
    import psycopg

    server, schema = request.getfixturevalue("server"), "dpi_test_" + secrets.token_hex(6)
    statements = (folder / "dump.sql").read_text("utf-8").replace(TOOL["SCHEMA"], schema)
    with psycopg.connect(server, autocommit=True) as connection:
        try:
            with psycopg.connect(server, autocommit=True) as loading:  # the dump changes its session's options
                loading.execute(statements.encode())
            url = f"{server}{'&' if '?' in server else '?'}schema={schema}"
            files = {"witness": folder / "visits.witness", "key_file": folder / "dpi.key"}
            yield lambda: dpi.open_store(url, **files)
        finally:
            connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')


@contextmanager
def in_memory(folder, _):
    """Saved, and loaded again."""
    yield lambda: dpi.MemoryStore.load(folder / "saved.dpi")


OPENED = {"sqlite": in_a_file, "buckets": in_buckets, "postgres": in_postgres, "memory": in_memory}


def stream_of(store, name):
    """A stream of the store, as it was declared."""
    top = store.bounds(name).top
    return TOOL["stream_of"](store, name, None if top == 20 else top)


def known(said, found):
    """What is found of those parts that a version told."""
    return {
        name: {part: found[name][part] for part in told if part != "accounts"}
        | {"accounts": {user: found[name]["accounts"][user] for user in told["accounts"]}}
        for name, told in said.items()
    }


@pytest.mark.parametrize("place", PLACES, indirect=True, ids="-".join)
def test_accounts_and_bounds_are_those_that_were_written(place):
    """What each user has left, and L, S and the largest shares of each class, once streams are open for writing."""
    opened, said = place
    people = dict.fromkeys(user for told in said.values() for user in told["accounts"])
    with closing(opened()) as store:
        for name in said:
            assert stream_of(store, name).next_slot == said[name]["last"] + 1
        assert known(said, TOOL["said"](store, [*people])) == said
        assert check_accounts(store) == ()


@pytest.mark.parametrize("place", PLACES, indirect=True, ids="-".join)
def test_the_next_slot_is_released_and_bounds_only_grow(place):
    """Each stream goes on after its last slot; who pays has less left; the chain is whole afterwards."""
    opened, said = place
    with closing(opened()) as store:
        for name, told in said.items():
            stream, before, values = stream_of(store, name), store.bounds(name), TOOL["VALUES"][name]
            full = TOOL["said"](store, ["new"])[name]["accounts"]["new"]
            assert stream.release(["u0", "u3", "new"], [values[0]] * 2 + [values[1]]).slot == told["last"] + 1
            assert store.bounds(name).follows(before)
            after = TOOL["said"](store, [*told["accounts"], "new"])[name]["accounts"]
            assert all(after[user] <= left for user, left in told["accounts"].items())
            assert after["new"] < full
        assert verify(store).intact
        assert check_accounts(store) == ()


@pytest.mark.parametrize("unpacked", SAID, indirect=True)
def test_the_command_line_says_the_same(unpacked):
    """`dpi ledger` of one user, and `dpi verify`."""
    folder, said = unpacked
    path = str(folder / "sqlite" / "visits.db")
    for name, told in said["sqlite"].items():
        found = json.loads(command("ledger", path, "--stream", name, "--user", "u3", "--json"))
        assert found["left"] == told["accounts"]["u3"]
    assert "The chain is whole." in command("verify", path)


@pytest.mark.parametrize("unpacked", EXPORTS, indirect=True)
def test_an_export_is_read(unpacked):
    """By analysts, who have nothing else."""
    path = unpacked[0] / "sqlite" / "public.db"
    with dpi.open(path, "pages") as found:
        assert [release.slot for release in found] == [0, 1, 2, 3]
    assert "The chain is whole." in command("verify", str(path))


@pytest.mark.parametrize("unpacked", SERVICES, indirect=True)
def test_a_service_goes_on_with_its_folder(unpacked):
    """Its tokens open what they opened, its configuration is read, and what waited is released and paid for."""
    folder, said = unpacked[0] / "service", dict(unpacked[1]["service"])
    tokens, now = json.loads((folder / "of-tests.json").read_text("utf-8")), said.pop("now")
    (settings,) = read_streams(folder / "dpi.toml").streams.values()
    with dpi.open_store(folder / "visits.db", read_only=True, curator=True) as store:
        assert TOOL["said"](store) == said
        before = store.bounds("visits")
    with running(folder, settings, now=MOMENT + round(now * SECOND)) as found:
        found.tokens.update(tokens)
        assert found.client("curator").get("/v1/streams").status_code == 200
        found.set(now + 10)  # the events of the slot that is closed then were sent to the earlier version
    with dpi.open_store(folder / "visits.db", read_only=True, curator=True) as store:
        after = TOOL["said"](store)["visits"]
        assert after["last"] == said["visits"]["last"] + 1
        assert store.bounds("visits").follows(before)
        assert after["accounts"]["u6"] < said["visits"]["accounts"]["u6"]
        assert verify(store).intact


def command(*words):
    """What `dpi` prints."""
    return subprocess.run([sys.executable, "-m", "dpi", *words], check=True, capture_output=True, text=True).stdout
