"""CSV and NDJSON: each line by itself, whatever the block that it arrives in."""

from __future__ import annotations

import csv
import json

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpi
from dpi.events.columns import canonical
from dpi.sources.textual import Delimited, Lines, Ndjson, header, readable

BYTES = st.lists(st.sampled_from([b"a", b"\n", b"\r\n", b"\r", b'"', b"\xc3\xa9", b"\xff", b"xxxxx"])).map(b"".join)


def cut(data: bytes, sizes: list[int], longest: int) -> bytes:
    """The lines of data that arrives in blocks of some sizes."""
    lines, result = Lines(longest), b""
    for size in sizes:
        block, data = data[:size], data[size:]
        result += lines.feed(block)
    result += lines.feed(data)
    return result + (lines.feed(b"\n") if lines.rest else b"")


@given(data=BYTES, sizes=st.lists(st.integers(0, 7)), longest=st.integers(1, 8))
def test_lines_do_not_depend_on_the_blocks_in_which_bytes_arrive(data: bytes, sizes: list[int], longest: int) -> None:
    """Whole lines, and which of them are too long, are the same however the bytes are cut."""
    lines = [line.removesuffix(b"\r") for line in data.split(b"\n")[:-1]]
    last = data.split(b"\n")[-1]
    lines += [last.removesuffix(b"\r")] if last else []
    assert cut(data, sizes, longest) == b"".join(line + b"\n" for line in lines if len(line) <= longest)


@given(data=BYTES, sizes=st.lists(st.integers(0, 7)))
def test_consumed_is_where_the_last_whole_line_ends(data: bytes, sizes: list[int]) -> None:
    """A reader that resumes at `consumed` sees every line once, also while a line that is too long is skipped."""
    lines = Lines(longest=3)
    at = 0
    for size in sizes:
        lines.feed(data[at : at + size])
        at += size
        assert lines.consumed == data[:at].rfind(b"\n") + 1


def test_a_long_line_is_not_held_in_memory() -> None:
    """A line without an end costs at most the longest line that is read."""
    lines = Lines(longest=1000)
    for _ in range(100):
        assert lines.feed(b"x" * 1000) == b""
        assert len(lines.rest) <= 1001
    assert lines.feed(b"\nnext\n") == b"next\n"


def test_lines_that_are_not_text_are_dropped_by_themselves() -> None:
    """Invalid UTF-8, half a character and a NUL byte cost their own line only."""
    assert readable(b"a\n\xff\nb\n\xc3\nc\n\0\nd\n") == b"a\nb\nc\nd\n"


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


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=True), st.text(), st.lists(st.integers(), max_size=2)
)

NDJSON_BROKEN = {
    "no JSON": b"eve\n",
    "half an object": b'{"user": "eve"\n',
    "two objects": b'{"user": "eve"}, {"user": "eve"}\n',
    "a list": b'["eve"]\n',
    "a scalar": b'"eve"\n',
    "nothing": b"\n",
    "nested too deeply": b'{"user": ' + b"[" * 100_000 + b"\n",
    "invalid UTF-8": b'{"user": "\xff"}\n',
    "a NUL byte": b'{"user": "e\0"}\n',
    "UTF-16": '{"user": "eve"}'.encode("utf-16") + b"\n",
}


def users(lines: bytes) -> list[object]:
    """The ids of some lines."""
    return Ndjson(["user"]).parse(lines)["user"].to_list()


@pytest.mark.parametrize("line", NDJSON_BROKEN.values(), ids=NDJSON_BROKEN.keys())
def test_a_broken_line_costs_itself_only_ndjson(line: bytes) -> None:
    """Sound lines before and after a broken one are read as if it were not there."""
    assert users(b'{"user": "ada"}\n' + line + b'{"user": "bob"}\n') == ["ada", "bob"]


@given(rows=st.lists(scalars))
def test_each_row_is_read_as_the_kernel_reads_its_object(rows: list[object]) -> None:
    """The id of a row is the canonical text of its JSON scalar, whatever the other rows hold."""
    lines = b"".join(json.dumps({"user": row}).encode() + b"\n" for row in rows)
    expected = [canonical([row, None, "x", 1], "user").cast(pl.String)[0] for row in rows]
    assert users(lines) == expected


def test_a_number_and_its_text_are_one_id() -> None:
    """1, 1.0 and "1" are one text, "1.0" is another until ids are told apart; what is no scalar is missing."""
    lines = rb"""{"user": 1}
{"user": 1.0}
{"user": "1"}
{"user": "1.0"}
{"user": true}
{"user": null}
{"user": {"id": 1}}
{"user": "\u0061\"\n"}
{"user": "\ud800"}
{"user": NaN}
{}
"""
    assert users(lines) == ["1", "1", "1", "1.0", "true", None, None, 'a"\n', None, None, None]


def test_large_numbers_are_no_ids_but_fall_into_bins() -> None:
    """A float too large to be exact could be two ids; as a value it lies in a numeric bin."""
    frame = Ndjson(["user", "value"]).parse(b'{"user": 1e300, "value": 1e300}\n')
    assert frame.rows() == [(None, "1e+300")]
    assert dpi.Bins([0, 10]).encode(frame["value"]).tolist() == [2]


# Lines of NDJSON that are read together mean what they mean when each is read by itself.


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
    reader = Ndjson(NAMES)
    return [row for line in lines for row in reader._read(pl.Series([_decoded(line)])).drop("\0").rows()]


def _decoded(line: bytes) -> str:
    try:
        text = line.decode()
    except UnicodeError:
        return ""
    return "" if "\0" in text else text


def together(lines: list[bytes]) -> list[tuple[str | None, ...]]:
    """What is read of all lines in one block."""
    return Ndjson(NAMES).parse(b"\n".join([*lines, b""])).rows()


@pytest.mark.parametrize("first", [*PLAIN, *ODD])
def test_a_first_line_decides_nothing_about_others(first: bytes) -> None:
    """Every line gives the same rows whatever stands before it in its block."""
    lines = [first, *PLAIN, *ODD, b'{"user":"\xff"}', *PLAIN]
    assert together(lines) == one_by_one(lines)


forms_scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**17), 10**17), st.floats(), st.text(max_size=6),
    st.integers(-(10**6), 10**6).map(lambda n: n / 1000),
    st.sampled_from([[1], {"a": "b"}, "{", "}", ",", ":", '"', "\\"]),
)  # fmt: skip
names = st.sampled_from([*NAMES, "more", "us er", ":", "", "é"])
lines = st.builds(
    lambda row, marks, after: json.dumps(row, separators=marks, ensure_ascii=False).encode(errors="replace") + after,
    st.dictionaries(names, forms_scalars, max_size=4), st.sampled_from([(",", ":"), (", ", ": "), (" ,", " : ")]),
    st.sampled_from([b"", b"", b"", b" ", b"}", b","]),
)  # fmt: skip


@given(st.lists(lines, max_size=8))
def test_blocks_and_lines_agree(block: list[bytes]) -> None:
    """On objects of any fields, and on lines that are nearly objects."""
    block = [part for line in block for part in line.split(b"\n")]
    assert together(block) == one_by_one(block)


@pytest.mark.parametrize("odd", [b'"eve",1', b'"eve",1,"x","y"', b'"eve"', b'"eve,1,x', b'"e"ve,1,x'])
def test_a_line_with_quotes_has_as_many_fields_as_any_other(odd: bytes) -> None:
    """One with too few, too many, or quotes that do not close is dropped by itself, as it would be without quotes."""
    lines = b'ada,1,a\n"bob",2,"b"\n' + odd + b'\n"carl",3,c\ndora,4,d\n'
    frame = Delimited(["user", "at", "value"], ["user", "value"]).parse(lines)
    assert sorted(frame.rows()) == [("ada", "a"), ("bob", "b"), ("carl", "c"), ("dora", "d")]
