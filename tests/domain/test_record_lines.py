import pytest

from dpi.domain.file import is_record


@pytest.mark.parametrize(
    "line",
    [
        "ada,2026-01-01T00:10:00,DE",
        '"ada","2026-01-01T00:10:00","DE"',
        "DE;ada;2026-01-01",
        "ada\t1767225600\tDE",
        "ada|DE|01.02.2026 10:15",
        "4711000123,DE,mobile",
        "DE,mobile,ada@example.org",
        "3f2504e0-4f89-11d3-9a0c-0305e82c3301,DE,7",
        "9f86d081884c7d65,DE,7",
        "ada,2026-01-01 00:10",
        "ada 2026-01-01T00:10:00Z DE",
        '{"user": "ada", "at": "2026-01-01", "country": "DE"}',
        '  {"a": 1}  ',
        "[1, 2, 3]",
    ],
)
def test_lines_of_records_are_told(line):
    """An event in any of the formats that are read, with its time or a long id, is a record."""
    assert is_record(line)


@pytest.mark.parametrize(
    "line",
    [
        "DE",
        "Korea, Republic of",
        "Bolivia, Plurinational State of, the",
        "Washington, DC, USA",
        "/shop/2026/01/01/offer",
        "2026-01-01",
        "2026-01-01T00:10:00",
        "2026-01-01 00:10:00",
        "4711000123",
        "ada@example.org",
        "[18, 30)",
        "{}x",
        "red; green; blue; 12",
        "Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0",
        "12,5",
        "user,at,country",
    ],
)
def test_lines_of_values_are_not(line):
    """Names with commas, paths, times and numbers by themselves are values."""
    assert not is_record(line)
