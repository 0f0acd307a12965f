import json
from pathlib import Path

from dpi_research.baselines.catalogue import CATALOGUE, facts_csv

ROOT = Path(__file__).parents[4]


def test_the_file_of_facts_is_current():
    """If this fails: python benchmarks/baselines.py --facts docs/baselines.csv."""
    assert (ROOT / "docs" / "baselines.csv").read_text(encoding="utf-8") == facts_csv()


def test_every_mechanism_of_the_catalogue_was_measured():
    """If this fails: make figures NAMES=baselines."""
    rows = json.loads((ROOT / "results" / "baselines.json").read_text(encoding="utf-8"))["rows"]
    assert [row[0] for row in rows] == [f"`{name}`" for name in CATALOGUE]
