"""Measured figures on a page: a table by a directive, a single one by a role, both from `results/`.

    ```{result} NAME            the table, how it was measured, and what has changed since;
    :columns: one | another     with names of columns, these alone, in this order;
    a row's name                with names of rows, one a line, these alone
    ```

    {result}`NAME key`          one of its single values

Of a result that is declared and has no figures, both say that it is not measured yet.

`tools/results.py` says what they are. Both are put in place of what stands in the source before it is parsed, so that
readers that are programs get the same.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import results

if TYPE_CHECKING:
    from sphinx.application import Sphinx

FENCE = re.compile(r"^```\{result\} ([\w-]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COLUMNS = ":columns:"
ROLE = re.compile(r"\{result\}`([\w-]+) ([^`]+)`")


def expand(text: str) -> str:
    """Return a page's text with the figures that it includes."""
    text = FENCE.sub(lambda found: _table(found[1], found[2].splitlines()), text)
    return ROLE.sub(lambda found: results.read(found[1]).value(found[2]), text)


def _table(name: str, lines: list[str]) -> str:
    chosen = [head.strip() for line in lines if line.startswith(COLUMNS) for head in line[len(COLUMNS) :].split("|")]
    return results.read(name).table([line for line in lines if not line.startswith(COLUMNS)], chosen)


def included(text: str) -> set[str]:
    """Return the names of the results that a page includes."""
    return {found[1] for pattern in (FENCE, ROLE) for found in pattern.finditer(text)}


def _read(app: Sphinx, page: str, source: list[str]) -> None:
    for name in included(source[0]):
        app.env.note_dependency(str(results.FOLDER / f"{name}.json"))
    source[0] = expand(source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Before a page is parsed."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True}
