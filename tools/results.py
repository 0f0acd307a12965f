"""Measured figures as data: each has one home, `results/NAME.json`, which its benchmark writes and pages repeat.

    python tools/results.py             what is stale, and the seconds that it took last time
    python tools/results.py NAME …      measure these again, one after the other; `stale` names all that are stale

Both write the figures into the pages of `docs/`, between comments that readers do not see:

    <!-- result NAME                the table, how it was measured, and whether it is stale;
    :columns: one | another         with names of columns, these alone, in this order;
    a row's name -->                with names of rows, one a line, these alone
    <!-- end -->

    <!-- figure NAME key -->one of its single values<!-- end -->

A result is a table or some values, with the command that measured them, its seconds, seeds and machine, and a digest of
each part of the program that it depends on. A digest is of syntax trees without docstrings, strings below constants and
sentences: words change nothing. A result is stale once a part has another digest, and a page that repeats it says
so. A digest that is not known (null) is of figures that were measured before they were kept so: they are stale until
they are measured again. A file with a command alone declares a result: pages say that it is not measured yet.

A goal is a figure with the most, or the least, that it should be. Each has to be in the run that measured it; a page
tells the goals of a result below its table, reached or missed.

A benchmark calls `record` (from `benchmarks/measure.py`). It prints the table, and writes it if DPI_FIGURES is set, as
it is here, and once by hand for a new result: who tries a benchmark with other options replaces nothing.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "results"
PAGES = ROOT / "docs"
TABLE = re.compile(r"^(<!-- result ([\w-]+)\n?(.*?) ?-->\n)(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)
FIGURE = re.compile(r"(<!-- figure ([\w-]+) (.+?) -->).*?<!-- end -->")
COLUMNS = ":columns:"
WRITES = "DPI_FIGURES"
STALE = "stale"
THREADS = ("OMP_NUM_THREADS", "POLARS_MAX_THREADS")
START, LOAD = time.perf_counter(), os.getloadavg()[0]
AT_MOST, AT_LEAST = "at most", "at least"
NOT_YET = "not measured yet"
OLDER = "**Measured with an earlier version of the program; `make figures` says what has changed.**"
"""Stands below a table that is stale. It does not say more: else each change of the program would change pages."""
_SENTENCE = re.compile("[a-z]+ [a-z]+,? [a-z]+")
"""What only readers see: three words in a row, which neither names nor queries of ours have."""

PARTS: dict[str, tuple[str, str]] = {
    "benchmark": ("benchmarks", "its benchmark"),
    "events": ("src/dpi/events", "how events are read"),
    "domain": ("src/dpi/domain", "domains"),
    "histogram": ("src/dpi/histogram", "what a user contributes"),
    "noise": ("src/dpi/noise", "how noise is drawn"),
    "budget": ("src/dpi/budget", "accounts"),
    "estimator": ("src/dpi/estimator", "the learned estimator"),
    "mechanism": ("src/dpi/mechanism", "the estimator"),
    "release": ("src/dpi/release", "releases"),
    "store": ("src/dpi/store", "stores"),
    "stream": ("src/dpi/stream", "streams"),
    "engine": ("src/dpi/engine", "engines"),
    "apps": ("src/dpi/apps", "the applications"),
    "sources": ("src/dpi/sources", "how sources are read"),
    "cli": ("src/dpi/cli", "the command line"),
    "service": ("src/dpi/service", "the service"),
    "spark": ("packages/spark/src/dpi_spark", "streams on Spark"),
    "baselines": ("packages/research/src/dpi_research/baselines", "the systems of others"),
    "compare": ("packages/research/src/dpi_research/compare", "how systems are compared"),
    "datasets": ("packages/research/src/dpi_research/datasets", "the streams"),
}
"""What a figure may depend on: a folder, and how a page calls it. Of a benchmark, its script and what that imports."""
ESTIMATES = ("histogram", "noise", "budget", "mechanism", "release", "stream")
"""What the accuracy of a release depends on."""
SLOT = ("events", "domain", *ESTIMATES, "store")
"""What the time of a slot depends on."""

Cell = str | int | float | None | list[float] | dict[str, float]
"""A text, a number, none; two numbers beside each other; one with the two ends of its spread; or numbers by name."""
Goal = tuple[str, float, str, float]
"""What is measured, the figure, `AT_MOST` or `AT_LEAST`, and the bound."""


@dataclass(frozen=True)
class Result:
    """What was measured, and how."""

    command: str
    """From the root of the repository."""
    code: dict[str, str | None]
    """The digest of each part when it was measured."""
    seconds: float | None
    """That the command took."""
    machine: str
    """Without its name."""
    about: str = ""
    """A sentence that stands before the table."""
    columns: list[str] = field(default_factory=list)
    rows: list[list[Cell]] = field(default_factory=list)
    values: dict[str, Cell] = field(default_factory=dict)
    """Single figures, for sentences."""
    spread: str = ""
    """What stands in brackets after a number, such as quartiles of seven rounds."""
    seeds: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)

    @property
    def measured(self) -> bool:
        """Whether it is more than a declaration."""
        return bool(self.rows or self.values)

    @property
    def missed(self) -> list[Goal]:
        """The goals that were not reached."""
        return [goal for goal in self.goals if not _reached(goal)]

    @property
    def stale(self) -> str:
        """Why the figures are not those of the present program, as a sentence; empty if they are."""
        if not self.measured:
            return "Not measured yet."
        if None in self.code.values():
            return "Measured with an earlier version of the program."
        changed = [PARTS[part][1] for part, known in self.code.items() if known != digest(part, self.script)]
        listed = " and ".join(filter(None, [", ".join(changed[:-1]), *changed[-1:]]))
        return f"Measured before {listed} changed." if changed else ""

    @property
    def script(self) -> str:
        """The benchmark's file."""
        return next(word for word in shlex.split(self.command) if word.endswith(".py"))

    def to_json(self) -> str:
        """Return it as a file holds it, with a row a line."""
        always = ("code", "seconds", "machine")
        stated = {name: value for name, value in asdict(self).items() if value or name in always}
        rows = [json.dumps(row, ensure_ascii=False) for row in stated.pop("rows", [])]
        text = json.dumps(stated, ensure_ascii=False, indent=1)
        return text[:-2] + (',\n "rows": [\n  ' + ",\n  ".join(rows) + "\n ]" if rows else "") + "\n}\n"

    def table(self, only: Sequence[str] = (), columns: Sequence[str] = ()) -> str:
        """Return the table in Markdown, of all rows and columns or of some by name, and how it was measured."""
        if not self.measured:
            return f"**{NOT_YET.capitalize()}**: `{self.command}` will."
        shown = [row for row in self.rows if not only or str(row[0]) in only]
        for kind, asked, known in (("row", only, [str(row[0]) for row in shown]), ("column", columns, self.columns)):
            if missing := set(asked) - set(known):
                raise ValueError(f"the result has no {kind} {sorted(missing)[0]!r}.")
        places = [self.columns.index(head) for head in columns] or range(len(self.columns))
        heads = [self.columns[place] for place in places]
        lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"] if heads else []
        lines += [f"| {' | '.join(write(row[place]) for place in places)} |" for row in shown]
        took = "" if self.seconds is None else f"; it took {write(self.seconds)} s"
        how = [f"In brackets: {self.spread}." if self.spread else "", *self.notes, self._seeds]
        how += [f"Measured by `{self.command}` on {self.machine}{took}.", OLDER if self.stale else ""]
        goals = [_told(goal) for goal in self.goals]
        before, after = [self.about, ""] if self.about else [], ["", *goals, ""] if goals else [""]
        return "\n".join([*before, *lines, *after, " ".join(filter(None, how))])

    @property
    def _seeds(self) -> str:
        """The seeds as a sentence."""
        if len(self.seeds) < 2:
            return f"Seed {self.seeds[0]}." if self.seeds else ""
        first, last = min(self.seeds), max(self.seeds)
        follow = sorted(self.seeds) == [*range(first, last + 1)]
        return f"Seeds {first} to {last}." if follow else f"Seeds {', '.join(map(str, self.seeds))}."

    def value(self, name: str) -> str:
        """Return a single figure as a reader sees it."""
        return write(self.values[name]) if self.measured else f"({NOT_YET})"


def _reached(goal: Goal) -> bool:
    _, figure, relation, bound = goal
    return figure <= bound if relation == AT_MOST else figure >= bound


def _told(goal: Goal) -> str:
    what, figure, relation, bound = goal
    return f"* {'Goal reached' if _reached(goal) else '**Goal missed**'}: {what} {write(figure)}, {relation} {bound:g}."


def write(cell: Cell) -> str:
    """Return a cell as a reader sees it.

    >>> write(1234), write(0.01234), write([2.0, 1.5, 2.512]), write({"10": 0.5}), write(None)
    ('1,234', '0.0123', '2 (1.5 – 2.51)', '10: 0.5', '')
    """
    if isinstance(cell, list):
        first, *others = map(write, cell)
        return f"{first} / {others[0]}" if len(others) == 1 else f"{first} ({others[0]} – {others[1]})"
    if isinstance(cell, dict):
        return ", ".join(f"{name}: {write(each)}" for name, each in cell.items())
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.3g}"
    return "" if cell is None else f"{cell:,}" if isinstance(cell, int) else cell


def read(name: str) -> Result:
    """Return a result by its name."""
    return Result(**json.loads((FOLDER / f"{name}.json").read_text("utf-8")))


def names() -> list[str]:
    """Return the names of all results."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def record(
    name: str,
    *,
    parts: Iterable[str],
    columns: Sequence[str] = (),
    rows: Iterable[Sequence[Cell]] = (),
    values: Mapping[str, Cell] | None = None,
    about: str = "",
    spread: str = "",
    seeds: Iterable[int] = (),
    notes: Iterable[str] = (),
    goals: Iterable[Goal] = (),
) -> None:
    """Print what a benchmark has measured; write it, if figures are being measured."""
    script = Path(sys.argv[0]).resolve().relative_to(ROOT).as_posix()
    threads = [f"{name}={os.environ[name]}" for name in THREADS if name in os.environ]
    command = shlex.join([*threads, "python", script, *sys.argv[1:]])
    code: dict[str, str | None] = {part: digest(part, script) for part in ("benchmark", *parts)}
    result = Result(
        command, code, round(time.perf_counter() - START, 1), machine(), about, list(columns), [*map(list, rows)],
        dict(values or {}), spread, list(seeds), list(notes), list(goals),
    )  # fmt: skip
    print(result.table(), *(f"{key}: {write(cell)}" for key, cell in result.values.items()), "", sep="\n", flush=True)
    if os.environ.get(WRITES):
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{name}.json").write_text(result.to_json(), "utf-8")


def machine() -> str:
    """Return what this runs on, without its name."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    ours = f"Python {platform.python_version()}, numpy {version('numpy')}, polars {version('polars')}"
    cores = f"{platform.system()}, {platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB"
    return f"{cores}, {ours}, load {LOAD:.1f} before"


def digest(part: str, script: str) -> str:
    """Return the digest of a part: of its syntax trees, without docstrings, sentences and places."""
    return _digest(ROOT / (script if part == "benchmark" else PARTS[part][0]))


@cache
def _digest(place: Path) -> str:
    """Return the digest of a folder, or of a script and the benchmarks that it imports."""
    hashed = hashlib.blake2b(digest_size=8)
    for path in sorted(place.rglob("*.py")) if place.is_dir() else _scripts(place):
        hashed.update(f"{path.relative_to(ROOT)}\n{_tree(path)}\n".encode())
    return hashed.hexdigest()


def _tree(path: Path) -> str:
    """Return the syntax tree of a file without strings that do nothing, and with all sentences alike."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _SENTENCE.search(node.value):
            node.value = "a sentence"
        if isinstance(body := getattr(node, "body", None), list):
            body[:] = [
                each for each in body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
            ]
    return ast.dump(tree)


def _scripts(script: Path) -> list[Path]:
    """Return a benchmark, and the other benchmarks that it imports."""
    scripts, waiting = set[Path](), [script]
    while waiting:
        path = waiting.pop()
        scripts.add(path)
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            named = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            named += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            for beside in {script.parent / each.split(".")[0] for each in named}:
                files = {beside.with_suffix(".py"), *beside.glob("*.py")}
                waiting += [each for each in files - scripts if each.exists()]
    return sorted(scripts)


def fill(text: str) -> str:
    """Return a page's text with the figures that it names."""
    text = TABLE.sub(lambda match: f"{match[1]}\n{_table(match[2], match[3].splitlines())}\n\n<!-- end -->", text)
    return FIGURE.sub(lambda match: f"{match[1]}{read(match[2]).value(match[3])}<!-- end -->", text)


def _table(name: str, lines: list[str]) -> str:
    chosen = [head.strip() for line in lines if line.startswith(COLUMNS) for head in line[len(COLUMNS) :].split("|")]
    return read(name).table([line for line in lines if not line.startswith(COLUMNS)], chosen)


def included(text: str) -> set[str]:
    """Return the names of the results that a page repeats."""
    return {match[2] for pattern in (TABLE, FIGURE) for match in pattern.finditer(text)}


def write_pages() -> None:
    """Write the figures of `results/` into the pages."""
    for page in sorted(PAGES.glob("*.md")):
        text = page.read_text("utf-8")
        if (filled := fill(text)) != text:
            page.write_text(filled, "utf-8")
            print(f"{page.relative_to(ROOT)}: written")


def main(wanted: list[str]) -> None:
    """Say what is stale, or measure; then write the pages."""
    results = {name: read(name) for name in names()}
    stale = {name: result for name, result in results.items() if result.stale}
    chosen = [*dict.fromkeys(name for each in wanted for name in (stale if each == STALE else [each]))]
    if unknown := set(chosen) - results.keys():
        sys.exit(f"there is no result {sorted(unknown)[0]!r}. There are: {', '.join(results)}.")
    failed = 0
    for command in dict.fromkeys(results[name].command for name in chosen):
        print(f"$ {command}", flush=True)
        words = ["env", *(sys.executable if word == "python" else word for word in shlex.split(command))]
        failed += subprocess.run(words, cwd=ROOT, env=os.environ | {WRITES: "1"}, check=False).returncode != 0
    write_pages()
    if wanted:
        sys.exit(f"{failed} of the commands failed: their results are as they were." if failed else 0)
    for name, result in stale.items():
        cost = "? s" if result.seconds is None else f"{write(result.seconds)} s"
        print(f"{name:32} {cost:>8}  {result.stale}")
    for name, result in results.items():
        for what, figure, relation, bound in result.missed:
            print(f"{name:32} goal missed: {what} {write(figure)}, {relation} {bound:g}")
    print(f"{len(stale)} of {len(results)} results are stale.")
    if stale:  # a command may write several results, the last one at its end
        costs = dict(sorted((result.command, result.seconds or 0.0) for result in stale.values()))
        unknown_times = [*costs.values()].count(0.0)
        print(f"To measure them: make figures NAMES={STALE}")
        print(f"That takes {sum(costs.values()):,.0f} s, not counting {unknown_times} commands of unknown time.")


if __name__ == "__main__":
    main(sys.argv[1:])
