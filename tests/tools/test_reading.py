"""The report on the book counts sentences, and nothing that is no prose."""

import runpy
from pathlib import Path

TOOL = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "reading.py"))

PAGE = """# A heading. It is none

One sentence of [seven words](a/link/with.dots) in it. `Code` begins
another one (e.g. this).

* A point is one. Or two.

  ```
  not. Prose. Here
  ```

| a cell. | Another. |
<!-- a note. And one more. -->
"""


def test_sentences_are_those_of_paragraphs_and_lists():
    """Neither code, tables, headings nor comments; an abbreviation ends none."""
    found = TOOL["sentences"](PAGE)
    assert [len(sentence.split()) for sentence in found] == [7, 6, 4, 2]


def test_a_page_is_measured(tmp_path):
    """Words without bars and comments, the mean, the share of long sentences, the longest."""
    page = tmp_path / "page.md"
    page.write_text(f"Two words.\n\n<!-- not seen -->\n\nIt is {'very ' * 30}long.\n\n| one | two |\n", "utf-8")
    words, mean, long, longest = TOOL["measure"](page)
    assert (words, mean, long, len(longest.split())) == (37, 17.5, 0.5, 33)
