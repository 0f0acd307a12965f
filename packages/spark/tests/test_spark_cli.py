"""`dpi run --engine spark`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from typer.testing import CliRunner

import dpi
from cli_files import SECRETS, rows
from dpi.cli.app import app
from dpi.verification import check_accounts, verify


def dpi_run(folder: Path, *words: str) -> tuple[int, str]:
    """Status and words of a run on Spark."""
    (folder / "visits.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows(2)))
    (folder / "countries.txt").write_text("DE\nFR\nIT\n")
    period = ("--from", "2026-01-01", "--to", "2026-01-01T02:00", "--slot", "1h", "--epsilon", "1")
    names = ("--time", "at", "--value", "country", "--domain", str(folder / "countries.txt"))
    store = ("--store", str(folder / "visits.db"))
    result = CliRunner().invoke(
        app, ["run", str(folder / "visits.ndjson"), *period, *names, *store, "--engine", "spark", *words]
    )
    return result.exit_code, result.output


def test_a_run_on_spark_releases_every_slot(running, tmp_path):
    """With the session that is there, which stays; accounts lie in buckets, and everything verifies."""
    status, words = dpi_run(tmp_path)
    assert status == 0, words
    assert not any(secret in words for secret in SECRETS)
    assert running.range(3).count() == 3
    with dpi.open_store(tmp_path / "visits.db") as store:
        assert len(list(store.releases(""))) == 2
        assert store.layout is not None
        assert verify(store).problems == ()
        assert check_accounts(store) == ()


def test_a_file_that_grows_is_followed(running, tmp_path):
    """`--follow`: the driver reads lines as they come, and Spark's tasks close the slots."""
    (tmp_path / "countries.txt").write_text("DE\nFR\n")
    lines = [{"user": n, "time": "2026-01-01T00:10", "value": "DE", "arrived": "2026-01-01T00:20"} for n in range(40)]
    (tmp_path / "log.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))
    period = ["--slot", "1h", "--from", "2026-01-01", "--to", "2026-01-01T02:00", "--config", "arrived=arrived"]
    store = ["--domain", str(tmp_path / "countries.txt"), "--store", str(tmp_path / "live.db")]
    generous = ["--epsilon", "1024", "--per-slot", "100"]  # a count is half a user off with probability below 10⁻²⁰
    words = ["run", str(tmp_path / "log.ndjson"), "--follow", *period, *store, *generous, "--engine", "spark"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    with dpi.open_store(tmp_path / "live.db") as opened:
        counted = [sum(memoryview(paid.values).cast("q")) / 2**24 for paid in opened.measurements("")]
        assert [round(total) for total in counted] == [40, 0]
        assert [*verify(opened).problems, *check_accounts(opened)] == []


def test_a_run_without_spark_says_what_to_install_and_leaves_nothing(tmp_path, monkeypatch):
    """One sentence, and no store."""
    monkeypatch.setitem(sys.modules, "pyspark", None)
    status, words = dpi_run(tmp_path)
    assert status != 0
    assert "install dpi-streams-spark" in words
    assert not list(tmp_path.glob("visits.db*"))
