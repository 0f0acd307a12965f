"""The technical report reads figures that are there, cites what its list has, and compiles where Typst is installed."""

from __future__ import annotations

import ast
import importlib
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
paper = importlib.import_module("paper")
results = importlib.import_module("results")
sys.path.pop(0)

FOLDER = ROOT / "docs" / "paper"
TEXT = (FOLDER / "dpi.typ").read_text("utf-8")
WORD = r'"((?:[^"\\]|\\.)*)"'
CALL = re.compile(rf"\b(rows|cell|value)\(\s*{WORD}((?:,\s*{WORD})*)\s*\)")


def declared(name):
    """The columns of a result that is not measured yet, from the benchmark that records it."""
    for path in (ROOT / "benchmarks").glob("*.py"):
        text = path.read_text("utf-8")
        if f'record("{name}"' in text:
            for node in ast.parse(text).body:
                if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "COLUMNS":
                    return ast.literal_eval(node.value)
    return None


@pytest.mark.parametrize("name", paper.named())
def test_a_result_that_the_report_names_is_there(name):
    """Or a benchmark will write it: the report then says what is missing."""
    assert name in results.names() or declared(name) is not None


def test_the_report_reads_columns_rows_and_values_that_are_there():
    """What a result had and has no more is noticed without Typst. If this fails: name what it has now."""
    missing = []
    for kind, name, others, _ in CALL.findall(TEXT):
        asked = re.findall(WORD, others)
        if name not in results.names():
            missing += [(name, each) for each in asked if each not in (declared(name) or ())]
            continue
        result = results.read(name)
        known = set(result.values if kind == "value" else result.columns)
        if kind == "cell":
            row, *asked = asked
            missing += [] if row in {line[0] for line in result.rows} else [(name, row)]
        missing += [(name, each) for each in asked if each not in known]
    assert len(CALL.findall(TEXT)) > 40
    assert missing == []


def test_every_reference_is_cited_and_every_name_is_known():
    """A label that is gone, and a reference that no sentence needs, are noticed."""
    listed = set(re.findall(r"^([a-z]+\d*[a-z]*):$", (FOLDER / "references.yml").read_text("utf-8"), re.MULTILINE))
    labels = set(re.findall(r"<([a-z-]+)>", TEXT))
    used = set(re.findall(r"(?<!\w)@([a-z][a-z0-9-]*)", TEXT))
    assert len(listed) > 20
    assert used - labels == listed


def test_the_report_names_no_place_of_a_machine():
    """It is read elsewhere."""
    for path in FOLDER.iterdir():
        assert not re.search(r"/(home|root|tmp|work)\b", path.read_text("utf-8")), path.name


def test_the_report_compiles(tmp_path, monkeypatch, capsys):
    """With the results that are there; what is not measured is said in a sentence."""
    pytest.importorskip("typst", reason="needs Typst: `make paper` installs it (the extra paper)")
    monkeypatch.setattr(paper, "PDF", tmp_path / "out" / "paper.pdf")
    assert paper.main([]) == 0
    assert paper.PDF.read_bytes().startswith(b"%PDF")
    lacking = {name for name in paper.named() if name not in results.names() or not results.read(name).measured}
    said = capsys.readouterr().out
    assert {name for name in paper.named() if f"results/{name}.json is not measured yet" in said} == lacking


def test_without_typst_it_says_what_to_do(monkeypatch):
    """In a sentence, not a traceback."""
    monkeypatch.setitem(sys.modules, "typst", None)
    with pytest.raises(SystemExit, match="`make paper` installs it"):
        paper.main([])


def test_what_is_computed_is_what_the_audit_finds():
    """The exact loss is the true bound, and passes the claim."""
    computed = json.loads(json.dumps(paper.compute()))
    assert set(computed["stale"]) <= set(computed["read"])
    for row in computed["excesses"]:
        assert row["found"] == pytest.approx(row["bound"], rel=1e-4)
    assert computed["all draws"][-1] > 100 * computed["claimed"][-1]
    assert computed["claimed"][-1] < paper.EPSILON
