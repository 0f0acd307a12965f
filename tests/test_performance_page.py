"""docs/performance.md has all its sections and pictures, and names no machine."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "performance.md").read_text("utf-8")


@pytest.mark.parametrize("section", ["peers", "growth", "costs", "flames"])
def test_a_section_is_filled(section):
    """If this fails: make bench."""
    _, _, rest = PAGE.partition(f"<!-- {section}: made by benchmarks/performance.py -->")
    made, end, _ = rest.partition(f"<!-- end of {section} -->")
    assert end
    assert made.strip().startswith("Measured on ")
    assert "|---|" in made


def test_pictures_are_there_and_show_no_path_of_a_machine():
    """A flame graph has modules and functions; a file's place on the machine that drew it stays there."""
    pictures = re.findall(r"\]\((images/performance-[\w-]+\.svg)\)", PAGE)
    assert len(pictures) == 3
    for name in pictures:
        text = (ROOT / "docs" / name).read_text("utf-8")
        assert "prefers-color-scheme: dark" in text
        assert not re.search(r"\.py\b|site-packages|[\"> ]/\w", text.replace("http://www.w3.org/2000/svg", ""))


def test_peers_are_pinned():
    """What is measured beside us is named by name and version."""
    lists = list((ROOT / "benchmarks" / "peers").glob("*.txt"))
    assert len(lists) == 5
    for path in lists:
        lines = path.read_text("utf-8").split()
        assert lines == sorted(lines, key=str.lower)
        assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
