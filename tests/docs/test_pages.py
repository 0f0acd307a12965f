"""Pages for those who carry on name what is there."""

import inspect
import json
import re
from pathlib import Path

import pytest

import dpi

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text("utf-8")


def test_the_glossary_has_every_word_once_in_order():
    """A word that an entry points to has an entry of its own."""
    entries = re.findall(r"^\* \*\*(.+?)\*\*: ", GLOSSARY, re.MULTILINE)
    words = {word for entry in entries for word in entry.split(", ")}
    assert len(entries) > 40
    assert entries == sorted(set(entries))
    pointed = set(re.findall(r"(?<!\*)\*(\w[\w ]*)\*(?!\*)", GLOSSARY.partition("\n* ")[2]))
    assert {word for word in pointed if not {word, word.removesuffix("s")} & words} == set()


def test_files_that_contributing_names_are_there():
    """A file that was moved or renamed is noticed."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    named = [
        name
        for name in re.findall(r"`((?:src|tests|docs|benchmarks)/[^`]*)`", text)
        if "<" not in name and "*" not in name
    ]
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_page_is_in_the_navigation():
    """No page of docs/ is left out of the menu but the research log, and none of the menu is missing."""
    text = (ROOT / "docs" / "_ext" / "menu.md").read_text("utf-8")
    trees = re.findall(r"```{toctree}\n(.*?)```", text, re.DOTALL)
    menu = [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]
    found = [path for kind in ("md", "ipynb") for path in (ROOT / "docs").rglob(f"*.{kind}")]
    pages = {path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in found} - {"_ext/menu"}
    made = {page for page in pages if page.startswith("api/")}  # by the build, from what the package exports
    assert sorted(menu) == sorted((pages - made - {"index", "research-log"}) | {"api/index"})


def linked(page):
    """The pages that the words of a page link to; menus, which a repository does not show, do not count."""
    text = page.read_text("utf-8")
    if page.suffix == ".ipynb":
        text = "\n".join(
            "".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"
        )
    cards = [f"{name}.md" for name in re.findall(r"^:link: ([\w/-]+)$", text, re.MULTILINE)]
    for name in (*cards, *re.findall(r"\]\(([^)#\s]+)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))):
        other = (page.parent / name).resolve()
        if other.suffix in {".md", ".ipynb"} and other.is_file():
            yield other


@pytest.mark.parametrize("start", ["README.md", "docs/index.md"])
def test_every_page_is_at_most_three_clicks_away(start):
    """By links in the words of pages, from where a reader begins; the site's menu has all pages on each."""
    clicks, row = {}, [ROOT / start]
    for number in range(4):
        clicks |= dict.fromkeys(row, number)
        row = [other for page in row for other in linked(page) if other not in clicks]
    found = [path for kind in ("md", "ipynb") for path in (ROOT / "docs").rglob(f"*.{kind}")]
    pages = [path for path in found if not {"api", "_ext"} & {*path.parts}]
    assert len(pages) > 35
    assert [path.relative_to(ROOT).as_posix() for path in pages if path not in clicks and path.stem != "index"] == []


def anchors(page):
    """The anchors of a page's headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", ["CHANGELOG.md", "README.md", "CONTRIBUTING.md", "examples/README.md"])
def test_links_of_files_beside_the_book_lead_somewhere(name):
    """Pages that were merged, and headings that were renamed, are noticed; the build checks links of the book."""
    file = ROOT / name
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", file.read_text("utf-8")) if not re.match(r"\w+:", link)]
    assert links
    broken = []
    for link in links:
        path, _, anchor = link.partition("#")
        page = file.parent / path if path else file
        if not page.exists() or (anchor and page.suffix == ".md" and anchor not in anchors(page)):
            broken.append(link)
    assert broken == []


def test_every_room_has_its_row():
    """docs/design.md says of every package what it may see."""
    text = (ROOT / "docs" / "design.md").read_text("utf-8").partition("## Rooms and what they may see")[2]
    rows = re.findall(r"^\| (`.+?) \|", text.partition("\n## ")[0], re.MULTILINE)
    rooms = {name.strip("`") for row in rows for name in row.split(", ")}
    found = {
        path.stem
        for path in (ROOT / "src" / "dpi").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert rooms == found - {"__init__", "__main__"}


def test_where_a_change_begins():
    """The files and folders that docs/design.md sends a reader to are there."""
    table = (
        (ROOT / "docs" / "design.md").read_text("utf-8").partition("## Files to open by task")[2].partition("\n## ")[0]
    )
    named = re.findall(r"`([a-z_]+/[a-z_/]*(?:\.py)?)`", table)
    assert len(named) > 12
    assert [name for name in named if not any((root / name).exists() for root in (ROOT, ROOT / "src" / "dpi"))] == []


def test_every_exported_name_has_an_example():
    """Its page of the reference shows how it is used, and a test runs that."""
    names = [name for name in dpi.__all__ if not name.startswith("_")]
    assert [name for name in names if ">>> " not in (inspect.getdoc(getattr(dpi, name)) or "")] == []


@pytest.mark.parametrize("called", [dpi.Stream, dpi.Ledger, dpi.Stream.replay, dpi.follow, dpi.Release])
def test_every_parameter_has_its_row(called):
    """In a table of docs/streams.md that is headed by the name, and no row names another."""
    text = (ROOT / "docs" / "streams.md").read_text("utf-8")
    tables = re.findall(rf"^\| `{called.__name__}` \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    named = [
        name for table in tables for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])
    ]
    wanted = [name for name in inspect.signature(called).parameters if name != "self"]
    assert sorted(set(named) - {"scope", "freshness"}) == sorted(wanted)


def test_messages_that_the_book_quotes_are_those_of_the_program():
    """A reader looks for the words that they see."""
    text = (ROOT / "docs" / "faq.md").read_text("utf-8")
    quoted = re.findall(r'^\| "([^"]+)"', text, re.MULTILINE)
    code = " ".join(path.read_text("utf-8") for path in (ROOT / "src" / "dpi").rglob("*.py"))
    flat = re.sub(r'"\s*f?"|\s+', " ", code)
    assert len(quoted) >= 5
    assert [words for words in quoted if words not in flat and words not in code] == []
