from __future__ import annotations

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.sources.delimited import Delimited, header

COLUMNS = ["user", "time", "value"]
SOUND = b"ada,1,x\n"

BROKEN = {
    "too few fields": b"eve,1\n",
    "too many fields": b"eve,1,x,y\n",
    "a quote that is never closed": b'eve,1,"x\n',
    "a quote that is never closed, among closed ones": b'e"v"e,"1","x\n',
    "text after a closed quote": b'"eve"s,1,x\n',
    "invalid UTF-8": b"eve\xff,1,x\n",
    "half a character": b"eve,1,\xe2\x82\n",
    "a NUL byte": b"eve\0,1,x\n",
    "an empty line": b"\n",
    "only separators, too many": b",,,\n",
}

fields = st.text(alphabet='ab ,"\r\t\ufeffé0\u2028', max_size=4)


def parse(lines: bytes) -> list[tuple[object, ...]]:
    """All rows of some lines, in an order of their own."""
    return sorted(Delimited(COLUMNS, COLUMNS).parse(lines).rows(), key=repr)


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_line_costs_itself_only(line: bytes) -> None:
    """Sound lines before and after a broken one are read as if it were not there."""
    expected = [("ada", "1", "x"), ("bob", "2", "y,z")]
    assert parse(SOUND + line + b'bob,2,"y,z"\n') == expected
    assert parse(line) == []


@pytest.mark.parametrize("short", [b"eve,1\n", b"\n", b"eve\n"])
def test_a_short_line_is_not_made_up_for_by_a_long_one(short: bytes) -> None:
    """Though there are as many separators as in sound lines, and what one has too many of is empty."""
    long = b"bob,2,y" + b"," * (2 - short.count(b",")) + b"\n"
    for lines in (short + long, long + short, SOUND + long + SOUND + short):
        assert parse(lines) == [("ada", "1", "x")] * lines.count(SOUND)
    assert parse(b"ada,1,\n" + short + long) == [("ada", "1", None)]


@given(
    lines=st.lists(st.lists(fields, min_size=2, max_size=4).map(",".join).map(lambda line: line.encode() + b"\n")),
    cut=st.integers(0, 10),
)
def test_each_line_is_read_as_if_it_were_alone(lines: list[bytes], cut: int) -> None:
    """What a line holds does not depend on which lines it is read with."""
    alone = [row for line in lines for row in parse(line)]
    assert parse(b"".join(lines)) == sorted(alone, key=repr)
    assert sorted(parse(b"".join(lines[:cut])) + parse(b"".join(lines[cut:])), key=repr) == sorted(alone, key=repr)


@given(row=st.lists(st.text(alphabet='ab ,"é007', min_size=1), min_size=3, max_size=3))
def test_what_a_csv_writer_writes_is_read_back(row: list[str]) -> None:
    """Separators, quotes and leading zeros survive."""

    class Out:
        text = ""

        def write(self, text: str) -> None:
            self.text += text

    out = Out()
    csv.writer(out, lineterminator="\n").writerow(row)
    assert parse(out.text.encode()) == [tuple(row)]


def test_an_empty_field_is_missing_with_and_without_quotes() -> None:
    """`,,` and `,"",` are the same row."""
    assert parse(b'a,,x\nb,"",y\n') == [("a", None, "x"), ("b", None, "y")]


def test_no_row_changes_how_another_is_read() -> None:
    """Ids stay text: 007 is not 7, whatever the other rows look like."""
    assert parse(b"007,1,x\n")[0] in parse(b"007,1,x\n8,2,y\nname,2,y\n")


def test_a_header_may_be_quoted_and_marked() -> None:
    """A byte order mark and quotes do not belong to a column's name; a broken header is none."""
    assert header(b'\xef\xbb\xbf"user";at;"a;b"\r\n', ";") == ["user", "at", "a;b"]
    assert header(b'"user\n', ",") is None
    assert header(b"\xff,a\n", ",") is None
