"""For readers that are programs: `llms.txt`, all pages with their first sentence; `llms-full.txt`, all their text."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def source(path: Path) -> str:
    """The text of a page, without comments that only tests and tools read; of a notebook, its cells."""
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        texts = ("".join(cell["source"]) for cell in cells)
        text = "\n\n".join(
            each if cell["cell_type"] == "markdown" else f"```python\n{each}\n```"
            for cell, each in zip(cells, texts, strict=True)
        )
    return re.sub(r"^<!--.*?-->\n+|<!--.*?-->", "", text, flags=re.DOTALL | re.MULTILINE)


def first_sentence(text: str) -> str:
    """Of the first paragraph below the title."""
    for paragraph in re.split(r"\n\s*\n", text.partition("\n")[2]):
        words = " ".join(paragraph.split())
        if words and words[0] not in "#|`:!*<(":
            plain = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", words)
            return re.split(r"(?<=[.:])\s", plain)[0].rstrip(":")
    return ""


def write(app: Sphinx, error: Exception | None) -> None:
    """Both files beside the pages, in the order of the navigation."""
    if error is not None or app.builder.format != "html":
        return
    order, pending = [], [app.config.root_doc]
    while pending:
        name = pending.pop(0)
        order.append(name)
        pending = [*app.env.toctree_includes.get(name, []), *pending]
    pages = [(name, Path(app.env.doc2path(name))) for name in order if not name.startswith("api/names/")]
    short, full = ["# DPI", "", f"> {app.config.html_context['summary']}", "", "## Pages", ""], []
    for name, path in pages:
        text, title = source(path), app.env.titles[name].astext()
        said = first_sentence(text)
        short.append(f"- [{title}]({name}.html)" + (f": {said}" if said else ""))
        full.append(f"<!-- {name} -->\n{text}")
    folder = Path(app.outdir)
    (folder / "llms.txt").write_text("\n".join(short) + "\n", "utf-8")
    (folder / "llms-full.txt").write_text("\n".join(full), "utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """After pages are written."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True}
