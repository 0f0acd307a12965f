"""Results are computed once, kept whole, and a page says what is missing."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dpi.release.plots import blank
from dpi_research.reproduce import Case, Experiment, Sheet, Summary, Table, run, write
from dpi_research.reproduce._running import left
from dpi_research.reproduce.experiment import Rows, Value


def square(number: int, log: str) -> list[dict[str, Value]]:
    """A case that tells when it was computed."""
    with Path(log).open("a") as file:
        file.write(f"{number}\n")
    return [{"number": number, "square": number**2, "third": number / 3}]


def sheet(rows: Rows) -> Sheet:
    """One of each kind."""
    figure = blank(3, 2)
    figure.subplots().plot([1, 2], [3, 4])
    return Sheet(
        found=(f"{len(rows)} squares.",),
        figures={"plot": (figure, "Two points & a line.")},
        tables=(Table("Squares", ("a|b", "square"), (("1", "1"),)),),
        summary=(Summary("largest", published="about 9", ledger="9"),),
    )


def experiment(log: Path, *, data: str | None = None) -> Experiment:
    """Four cases, or two."""

    def cases(quick: bool) -> list[Case]:
        known = [Case(square, {"number": n, "log": str(log)}) for n in range(2 if quick else 4)]
        return known if data is None else [*known, Case(square, {"number": 9, "log": str(log)}, data=data)]

    return Experiment("squares", "Squares", "they say 9", "we do this", ("four instead of ten",), cases, sheet)


def calls(log: Path) -> list[int]:
    """What was computed."""
    return sorted(int(line) for line in log.read_text().split()) if log.exists() else []


@pytest.mark.parametrize("processes", [1, 2])
def test_a_result_is_computed_once(tmp_path: Path, processes: int) -> None:
    """A second run reads it; `fresh` computes it again."""
    log, told = tmp_path / "log", []
    made = experiment(log)
    assert left([made], tmp_path) == 4
    [outcome] = run([made], tmp_path, processes=processes, progress=told.append)
    assert [row["square"] for row in outcome.rows] == [0, 1, 4, 9]
    assert len(told) == 4
    assert left([made], tmp_path) == 0
    [again] = run([made], tmp_path, processes=processes)
    assert again.rows == outcome.rows
    assert calls(log) == [0, 1, 2, 3]
    run([made], tmp_path, fresh=True)
    assert calls(log) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_torn_result_is_computed_again(tmp_path: Path) -> None:
    """Half a file is no result."""
    made = experiment(tmp_path / "log")
    run([made], tmp_path)
    first = next((tmp_path / "results" / "squares").glob("*.json"))
    first.write_text(first.read_text()[:20])
    assert left([made], tmp_path) == 1
    run([made], tmp_path)
    kept = json.loads(first.read_text())
    assert kept["options"]["number"] == kept["rows"][0]["number"]


def test_other_options_are_another_result(tmp_path: Path) -> None:
    """The quick form shares nothing by accident."""
    made = experiment(tmp_path / "log")
    run([made], tmp_path, quick=True)
    assert left([made], tmp_path) == 2


def test_missing_data_is_said_and_the_rest_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data set that is not there leaves its cases out."""
    monkeypatch.setenv("DPI_DATA", str(tmp_path))
    [outcome] = run([experiment(tmp_path / "log", data="retail")], tmp_path)
    assert outcome.missing == ("retail",)
    assert len(outcome.rows) == 4
    text = write([outcome], tmp_path, quick=False).with_name("report.md").read_text()
    assert "Not computed: the data set `retail`" in text


def test_the_page_has_everything(tmp_path: Path) -> None:
    """Text, figures, tables and data; the same bytes twice."""
    outcomes = run([experiment(tmp_path / "log")], tmp_path)
    page = write(outcomes, tmp_path, quick=False, elapsed=75.0)
    text = page.read_text()
    for part in ("they say 9", "four instead of ten", "4 squares.", "squares-plot.svg", "about 9", "1 min 15 s"):
        assert part in text
    assert "<td>1</td>" in text
    assert "&amp; a line" in text
    assert "<text" in (tmp_path / "squares-plot.svg").read_text()
    assert (tmp_path / "squares.csv").read_text().splitlines()[2] == "1,1,0.333333"
    first = {file.name: file.read_bytes() for file in tmp_path.glob("*.svg")}
    write(outcomes, tmp_path, quick=False, elapsed=75.0)
    assert first == {file.name: file.read_bytes() for file in tmp_path.glob("*.svg")}


def test_the_report_has_tables_that_can_be_read(tmp_path: Path) -> None:
    """A long or wide table stands in the page alone; a summary of many rows is several tables, of whole experiments."""
    long = Table("Long", ("a",), tuple((f"row {number}",) for number in range(16)))
    wide = Table("Wide", tuple("abcdefg"), (("seventh",) * 7,))
    rows = tuple(Summary(f"measure {number}") for number in range(8))

    def many(_: Rows) -> Sheet:
        return Sheet(tables=(long, wide), summary=rows)

    made = experiment(tmp_path / "log")
    outcomes = run([replace(made, name=name, sheet=many) for name in ("one", "two")], tmp_path)
    page = write(outcomes, tmp_path, quick=False)
    report = page.with_name("report.md").read_text()
    assert "**Long**\n\n16 rows, in the page that `dpi reproduce one` writes." in report
    assert "seventh" not in report
    assert report.count("| measure |") == 2
    assert page.read_text().count("<td>row 15</td>") == 2
    assert "seventh" in page.read_text()
