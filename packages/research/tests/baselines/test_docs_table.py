from pathlib import Path

from dpi_research.baselines import CATALOGUE, PerBin, PublicFacts, baseline
from dpi_research.baselines.table import BEGIN, END, MECHANISMS, facts_table, with_table

PAGE = Path(__file__).parents[4] / "docs" / "baselines.md"


def test_the_page_holds_the_current_table():
    """If this fails: python -m dpi_research.baselines.table docs/baselines.md."""
    page = PAGE.read_text(encoding="utf-8")
    assert BEGIN in page
    assert END in page
    assert with_table(page) == page


def test_every_mechanism_of_the_catalogue_is_in_the_table():
    """None is offered without its facts."""
    setting = PublicFacts(epsilon=1, bins=2, slots=20)
    for name in CATALOGUE:
        mechanism = baseline(name, setting)
        inner = mechanism.mechanism if isinstance(mechanism, PerBin) else mechanism
        assert type(inner) in MECHANISMS


def test_cells_do_not_break_the_table():
    """Every line of both tables has as many cells as its head."""
    for table in facts_table().split("\n\n"):
        lines = table.splitlines()
        assert len(lines) == 2 + len(MECHANISMS)
        assert {line.replace("\\|", "").count("|") for line in lines} == {lines[0].count("|")}


def test_every_mechanism_of_the_catalogue_was_measured():
    """If this fails: python benchmarks/baselines.py --page docs/baselines.md."""
    page = PAGE.read_text(encoding="utf-8")
    _, _, rest = page.partition("<!-- measured: made by benchmarks/baselines.py -->")
    lines = rest.partition("<!-- end of measured -->")[0].strip().splitlines()
    assert [line.split("`")[1] for line in lines[2:]] == list(CATALOGUE)
