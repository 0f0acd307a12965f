"""How long the book is and how it reads: words, mean sentence and longest sentence by page (`make docs` prints it).

    python tools/reading.py [PAGE …]

A report and no gate. Words are those that readers see, of tables and code too, without the bars of tables.
Sentences are those of paragraphs and lists, without code, tables, headings and comments; long ones have more than 25
words.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = re.compile(r"^ *(`{3,}|:{3,}).*?^ *\1|<!--.*?-->|^ *\|.*?$|^#.*?$|^!\[.*?$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
PARAGRAPH = re.compile(r"\n\s*(?:[*-]|\d+\.) |\n\s*\n")
END = re.compile(r"(?<=[.!?:])[)*\"”]*\s+(?=[\"“(*`\[]*[A-ZΑ-Ωε0-9`])")
LONG = 25


def sentences(text: str) -> list[str]:
    """Those of a page's paragraphs and lists, links by their words."""
    plain = re.sub(r"\]\([^)]*\)", "]", LEFT_OUT.sub("\n\n", COMMENT.sub("", text)))
    parts = [part for paragraph in PARAGRAPH.split(plain) for part in END.split(" ".join(paragraph.split()))]
    return [part for part in parts if len(part.split()) > 1]


def measure(page: Path) -> tuple[int, float, float, str]:
    """Words, mean words of a sentence, the share of long sentences, and the longest one."""
    text = page.read_text("utf-8")
    read = sentences(text) or [""]
    lengths = [len(sentence.split()) for sentence in read]
    long = sum(length > LONG for length in lengths) / len(lengths)
    words = [word for word in COMMENT.sub("", text).split() if re.search(r"\w", word)]
    return len(words), sum(lengths) / len(lengths), long, max(read, key=lambda each: len(each.split()))


def main(names: list[str]) -> int:
    """Print a line for each page, and one for all of them."""
    pages = [Path(name) for name in names] or [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    rows = [(page.name, *measure(page)) for page in pages]
    print(f"{'page':24} {'words':>6} {'mean':>5} {'> 25':>5} longest sentence")
    for name, words, mean, long, longest in sorted(rows, key=lambda row: -row[1]):
        shown = longest if len(longest) <= 60 else f"{longest[:59]}…"
        print(f"{name:24} {words:6} {mean:5.1f} {long:5.0%} {len(longest.split()):3}: {shown}")
    print(f"{len(rows)} pages, {sum(row[1] for row in rows):,} words")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
