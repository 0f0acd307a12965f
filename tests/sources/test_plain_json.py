"""Lines of NDJSON that are cut at their quotes mean what they mean when each is read by itself."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.sources.ndjson import Ndjson, json_object
from dpi.sources.plain_json import Shape, plain_objects

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
    objects = [json_object(_decoded(line)) for line in lines]
    return [row for each in objects if each is not None for row in reader._any([each]).rows()]


def _decoded(line: bytes) -> str:
    try:
        text = line.decode()
    except UnicodeError:
        return ""
    return "" if "\0" in text else text


def together(lines: list[bytes]) -> list[tuple[str | None, ...]]:
    """What is read of all lines in one block."""
    return Ndjson("user", NAMES).parse(b"\n".join([*lines, b""])).rows()


@pytest.mark.parametrize("line", PLAIN)
def test_plain_lines_are_cut(line: bytes) -> None:
    """And give what they give one by one."""
    found = plain_objects(line + b"\n", NAMES)
    assert found.others == b""
    assert [row for frame in found.frames for row in frame.rows()] == one_by_one([line])


@pytest.mark.parametrize("line", ODD)
def test_odd_lines_are_left_to_the_reader_of_every_shape(line: bytes) -> None:
    """Whatever is odd about them."""
    found = plain_objects(line + b"\n", NAMES)
    assert [frame.height for frame in found.frames] in ([], [0])
    assert found.others == line + b"\n"


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


def test_a_shape_has_each_name_once() -> None:
    """A name that comes twice is for the reader that knows which one counts."""
    assert Shape.of('{"a":1,"b":"x"}') == Shape(("{", (":", ","), ":", "}"), {"a": 2, "b": 5})
    assert Shape.of('{"a":"x","a":"y"}') is None
