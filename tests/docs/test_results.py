"""Measured figures have one home, `results/`: pages repeat them, say when they are stale, and have no others."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
results = importlib.import_module("results")
sys.path.pop(0)

PAGES = {path.stem: path.read_text("utf-8") for path in (ROOT / "docs").glob("*.md")}
CONVERTED: dict[str, set[str]] = {
    "performance": {
        "3.11", "17",  # versions that are needed
        "1,000", "ε = 1", "100", "2,000",  # what is measured
        "x86-64", "0.19.1", "0.21.0", "12",  # builds of a peer
        "1 is proportional, 0 not at all",
        "50", "36 bytes", "800",  # what is measured, the layout, options
        "2⁻⁴⁰", "1024", "10", "1 s", "1,024", "1,000,000", "20,000", "16 texts",  # limits
        "200,000", "500",  # what is measured, and options
        "60", "16.7 ms",  # of a screen
        "0.7", "74", "106",  # of the layout of accounts
    },
    "engine#Costs on Spark": set(),
    "published#Use and accuracy": {"[0, 1]"},
    "compare": {
        "ε = 1", "ε = 10", "ε = 0.1, 1 and 10", "L1", "100", "0, 5 % and 100 %",
        "cap of 1", "cap of 10", "Cap 10", "101", "51", "104",
        "27", "20", "2,000", "300", "δ = 10⁻⁶", "between 0 and 20,000", "600", "10⁻⁹", "2⁻²⁴",  # of mechanisms
        "5 / 50", "ε is 0.5", "1.34", "7 and 67", "0.005 after 50 slots", "Λ = 10⁴", "10⁸",  # printed by the paper
        "2020", "2021", "2023", "2^j",
    },
    "utility": {
        "0.01", "14", "95 %", "ε is 2", "200", "5,000", "100", "50,000", "3,000", "5 %",  # the measure, populations
        "60", "20", "40 %", "6,000", "48", "40", "1 %", "4,000", "30", "2 %",  # seasons and changes
        "close to 1", "and 1", "0.05", "10,000", "300", "20,000", "ε = 2", "total of 2", "0 is exact",
        "100 %", "COVID-19", "90 %",  # of applications
    },
}  # fmt: skip
"""Pages of evidence, or sections, whose figures are those of results, and digits of their own words: settings alone."""
PICTURES = {"performance": 3}
NARROW = ("performance", "engine")
"""Pages whose tables a reader takes in at a glance: six columns and fifteen rows at most."""


def text_of(place: str) -> str:
    """The text of a page, or of one of its sections."""
    page, _, heading = place.partition("#")
    if not heading:
        return PAGES[page]
    found = re.search(rf"^(#+) {re.escape(heading)}\n", PAGES[page], flags=re.MULTILINE)
    assert found is not None, f"there is no section {heading}"
    text = PAGES[page][found.end() :]
    end = re.search(rf"^#{{1,{len(found[1])}}} ", text, flags=re.MULTILINE)
    return text if end is None else text[: end.start()]


def own_words(text: str) -> str:
    """What a page says itself: without results, code and addresses."""
    text = results.FIGURE.sub("", results.TABLE.sub("", text))
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`]*`|\]\([^)]*\)|<!--.*?-->", "", text, flags=re.DOTALL)


@pytest.mark.parametrize("page", CONVERTED)
def test_a_page_has_no_figure_of_its_own(page):
    """Digits outside of results are settings. If this fails: put the figure into its result, and name that."""
    text = own_words(text_of(page))
    for setting in sorted(CONVERTED[page], key=len, reverse=True):
        assert setting in text, f"{setting} is not on the page any more"
        text = re.sub(rf"(?<![\d.,]){re.escape(setting)}(?![\d%]|[.,]\d)", "", text)
    found = [line.strip() for line in text.splitlines() if re.search(r"\d", line) and not re.match(r"\d+\. ", line)]
    assert found == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_the_figures_of_its_results(page):
    """As a reader of the repository sees them. If this fails: `make figures` writes them."""
    text = PAGES[page]
    assert results.fill(text) == text
    marks = [len(re.findall(mark, text)) for mark in ("<!-- (?:result|figure) ", "<!-- end -->")]
    assert marks == [len(results.TABLE.findall(text)) + len(results.FIGURE.findall(text))] * 2
    assert not re.search("^ *(?:[*-] )?<!-- figure ", text, flags=re.MULTILINE)  # would make the line one of HTML
    assert "{result}" not in text


@pytest.mark.parametrize("page", CONVERTED)
def test_a_page_says_how_its_figures_were_measured(page):
    """Below each table; what is in a sentence has its result somewhere on the page."""
    text = text_of(page)
    tables = [found[2] for found in results.TABLE.finditer(text)]
    assert tables
    assert results.included(text) == set(tables)
    assert text.count("Measured by `") + text.count("**Not measured yet**: `") == len(tables)


@pytest.mark.parametrize("page", NARROW)
def test_tables_are_small(page):
    """Six columns and fifteen rows at most."""
    tables = re.findall(r"(?:^\|.*\n)+", PAGES[page], flags=re.MULTILINE)
    assert [table for table in tables if table.count("\n") > 17 or table.partition("\n")[0].count("|") > 7] == []


@pytest.mark.parametrize("name", results.names())
def test_a_result_says_how_it_was_measured(name):
    """By a command that can be given again; it names no machine, and a page needs it."""
    path = ROOT / "results" / f"{name}.json"
    result = results.read(name)
    assert result.to_json() == path.read_text("utf-8")
    assert (ROOT / result.script).is_file()
    assert "benchmark" in result.code
    assert result.code.keys() <= results.PARTS.keys()
    assert result.measured or set(result.code.values()) == {None}
    assert all(len(row) == len(result.columns) for row in result.rows)
    assert len(set(result.columns)) == len(result.columns)
    assert not re.search(r"/(home|root|tmp|work)\b", path.read_text("utf-8"))
    assert any(name in results.included(text) or f"results/{name}.json" in text for text in PAGES.values())


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ('raise ValueError("there is no such slot.")', True),
        ('"""Its unit, and where it comes from."""', True),
        ("x = 2", False),
        ('rows("SELECT slot FROM releases WHERE slot = ?")', False),
    ],
)
def test_words_make_no_figure_stale(line, same, tmp_path):
    """A digest is of what a program does: another sentence changes nothing, another number or query does."""
    path = tmp_path / "module.py"
    path.write_text('"""A module."""\nx = 1\n"""Its unit."""\nraise ValueError("there is none.")\nrows("SELECT 1")\n')
    before, lines = results._tree(path), path.read_text().splitlines()
    name = line.split("(")[0].split(" ")[0]
    path.write_text("\n".join([line if one.startswith(name) else one for one in lines]))
    assert (results._tree(path) == before) is same


@pytest.mark.parametrize("part", results.PARTS)
def test_a_part_is_there(part):
    """A folder that has moved would have the digest of nothing."""
    assert list((ROOT / results.PARTS[part][0]).rglob("*.py"))


@pytest.mark.parametrize("page", PICTURES)
def test_pictures_are_there_and_show_no_path_of_a_machine(page):
    """A flame graph has modules and functions; a file's place on the machine that drew it stays there."""
    pictures = re.findall(r"\]\((images/performance-[\w-]+\.svg)\)", PAGES[page])
    assert len(pictures) == PICTURES[page]
    for name in pictures:
        text = (ROOT / "docs" / name).read_text("utf-8")
        assert "prefers-color-scheme: dark" in text
        assert not re.search(r"\.py\b|site-packages|[\"> ]/\w", text.replace("http://www.w3.org/2000/svg", ""))


def test_peers_are_pinned():
    """What is measured beside us is named by name and version."""
    lists = list((ROOT / "benchmarks" / "peers").glob("*.txt"))
    assert len(lists) == 5
    for path in lists:
        lines = path.read_text("utf-8").split()
        assert lines == sorted(lines, key=str.lower)
        assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []


BENCHMARK = '''"""Measures nothing."""
import sys
from pathlib import Path
sys.path.append(str(Path(__file__).parents[1] / "tools"))
import beside
from results import record

record("made", parts=["mechanism"], columns=["", "ms"], rows=[["one", [2.0, 1.0, 3.0]], ["two", 4]], values={"a": 0.5},
       seeds=[3, 4, 5])
'''


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A repository with one benchmark and one part."""
    for path, text in {
        "benchmarks/made.py": BENCHMARK,
        "benchmarks/beside.py": "NUMBER = 1\n",
        "src/dpi/mechanism/one.py": '"""Words."""\ndef f():\n    """More."""\n    return 1\n',
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "tools").mkdir()
    for name in ("DPI_FIGURES", *results.THREADS):
        monkeypatch.delenv(name, raising=False)
    shutil.copy(ROOT / "tools" / "results.py", tmp_path / "tools")
    return tmp_path


def said(tree, *words, code=0):
    """What the tool, or a benchmark, prints."""
    done = subprocess.run([sys.executable, *words], cwd=tree, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_a_result_is_measured_and_becomes_stale(tree, monkeypatch):
    """Other words change nothing; other code is told by its part; what is measured again is not stale."""
    tool, path = "tools/results.py", tree / "results" / "made.json"
    assert "| one | 2 (1 – 3) |" in said(tree, "benchmarks/made.py")
    assert not path.exists()  # a try writes nothing
    monkeypatch.setenv("DPI_FIGURES", "1")
    said(tree, "benchmarks/made.py")
    monkeypatch.delenv("DPI_FIGURES")
    stated = json.loads(path.read_text())
    assert stated["command"] == "python benchmarks/made.py"
    assert stated["seconds"] >= 0
    assert "0 of 1 results are stale" in said(tree, tool)
    module = tree / "src" / "dpi" / "mechanism" / "one.py"
    module.write_text('"""Other words."""\ndef f():\n\n    # a comment\n    return 1\n')
    assert "0 of 1 results are stale" in said(tree, tool)
    module.write_text("def f():\n    return 2\n")
    found = said(tree, tool)
    assert "Measured before the estimator changed." in found
    assert "1 of 1 results are stale" in found
    (tree / "benchmarks" / "beside.py").write_text("NUMBER = 2\n")
    assert "Measured before its benchmark and the estimator changed." in said(tree, tool)
    assert "$ python benchmarks/made.py" in said(tree, tool, "stale")
    assert "0 of 1 results are stale" in said(tree, tool)
    stated = json.loads(path.read_text())
    path.write_text(json.dumps({**stated, "code": {**stated["code"], "mechanism": None}}))
    assert "Measured with an earlier version of the program." in said(tree, tool)
    assert "there is no result 'other'. There are: made." in said(tree, tool, "other", code=1)


def test_a_declared_result_is_measured_and_its_goals_are_told(tree):
    """A page says so until then; afterwards it tells which goals were missed, and so does the list of what is stale."""
    page, path = tree / "docs" / "page.md", tree / "results" / "made.json"
    path.parent.mkdir()
    page.parent.mkdir()
    page.write_text("It is <!-- figure made a --><!-- end -->.\n\n<!-- result made -->\n<!-- end -->\n")
    path.write_text(results.Result("python benchmarks/made.py", {"benchmark": None}, None, "").to_json())
    assert re.search(r"made +\? s  Not measured yet\.", said(tree, "tools/results.py"))
    assert page.read_text() == (
        "It is <!-- figure made a -->(not measured yet)<!-- end -->.\n\n"
        "<!-- result made -->\n\n**Not measured yet**: `python benchmarks/made.py` will.\n\n<!-- end -->\n"
    )
    benchmark = tree / "benchmarks" / "made.py"
    goals = '[("one", 0.5, "at most", 0.7), ("two", 2.5, "at least", 2.5), ("three", 3, "at least", 4)]'
    benchmark.write_text(BENCHMARK.replace("values=", f"goals={goals}, values="))
    assert "docs/page.md: written" in said(tree, "tools/results.py", "made")
    text = page.read_text()
    assert "It is <!-- figure made a -->0.5<!-- end -->." in text
    assert "* Goal reached: one 0.5, at most 0.7.\n* Goal reached: two 2.5, at least 2.5.\n" in text
    assert "* **Goal missed**: three 3, at least 4.\n" in text
    listed = said(tree, "tools/results.py")
    assert "goal missed: three 3, at least 4" in listed
    assert "written" not in listed
    assert page.read_text() == text
    (tree / "benchmarks" / "beside.py").write_text("NUMBER = 2\n")
    assert "docs/page.md: written" in said(tree, "tools/results.py")
    assert page.read_text().endswith(f" {results.OLDER}\n\n<!-- end -->\n")


def test_a_page_names_some_rows_and_single_values(tree, monkeypatch):
    """A row that is not there is an error, not a gap."""
    monkeypatch.setenv("DPI_FIGURES", "1")
    said(tree, "benchmarks/made.py")
    monkeypatch.setattr(results, "FOLDER", tree / "results")
    monkeypatch.setattr(results, "ROOT", tree)
    filled = results.fill("It.\n\n<!-- result made\ntwo\n-->\nold\n<!-- end -->\n\nMore.\n")
    assert filled.startswith(
        "It.\n\n<!-- result made\ntwo\n-->\n\n|  | ms |\n|---|---|\n| two | 4 |\n\n"
        "Seeds 3 to 5. Measured by `python benchmarks/made.py`"
    )
    assert filled.endswith("\n\n<!-- end -->\n\nMore.\n")
    assert "one" not in filled
    assert "old" not in filled
    chosen = results.fill("<!-- result made\n:columns: ms |\none\n-->\n<!-- end -->\n")
    assert "| ms |  |\n|---|---|\n| 2 (1 – 3) | one |\n\nSeeds 3 to 5. Measured" in chosen
    with pytest.raises(ValueError, match="no column 's'"):
        results.fill("<!-- result made\n:columns: s\n-->\n<!-- end -->\n")
    with pytest.raises(ValueError, match="no row 'three'"):
        results.fill("<!-- result made\nthree\n-->\n<!-- end -->\n")
    with pytest.raises(KeyError):
        results.fill("<!-- figure made b --><!-- end -->")
