"""Lines of NDJSON that are read together mean what they mean when each is read by itself."""

from __future__ import annotations

import json

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.sources.ndjson import Ndjson

NAMES = ["user", "at", "value"]
PLAIN = [
    b'{"user":"ada","at":12,"value":"x"}', b'{"user": "ada", "at": "2026-01-01T00:00:00Z", "value": 1.25}',
    b'{"value":7,"user":"\xc3\xa9","at":-3}', b'{"user":"","at":0,"more":"x","value":""}',
    b'{"at":0.0001,"user":"1.0"}', b'{"user":"a","value":999999999999999,"at":"5"} ', b'{"user":1}',
]  # fmt: skip
ODD = [
    b"", b"{}", b"[]", b'{"user":"a\\"","at":1}', b'{"user":"a","user":"b"}', b'{"user":"a\tb"}',
    b'{"user":"a","at":-0}', b'{"user":"a","at":1e3}', b'{"user":"a","at":1.50}', b'{"user":"a","at":01}',
    b'{"user":"a","at":true}', b'{"user":"a","at":null}', b'{"user":"a","at":{"b":"c"}}', b'{"user":"a","at":["b"]}',
    b'{"user":"a"}}', b'{"user":"a"', b'{"user":"a",}', b'{"user" "a"}', b'{"user":"a" "at":"b"}', b'{"user":"a"},',
    b'\xef\xbb\xbf{"user":"a"}', b' {"user":"a"}', b'{"user":12 3,"at":"b"}', b'{"user":9999999999999999,"at":"b"}',
    b'{,"user":"a"}', b'{"user"::"a"}', b'x{"user":"a"}', b'{"user":"a"}{"user":"b"}', b'{"user":"a"}\x0b',
    b'{"user":0.00001,"at":"b"}', b'{"user":"\0"}', b'{"user":"a"}\r',
]  # fmt: skip


def one_by_one(lines: list[bytes]) -> list[tuple[str | None, ...]]:
    """What the reader of every shape makes of each line."""
    reader = Ndjson("user", NAMES)
    return [row for line in lines for row in reader._read(pl.Series([_decoded(line)])).rows()]


def _decoded(line: bytes) -> str:
    try:
        text = line.decode()
    except UnicodeError:
        return ""
    return "" if "\0" in text else text


def together(lines: list[bytes]) -> list[tuple[str | None, ...]]:
    """What is read of all lines in one block."""
    return Ndjson("user", NAMES).parse(b"\n".join([*lines, b""])).rows()


@pytest.mark.parametrize("first", [*PLAIN, *ODD])
def test_a_first_line_decides_nothing_about_others(first: bytes) -> None:
    """Every line gives the same rows whatever stands before it in its block."""
    lines = [first, *PLAIN, *ODD, b'{"user":"\xff"}', *PLAIN]
    assert together(lines) == one_by_one(lines)


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**17), 10**17), st.floats(), st.text(max_size=6),
    st.integers(-(10**6), 10**6).map(lambda n: n / 1000),
    st.sampled_from([[1], {"a": "b"}, "{", "}", ",", ":", '"', "\\"]),
)  # fmt: skip
names = st.sampled_from([*NAMES, "more", "us er", ":", "", "é"])
lines = st.builds(
    lambda row, marks, after: json.dumps(row, separators=marks, ensure_ascii=False).encode(errors="replace") + after,
    st.dictionaries(names, scalars, max_size=4), st.sampled_from([(",", ":"), (", ", ": "), (" ,", " : ")]),
    st.sampled_from([b"", b"", b"", b" ", b"}", b","]),
)  # fmt: skip


@given(st.lists(lines, max_size=8))
def test_blocks_and_lines_agree(block: list[bytes]) -> None:
    """On objects of any fields, and on lines that are nearly objects."""
    block = [part for line in block for part in line.split(b"\n")]
    assert together(block) == one_by_one(block)
