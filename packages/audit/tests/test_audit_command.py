import json
import math
import os
import subprocess

import pytest

import dpi_audit
from cli_files import ENVIRONMENT, PROGRAM
from dpi_audit import AuditReport, Row

HOLDS = Row("shipped", "good", 1.0, 0.95, 0.4, False, tight=True)
CAUGHT = Row("broken", "bad", 1.0, math.inf, None, True, "where")
VIOLATED = Row("shipped", "leaky", 1.0, 1.5, None, True, "user in every slot")


@pytest.fixture
def audited(monkeypatch):
    """Makes `audit.run` report given rows, and remembers how it was called."""
    calls = []

    def given(*rows):
        def run(quick, progress, *, processes):
            calls.append((quick, processes))
            progress("a part")
            return AuditReport(rows, dpi_audit.excesses(), quick, 1.0, 1e-6)

        monkeypatch.setattr(dpi_audit, "run", run)
        return calls

    return given


def test_the_table_is_printed(cli, audited):
    """Claim, exact worst, empirical bound and verdict of every mechanism, and six lines of the published accounting."""
    calls = audited(HOLDS, CAUGHT)
    cli("audit", "--quick")
    assert cli.stdout.splitlines()[0].split("  ")[0] == "mechanism"
    for word in ("claimed", "exact worst", "empirical ≥", "verdict", "caught", "holds", "∞", "All as it should be."):
        assert word in cli.stdout
    lines = [line.split()[:2] for line in cli.stdout.splitlines()]
    assert all([str(slots), str(draws)] in lines for slots in (10, 100, 1000) for draws in (1, 20))
    assert cli.stderr == ""
    assert calls[0][0] is True
    assert 1 <= calls[0][1] <= 2


def test_an_audit_says_how_far_it_is(cli, audited, monkeypatch):
    """Where standard error is no terminal, a line now and then tells the part that is over; with --json none."""
    monkeypatch.setattr("dpi.cli.output.EVERY", 0.0)
    audited(HOLDS, CAUGHT)
    cli("audit", "--quick")
    assert cli.stderr == f"dpi: audit: 1/{dpi_audit.count_steps(True)} a part\n"
    cli.json("audit", "--quick")
    assert cli.stderr == ""


def test_a_violation_is_an_exit_code(cli, audited):
    """1, with the witness; in JSON too."""
    audited(HOLDS, VIOLATED)
    assert "Witness: user in every slot" in cli("audit", code=1)
    found = cli.json("audit", code=1)
    assert found["ok"] is False
    assert [row["verdict"] for row in found["rows"]] == ["holds", "VIOLATED"]
    assert len(found["accounting"]) == 6
    audited(HOLDS, Row("broken", "missed", 1.0, 0.5, None, False))
    cli("audit", code=1)


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("DPI_SLOW"), reason="every part of it is a test of its own")
def test_the_quick_audit(tmp_path):
    """The real command in its quick form: all that is shipped holds, all that is broken is caught."""
    done = subprocess.run(
        [*PROGRAM, "audit", "--quick", "--json"], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, check=False
    )
    assert done.stderr == b""
    found = json.loads(done.stdout)
    assert done.returncode == 0, [row for row in found["rows"] if not row["as_expected"]]
    verdicts = {(row["kind"], row["verdict"]) for row in found["rows"]}
    assert verdicts == {("shipped", "holds"), ("broken", "caught"), ("twin", "holds")}
    assert any("store on disk" in row["name"] for row in found["rows"])
    assert any("command line" in row["name"] for row in found["rows"])
