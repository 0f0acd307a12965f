"""Run the notebooks of docs/ and keep what they show: `python tools/run_notebooks.py` (the extra `docs`)."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"


def main() -> None:
    """Each from top to bottom, in a kernel of its own."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(FOLDER)}}).execute()
        for cell in notebook.cells:
            cell.metadata.pop("execution", None)  # moments of this run
        nbformat.write(notebook, path)
        print(path.name)


if __name__ == "__main__":
    main()
