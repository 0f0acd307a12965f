"""`dpi registry`: an entry or a review, from a store, printed or in a new file."""

import json
from pathlib import Path

import pytest

from cli_files import PERIOD

ABOUT = """
data_curators = ["Example Ltd"]
intended_use = "Shows."
data_product_region = "EU"
registry_authors = ["Ada"]
name = "Visits by country"
"""


@pytest.fixture
def store(cli, visits):
    """A store of six hours, and what is said of it."""
    cli("run", *visits, *PERIOD, "--store", "visits.db")
    Path("about.toml").write_text(ABOUT)
    return "visits.db"


def test_an_entry(cli, store):
    """As YAML that names its schema, as JSON, and in a file that is not replaced; the store's key is not needed."""
    Path("visits.db.key").unlink()
    cli("report", "--as", "registry", store, "--about", "about.toml")
    assert cli.stdout.startswith("# opendp/deployments-registry-data, schema of commit 3e9c812\nurl_slug: ")
    made = cli.json("report", "--as", "registry", store, "--about", "about.toml")
    assert (made["tier"], made["url_slug"]) == (3, "visits-by-country")
    cli("report", "--as", "registry", store, "--about", "about.toml", "-o", "entry.yaml")
    assert Path("entry.yaml").read_text().endswith('registry_authors:\n      - "Ada"\n')
    cli("report", "--as", "registry", store, "--about", "about.toml", "-o", "entry.yaml", code=2)
    assert "exists already; it is not replaced" in cli.stderr


def test_a_review(cli, store):
    """Markdown, and no word of the organisation is needed."""
    cli("report", store, "--as", "review", "--out", "review.md")
    assert Path("review.md").read_text().startswith("# Review of a stream without a name\n")


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["report", "--as", "registry", "none.db"], 3, "there is no store at none.db"),
        (
            ["report", "--as", "registry", "visits.db"],
            2,
            "an entry needs `data_curators`, `intended_use`, `data_product_region`, `registry_authors`, `name`, which",
        ),
        (["report", "--as", "registry", "visits.db", "--about", "none.toml"], 2, "cannot be read: No such file"),
        (["report", "--as", "registry", "visits.db", "--about", "visits.csv"], 2, "is not TOML"),
        (["report", "--as", "registry", "visits.db", "--stream", "x"], 2, "must be one of"),
        (["report", "visits.db", "--as", "review", "--json"], 2, "is Markdown"),
        (["report", "visits.db", "--as", "review", "--about", "about.toml"], 2, "is Markdown"),
        (["report", "visits.db", "--as", "review", "-o", "no/where.md"], 3, "cannot be written"),
    ],
)
def test_what_is_wrong(cli, store, words, code, sentence):
    """One sentence, and nothing is written."""
    cli(*words, code=code)
    assert sentence in cli.stderr
    document = json.dumps({"error": cli.stderr.removeprefix("dpi: error: ").rstrip()}, ensure_ascii=False)
    assert cli.stdout == (f"{document}\n" if "--json" in words else "")
