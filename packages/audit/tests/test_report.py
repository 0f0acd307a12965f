"""The report: verdicts, table, JSON, exit code; and the whole audit."""

import json
import math
import os

import pytest

import dpi_audit as audit
from dpi_audit import AuditReport, Row, _running
from dpi_audit._shipped import DRAWS, STREAMS
from dpi_audit.lives import LIVES
from dpi_audit.zoo import PAIRS

HOLDS = Row("shipped", "good", 1.0, 0.95, 0.4, False, tight=True)
CAUGHT = Row("broken", "bad", 1.0, math.inf, None, True, "where")


def report(*rows):
    """A report of given rows."""
    return AuditReport(rows, (), True, 1.0, 1e-6)


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        (HOLDS, "holds"), (CAUGHT, "caught"),
        (Row("shipped", "x", 1.0, 1.5, None, True), "VIOLATED"),
        (Row("twin", "x", 1.0, None, 1.5, True), "VIOLATED"),
        (Row("broken", "x", 1.0, 0.5, None, False), "MISSED"),
        (Row("shipped", "x", 1.0, 0.5, None, False, tight=True), "WASTEFUL"),
    ],
)  # fmt: skip
def test_every_row_has_one_verdict(row, verdict):
    """Shipped ones and twins hold, broken ones are caught; anything else fails the audit with exit code 1."""
    assert row.verdict == verdict
    assert report(row).exit_code == (0 if verdict in ("holds", "caught") else 1)
    assert verdict in str(report(row))
    assert json.loads(report(row).to_json())["rows"][0]["verdict"] == verdict


def test_a_report_reads_well():
    """One line for each row, infinity as a sign in the table and as a word in JSON, violations with their witness."""
    text = str(report(HOLDS, CAUGHT))
    assert "∞" in text
    assert "All as it should be." in text
    rows = json.loads(report(HOLDS, CAUGHT).to_json())["rows"]
    assert (rows[1]["exact"], rows[0]["empirical"], rows[1]["empirical"]) == ("infinite", 0.4, None)
    wrong = report(Row("shipped", "x", 1.0, 1.5, None, True, "user in every slot"))
    assert "Witness: user in every slot" in str(wrong)
    assert wrong.violations == wrong.rows


def test_the_published_accounting_stands_beside_the_notes():
    """The exact losses of Algorithm 1 are the corrected bounds, and exceed Theorem 1 from 10 slots with 20 draws on."""
    rows = {(row.slots, row.draws): row for row in audit.excesses()}
    assert set(rows) == {(slots, draws) for slots in (10, 100, 1000) for draws in (1, 20)}
    for row in rows.values():
        assert row.found <= row.bound * (1 + 1e-9)
        assert row.found == pytest.approx(row.bound, rel=1e-3)
    for slots in (10, 100, 1000):
        true, claimed = rows[slots, 1].printed.split("/")
        assert rows[slots, 1].bound == pytest.approx(float(true), rel=0.1)
        assert rows[slots, 1].claimed == pytest.approx(float(claimed), rel=0.02)
        assert rows[slots, 20].excess > 3


def test_the_whole_audit(monkeypatch):
    """All shipped mechanisms hold and all broken ones are caught (a few of each, unless DPI_SLOW is set)."""
    quick = not os.environ.get("DPI_SLOW")
    if quick:
        monkeypatch.setattr(_running, "STREAMS", STREAMS[:1])  # each of them has a test below
        monkeypatch.setattr(_running, "LIVES", LIVES[-1:])  # see test_lives.py
        monkeypatch.setattr(_running, "DRAWS", {"permute-and-flip": DRAWS["permute-and-flip"]})  # see test_samplers.py
        monkeypatch.setattr(_running, "PAIRS", PAIRS[:1])
        monkeypatch.setattr(_running, "BOXES", ())
        monkeypatch.setattr(_running, "QUICK_FAMILIES", _running.QUICK_FAMILIES[:1])
        monkeypatch.setattr(_running, "_check_commands", lambda family: [])  # see test_reach_commands.py
    said = []
    found = audit.run(quick=quick, progress=said.append)
    assert found.ok, str(found)
    assert found.exit_code == 0
    assert {row.kind for row in found.rows} == {"shipped", "broken", "twin"}
    assert "time to release" in said


@pytest.mark.parametrize("box", _running.BOXES, ids=lambda box: box[0])
def test_no_black_box_lets_out_more_than_it_claims(box):
    """Runs with and without the user are told apart no better than the claim allows (false alarm 10^-6 each)."""
    (row,) = _running.check_box(*box, quick=True)
    assert row.verdict == "holds", row.witness


@pytest.mark.parametrize("mechanism", STREAMS, ids=lambda mechanism: mechanism.name)
def test_every_shipped_mechanism_holds_and_uses_what_it_claims(mechanism):
    """No neighbours lose more than is claimed; where the bound is tight, at least nine tenths of it are reached."""
    (row,) = _running.check_shipped(mechanism, quick=True)
    assert row.verdict == "holds", row.witness
    assert row.tight or row.note
