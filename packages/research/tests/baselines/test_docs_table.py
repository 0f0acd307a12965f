from pathlib import Path

from dpi_research.baselines.catalogue import BEGIN, CATALOGUE, END, facts_table, with_table

PAGE = Path(__file__).parents[4] / "docs" / "baselines.md"


def test_the_page_holds_the_current_table():
    """If this fails: python benchmarks/baselines.py --facts --page docs/baselines.md."""
    page = PAGE.read_text(encoding="utf-8")
    assert BEGIN in page
    assert END in page
    assert with_table(page) == page


def test_cells_do_not_break_the_table():
    """Every line of both tables has as many cells as its head."""
    for table in facts_table().split("\n\n"):
        lines = table.splitlines()
        assert len(lines) == 2 + len(CATALOGUE)
        assert {line.replace("\\|", "").count("|") for line in lines} == {lines[0].count("|")}


def test_every_mechanism_of_the_catalogue_was_measured():
    """If this fails: python benchmarks/baselines.py --page docs/baselines.md."""
    page = PAGE.read_text(encoding="utf-8")
    _, _, rest = page.partition("<!-- measured: made by benchmarks/baselines.py -->")
    lines = rest.partition("<!-- end of measured -->")[0].strip().splitlines()
    assert [line.split("`")[1] for line in lines[2:]] == list(CATALOGUE)
