"""The report: a page of Markdown with a figure of each experiment, one of HTML with all of them, and rows as CSV."""

from __future__ import annotations

import csv
import html
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpi._version import __version__
from dpi_research.reproduce._running import Outcome
from dpi_research.reproduce.experiment import Sheet, Value

SVG: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "dpi", "path.simplify_threshold": 0.3}
"""Text stays text, and the same figure has the same bytes."""

SUMMARY = ("measure", "published", "uniform guess", "strict", "boosted + converging", "boosted + ledger")

LEFT_OUT = "Each part has its first figure here; the page that the command writes has all figures, tables and data."

MOST_ROWS, MOST_COLUMNS = 15, 6
"""Of a table that a person reads."""

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1c1f24 }
table { border-collapse: collapse; margin: 1rem 0; font-size: .9rem; display: block; overflow-x: auto }
th, td { border-bottom: 1px solid #d5d9e0; padding: .3rem .7rem; text-align: left; vertical-align: top }
img { max-width: 100%; height: auto; background: white } code { background: #f1f3f6; padding: 0 .2rem }
"""


def write(outcomes: Sequence[Outcome], folder: Path, *, quick: bool, elapsed: float | None = None) -> Path:
    """Write the report of these experiments; `elapsed` are the seconds that the run took. Returns the HTML page.

    Two runs with the same results write the same bytes, but for the times.
    """
    import matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    sheets: dict[str, Sheet] = {}
    for outcome in outcomes:
        name = outcome.experiment.name
        sheets[name] = outcome.experiment.sheet(outcome.rows) if outcome.rows else Sheet()
        _write_csv(folder / f"{name}.csv", outcome.rows)
        with matplotlib.rc_context(SVG):
            for end, (figure, _) in sheets[name].figures.items():
                figure.savefig(folder / f"{name}-{end}.svg", metadata={"Date": None})
    report, whole = (_markdown(outcomes, sheets, quick, elapsed, whole=whole) for whole in (False, True))
    (folder / "report.md").write_text(report, encoding="utf-8")
    page = folder / "index.html"
    page.write_text(_html(whole), encoding="utf-8")
    return page


def _write_csv(file: Path, rows: Sequence[Mapping[str, Value]]) -> None:
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with file.open("w", newline="", encoding="utf-8") as sink:
        writer = csv.writer(sink, lineterminator="\n")
        writer.writerow(columns)
        for row in rows:
            cells = (row.get(column) for column in columns)
            writer.writerow([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in cells])


def _markdown(
    outcomes: Sequence[Outcome], sheets: Mapping[str, Sheet], quick: bool, elapsed: float | None, *, whole: bool
) -> str:
    """Return the report, with all figures and tables (`whole`) or with those that a person reads at once."""
    core = sum(outcome.seconds for outcome in outcomes)
    form = "quick form: fewer slots, seeds and values than the full one" if quick else "full form"
    took = "" if elapsed is None else f" This run took {_time(elapsed)} with {os.cpu_count()} cores."
    lines = [
        "# The evaluation, reproduced",
        "",
        "This report computes the published evaluation again, experiment by experiment. Compare each system with the "
        "uniform guess first: a system that is not better says nothing about the data. This package is worse than the "
        "guess in some rows too, mostly on the nearly uniform streams of the published text.",
        "",
        "The total ε is the same for all systems of a row, per user and for ever. *Published* is what the published "
        "text states. *Strict* is its algorithm with a guarantee that holds. The others are this package; the last one "
        "has the default budget `Ledger()` (`returning=False` where each person is there once). KL is KL(truth ‖ "
        "release) in nats, MSE the mean over bins of (p - q)².",
        "",
        f"Written by `dpi reproduce`, version {__version__}, {form}; {_time(core)} of work for one core.{took} A "
        "result is computed again if its options, its seed or its code changed." + ("" if whole else f" {LEFT_OUT}"),
        "",
    ]
    lines += _summary(outcomes, sheets)
    for outcome in outcomes:
        lines += _section(outcome, sheets[outcome.experiment.name], whole)
    return "\n".join(lines).rstrip() + "\n"


def _summary(outcomes: Sequence[Outcome], sheets: Mapping[str, Sheet]) -> list[str]:
    """Tables of the main figures, each of whole experiments and of at most so many rows as a person reads."""
    lines, waiting = (
        list[str](),
        [outcome.experiment for outcome in outcomes if sheets[outcome.experiment.name].summary],
    )
    while waiting:
        rows, titles = list[tuple[str, ...]](), list[str]()
        while waiting and (not rows or len(rows) + len(sheets[waiting[0].name].summary) <= MOST_ROWS):
            experiment = waiting.pop(0)
            titles.append(f"[{experiment.title}](#{experiment.name})")
            rows += [
                (line.measure, line.published, line.uniform, line.strict, line.converging, line.ledger)
                for line in sheets[experiment.name].summary
            ]
        lines += [f"{'; '.join(titles)}:", "", *_table(SUMMARY, rows), ""]
    return ["## Summary", "", *lines] if lines else []


def _section(outcome: Outcome, sheet: Sheet, whole: bool) -> list[str]:
    experiment = outcome.experiment
    lines = [f'## {experiment.title} <a id="{experiment.name}"></a>', ""]
    lines += [f"**Published.** {experiment.published}", "", f"**Here.** {experiment.setting}", ""]
    if experiment.deviations:
        lines += ["**Other than published.**", "", *(f"- {text}" for text in experiment.deviations), ""]
    for name in outcome.missing:
        lines += [
            f"*Not computed: the data set `{name}`; set DPI_DATA to the folder that has it (docs: data sets).*",
            "",
        ]
    lines += [f"{text}\n" for text in sheet.found]
    shown = list(sheet.figures.items())
    for end, (_, caption) in shown if whole else shown[:1]:
        lines += [f"![{html.escape(caption)}]({experiment.name}-{end}.svg)", "", f"*{caption}*", ""]
    for table in sheet.tables:
        read = len(table.columns) <= MOST_COLUMNS and len(table.rows) <= MOST_ROWS
        left_out = f"{len(table.rows)} rows, in the page that `dpi reproduce {experiment.name}` writes."
        body = _table(table.columns, table.rows) if whole or read else [left_out]
        lines += [f"**{table.title}**", "", *body, ""]
    data = f"{experiment.name}.csv"
    lines += [
        f"{len(outcome.results)} cases, {_time(outcome.seconds)} of one core, code {', '.join(outcome.codes)}. Data: "
        + (f"[{data}]({data})." if whole else f"`{data}`."),
        "",
    ]
    return lines


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table of Markdown; bars would end a cell."""
    lines = [[*columns], ["---"] * len(columns), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


def _time(seconds: float) -> str:
    """For a person.

    >>> _time(4.2), _time(90), _time(7500)
    ('4 s', '1 min 30 s', '2 h 5 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _html(text: str) -> str:
    from markdown_it import MarkdownIt

    body = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>The evaluation, reproduced</title><style>{STYLE}</style></head><body>\n{body}</body></html>\n"
    )
