"""Files that grow, followed on an engine: read by the driver, closed by tasks, and the same bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from random_streams import batches, opened, outcome
from typer.testing import CliRunner

import dpi
from dpi.cli.app import app

DAY = "2026-01-01T"


def grow(path: Path, slot: int) -> None:
    """What comes in an hour, each line with its arrival."""
    with path.open("a") as file:
        for users, times, values, now, _ in batches(4, slot):
            for user, time, value in zip(users, times, values, strict=True):
                file.write(json.dumps({"user": user, "time": time, "value": value, "arrived": now}) + "\n")


def test_a_file_that_grows_ends_in_the_same_bytes(tmp_path, key_file, engine):
    """Stopped and gone on with, each line once; the slots are closed by tasks."""
    results = []
    for name, used in (("embedded", None), ("engine", engine)):
        path = tmp_path / f"{name}.ndjson"
        with dpi.open_store(tmp_path / f"{name}.db", key_file=key_file) as store:
            for slot in range(2):
                grow(path, slot)
                stream = opened("per slot", slot, store, engine=used)
                events = dpi.read(path, arrived="arrived")
                released = list(dpi.follow(stream, events, end=f"{DAY}{slot + 1:02d}:00"))
                assert [release.slot for release in released] == [stream.next_slot - 1]
            results.append(outcome(store))
    assert results[0] == results[1]
    assert results[0]["problems"] == []


@pytest.mark.parametrize("words", [["local"], ["pool", "--config", "workers=1"]], ids=["local", "pool"])
def test_the_command_follows_on_an_engine(tmp_path, words):
    """`dpi run --follow --engine …`: as many users as there were, accounts in buckets, and everything verifies."""
    (tmp_path / "values.txt").write_text("DE\nFR\n")
    rows = [{"user": n, "time": f"{DAY}00:10", "value": "DE", "arrived": f"{DAY}00:20"} for n in range(40)]
    (tmp_path / "log.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    period = ["--slot", "1h", "--from", "2026-01-01", "--to", f"{DAY}02:00", "--config", "arrived=arrived"]
    store = ["--domain", str(tmp_path / "values.txt"), "--store", str(tmp_path / "live.db")]
    generous = ["--epsilon", "1024", "--per-slot", "100"]  # a count is half a user off with probability below 10⁻²⁰
    done = CliRunner().invoke(
        app, ["run", str(tmp_path / "log.ndjson"), "--follow", *period, *store, *generous, "--engine", *words]
    )
    assert done.exit_code == 0, done.output
    with dpi.open_store(tmp_path / "live.db", read_only=True) as opened_store:
        assert opened_store.layout is not None
        counted = [sum(memoryview(paid.values).cast("q")) / 2**24 for paid in opened_store.measurements("")]
    assert [round(total) for total in counted] == [40, 0]
    checked = CliRunner().invoke(app, ["verify", str(tmp_path / "live.db"), "--curator"])
    assert checked.exit_code == 0, checked.output
