"""How the site is built: `make docs` (Sphinx, strictly: a warning is an error).

Pages are Markdown (MyST), so that they read as well where the repository is looked at; the reference of the library is
made from docstrings, a page for each exported name. The search needs no server, and neither does the archive.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "src")]

import dpi  # noqa: E402 - from the checkout that this page stands in

project = "DPI"
version = release = dpi.__version__
html_title = f"DPI {release}"  # at the head of every page
html_context = {
    "summary": "DPI publishes what share of your users did what, every hour or day, with differential privacy. "
    "Each user has one budget ε."
}
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_design",
    "exported_names",
    "llms",
]

# Pages
exclude_patterns = ["_ext"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # what they show is stored; tests run them
suppress_warnings = ["misc.highlighting_failure"]  # sessions of a terminal are not all of one language
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# The reference: docstrings say `x` for code, and everything else as Markdown and reStructuredText have it in common.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True

# Looks
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["dpi.css"]
html_show_sourcelink = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"


def setup(app: Sphinx) -> None:
    """Pages read well anywhere; the site's menu, and anchors of the evaluation's page, are made here."""
    app.connect("source-read", _targets)
    app.connect("source-read", _menu)


def _targets(app: Sphinx, page: str, source: list[str]) -> None:
    source[0] = re.sub(r'^(#+ .*) <a id="([\w-]+)"></a>$', r"(\2)=\n\1", source[0], flags=re.MULTILINE)


def _menu(app: Sphinx, page: str, source: list[str]) -> None:
    """Name all pages on the first one, where a reader of the repository does not see it."""
    if page == "index":
        source[0] += "\n" + (HERE / "_ext" / "menu.md").read_text("utf-8")
