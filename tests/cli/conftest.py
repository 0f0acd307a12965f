"""A runner of commands in a folder of their own, and files with rows that must never be printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli_files import SECRETS, rows
from dpi.cli.app import app


class Cli:
    """Runs commands in this process; every call states the exit code that it expects."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._runner = CliRunner()

    def __call__(self, *words: object, code: int = 0, stdin: str | None = None) -> str:
        """Both outputs of a command, which hold nothing private."""
        result = self._runner.invoke(app, [str(word) for word in words], input=stdin, prog_name="dpi")
        self.stdout, self.stderr = result.stdout, result.stderr
        assert result.exit_code == code, f"{result.exit_code}: {result.output} {result.exception!r}"
        for secret in SECRETS:
            assert secret not in result.output
        assert "Traceback" not in result.output
        return result.output

    def json(self, *words: object, code: int = 0) -> dict[str, object]:
        """The document that a command prints with --json: one, and nothing else."""
        self(*words, "--json", code=code)
        found = json.loads(self.stdout)
        assert isinstance(found, dict)
        return found


@pytest.fixture
def cli(tmp_path, monkeypatch):
    """Commands in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return Cli(tmp_path)


@pytest.fixture
def visits(cli):
    """Options of a run over a CSV file; the store and the period are left to the test."""
    lines = ["user,at,country,age"]
    lines += [",".join("" if v is None else str(v) for v in row.values()) for row in rows()]
    lines += ["secret-user-broken,2026", '"secret-user-open,2026-01-01T00:30:00,DE,4']
    (cli.folder / "visits.csv").write_text("\n".join(lines) + "\n")
    (cli.folder / "countries.txt").write_text("DE\nFR\nIT\n")
    return [
        "visits.csv", "--time", "at", "--value", "country", "--domain", "countries.txt", "--other", "elsewhere",
        "--slot", "1h", "--epsilon", "1", "--per-slot", "0.2",
    ]  # fmt: skip
