"""A store that an earlier version wrote goes on: every account and every bound is as it was, and nobody pays twice.

`stores/` has a store and its key for a version, and what that version said of it. Two streams shared a ledger by
quotas; slots 0 to 5 of one, two slots of the other.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import dpi
from dpi.budget.adaptive_allocation import read_snapshot
from dpi.store.opening import open_store

STORES = Path(__file__).parent / "stores"
VALUES = {"pages": ["home", "cart", "help"], "countries": ["de", "fr"]}
QUOTAS = {"pages": "0.5", "countries": "0.25"}


@pytest.fixture(params=sorted(path.name.removesuffix(".json") for path in STORES.glob("*.json")))
def written(request, tmp_path):
    """The store of a version, and what the version said of it."""
    with tarfile.open(STORES / f"{request.param}.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path / "old.db", json.loads((STORES / f"{request.param}.json").read_text("utf-8"))


def bounds(store, name):
    """What is known of every account, as the store has it."""
    return read_snapshot(store.progress(name).allocation)[0]


def test_bounds_are_those_that_were_written(written):
    """L, S and the largest shares of each class, after it was opened for writing."""
    path, said = written
    with open_store(path) as store:
        for name in VALUES:
            stream = opened(store, name)
            found = bounds(store, name)
            told = said[name]
            assert (list(found.left), list(found.spent), list(found.largest)) == (
                told["left"], told["spent"], told["largest"],
            )  # fmt: skip
            assert stream.driver.following() == told["last"] + 1


def test_accounts_are_those_that_were_written(written):
    """What `dpi ledger` says of users who paid and of one who did not."""
    path, said = written
    for name in VALUES:
        for user, left in [*said[name]["accounts"].items()][:2]:
            told = command("ledger", str(path), "--stream", name, "--user", user, "--json")
            assert json.loads(told)["left"] == left


def test_the_next_slot_is_released_and_bounds_only_grow(written):
    """Each stream goes on after its last slot; the chain is whole afterwards."""
    path, _ = written
    with open_store(path) as store:
        for name, values in VALUES.items():
            before = bounds(store, name)
            opened(store, name).release(["u0", "u3", "new"], [values[0]] * 2 + [values[1]])
            assert bounds(store, name).follows(before)
    assert "The chain is whole." in command("verify", str(path))


def opened(store, name):
    """A stream of the store, as it was declared."""
    domain = dpi.Categories(VALUES[name], other=None)
    return dpi.Stream(domain=domain, epsilon=1, store=store, name=name, budget=dpi.Ledger(quota=QUOTAS[name]))


def command(*words):
    """What `dpi` prints."""
    return subprocess.run([sys.executable, "-m", "dpi", *words], check=True, capture_output=True, text=True).stdout
