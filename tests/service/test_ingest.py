"""Reading batches: the forms agree, every row is read by itself, and what is no batch is refused by its form."""

import json
import os
import random

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpi
from dpi.errors import SchemaError
from dpi.service import _batch_reader as ingest
from dpi.service._problems import Problem
from dpi.sources.textual import Ndjson
from service.batches import LETTERS, arrow, kept

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**30), 10**30), st.floats(), st.text(max_size=5),
    st.sampled_from(["a", "b", "1", "1.0", "ada", "\ud800", 1, 1.0, 7, 2**53, 1e300, [1], {"x": 1}, {}]),
)  # fmt: skip
rows = st.lists(st.tuples(scalars, scalars, scalars), max_size=8)
lines = st.lists(
    st.one_of(
        st.builds(
            lambda row, more: json.dumps(dict(zip(ingest.NAMES, row, strict=False)) | more).encode(errors="replace"),
            st.lists(scalars, max_size=3),
            st.sampled_from([{}, {"x": [1]}, {"x": "\0"}]),
        ),
        st.sampled_from(
            [b"", b" ", b"[]", b"{", b'{"user":1}{"user":2}', b'{"user":NaN}', b'{"user":1e400}', b'{"user":01}',
             b'{"user":"\xff"}', b'{"x":"\\q","user":1}', b'{"user":1}\r', b'\xef\xbb\xbf{"user":1}', b"\x0b{}",
             b'{"user":1,"user":2,"time":3}', b'{"user":"a\tb"}', b'{"user":' + b"[" * 9999, b'{"user":' + b"9" * 5000
             + b"}", b'{"user": 1 ,"time":5,"value":"a"} ', b'{"user":"\\u0000","time":5,"value":"a"}']
        ),
    ),
    max_size=8,
)  # fmt: skip


@settings(max_examples=2000 if os.environ.get("DPI_SLOW") else 60)
@given(lines)
def test_lines_are_read_as_those_of_files(found):
    """However a line is decoded, it gives what the reader of files makes of it."""
    body = b"\n".join(found)
    mine = ingest.read_batch(body, ingest.LINES, None, LETTERS)
    theirs = Ndjson("user", ingest.NAMES).parse(body.removeprefix(b"\xef\xbb\xbf") + b"\n")
    assert [mine.users.to_list(), mine.times.to_list(), mine.values.to_list()] == [
        theirs[name].to_list() for name in ingest.NAMES
    ]


@settings(max_examples=2000 if os.environ.get("DPI_SLOW") else 40)
@given(rows)
def test_columns_and_lines_agree(table):
    """The same rows in columns and in lines are the same events; an odd one changes no other."""
    good = [("ada", 5, "a"), ("bob", 5, "b"), (1, 5, 1)]
    columns = dict(zip(ingest.NAMES, (list(column) for column in zip(*good, *table, strict=True)), strict=True))
    body = "\n".join(json.dumps(dict(zip(ingest.NAMES, row, strict=True))) for row in [*good, *table]).encode()
    by_column = kept(json.dumps(columns).encode(), ingest.COLUMNS)
    assert by_column == kept(body, ingest.LINES)
    alone = kept(
        "\n".join(json.dumps(dict(zip(ingest.NAMES, row, strict=True))) for row in good).encode(), ingest.LINES
    )
    left = {row[:3]: row[3] for row in by_column}
    assert all(left[row[:3]] >= row[3] for row in alone)


def test_the_three_forms_agree():
    """Texts, integers and times with a type of their own."""
    users, times, values = ["ada", "bob", "ada"], [3600, 7200, 3600], ["a", "b", "a"]
    columns = json.dumps({"user": users, "time": times, "value": values}).encode()
    by_line = "\n".join(
        json.dumps(dict(zip(ingest.NAMES, row, strict=True))) for row in zip(users, times, values, strict=True)
    ).encode()
    found = kept(columns, ingest.COLUMNS)
    assert [row[1:] for row in found] in ([[1, 0, 2], [2, 1, 1]], [(1, 0, 2), (2, 1, 1)], [(2, 1, 1), (1, 0, 2)])
    assert kept(by_line, ingest.LINES) == found
    assert kept(arrow({"user": users, "time": times, "value": values}), ingest.ARROW) == found
    moments = pa.array([t * 10**6 for t in times], pa.timestamp("us", tz="UTC"))
    dictionary = pa.array(values).dictionary_encode()
    typed = arrow({"user": users, "time": moments, "value": dictionary, "more": [[1]] * 3})
    assert kept(typed, ingest.ARROW, unit=None) == found


def test_a_product_has_a_field_for_each_part():
    """In columns, in lines and in Arrow; another shape is refused as a whole."""
    pairs = dpi.Product(land=dpi.Categories(["DE", "FR"]), age=dpi.Bins([18, 65]))
    value = {"land": ["DE", "FR", "XX"], "age": [20, 70, None]}
    columns = json.dumps({"user": [1, 2, 3], "time": [0, 0, 0], "value": value}).encode()
    found = kept(columns, ingest.COLUMNS, pairs)
    assert len(found) == 2
    each = [{"user": n + 1, "time": 0, "value": {k: v[n] for k, v in value.items()}} for n in range(3)]
    odd = [{"user": 4, "time": 0, "value": "DE"}, {"user": 5, "time": 0, "value": {"land": "DE"}}]
    assert kept("\n".join(map(json.dumps, each + odd)).encode(), ingest.LINES, pairs) == found
    structs = pa.StructArray.from_arrays([pa.array(value["land"]), pa.array(value["age"])], ["land", "age"])
    assert kept(arrow({"user": [1, 2, 3], "time": [0, 0, 0], "value": structs}), ingest.ARROW, pairs) == found
    for body, kind in (
        (json.dumps({"user": [1], "time": [0], "value": ["DE"]}).encode(), ingest.COLUMNS),
        (json.dumps({"user": [1], "time": [0], "value": {"land": ["DE"]}}).encode(), ingest.COLUMNS),
        (arrow({"user": [1], "time": [0], "value": ["DE"]}), ingest.ARROW),
        (arrow({"user": [1], "time": [0], "value": [{"land": "DE"}]}), ingest.ARROW),
    ):
        with pytest.raises(Problem, match="`value` must have a field for each part"):
            kept(body, kind, pairs)
    with pytest.raises(Problem, match="one plain value"):
        kept(columns, ingest.COLUMNS)
    with pytest.raises(Problem, match="one plain value"):
        kept(arrow({"user": [1], "time": [0], "value": [{"land": "DE"}]}), ingest.ARROW)


def test_a_text_that_is_not_unicode_is_missing_by_itself():
    """In Arrow, where polars would refuse the whole batch for one row."""
    texts = pa.array([b"ada", b"\xff\xfe", b"bob"], pa.binary()).view(pa.string())
    body = arrow({"user": texts, "time": [0, 0, 0], "value": ["a", "a", "b"]})
    alone = arrow({"user": ["ada", "bob"], "time": [0, 0], "value": ["a", "b"]})
    assert kept(body, ingest.ARROW) == kept(alone, ingest.ARROW)


@pytest.mark.parametrize("user", [["ada", "bob"], [b"\xff", "bob"], ["ada", b"\xff"]], ids=["good", "first", "last"])
@pytest.mark.parametrize("encoded", [False, True], ids=["plain", "dictionary"])
def test_no_row_decides_how_the_parts_of_others_are_read(user, encoded):
    """Texts inside of a structure, with a dictionary or without, whether or not a row is odd."""
    pairs = dpi.Product(land=dpi.Categories(["DE", "FR"]), age=dpi.Categories(["30", "60"]))
    parts = [pa.array(["FR", "FR"]), pa.array(["60", "60"])]
    value = pa.StructArray.from_arrays([p.dictionary_encode() if encoded else p for p in parts], ["land", "age"])
    texts = pa.array([u.encode() if isinstance(u, str) else u for u in user], pa.binary()).view(pa.string())
    body = arrow({"user": texts, "time": [0, 0], "value": value})
    good = [name for name in user if isinstance(name, str)]
    rows = [{"user": name, "time": 0, "value": {"land": "FR", "age": "60"}} for name in good]
    assert kept(body, ingest.ARROW, pairs) == kept("\n".join(map(json.dumps, rows)).encode(), ingest.LINES, pairs)


ODD_CELLS = [
    b'"\\ud800"', b"1e400", b"-1e400", b"NaN", b'"\xff"', b"9" * 5000, b"[" * 5000 + b"]" * 5000,
    b'{"a":' * 3000 + b"1" + b"}" * 3000, b'"[[[[[[["',
]  # fmt: skip


@pytest.mark.parametrize("cell", ODD_CELLS, ids=lambda cell: repr(cell[:12]))
@pytest.mark.parametrize("column", [0, 1, 2], ids=ingest.NAMES)
def test_no_cell_of_columns_refuses_the_rows_of_others(cell, column):
    """Whatever JSON can write: its row counts or not, by itself."""
    odd = [b'"eve"', b"5", b'"a"']
    odd[column] = cell
    cells = zip([b'"ada"', b"5", b'"a"'], odd, [b'"bob"', b"5", b'"b"'], strict=True)
    lists = [b'"%s": [%s]' % (name.encode(), b",".join(three)) for name, three in zip(ingest.NAMES, cells, strict=True)]
    found = kept(b" {" + b", ".join(lists) + b"}\n", ingest.COLUMNS)
    others = json.dumps({"user": ["ada", "bob"], "time": [5, 5], "value": ["a", "b"]}).encode()
    assert set(kept(others, ingest.COLUMNS)) <= set(found)


def test_columns_that_never_end_are_refused_at_once():
    """A text that is not closed is looked through once, however many quotes are in it."""
    for body in (b'{"user": ["' + b'\\"' * 1_000_000, b'{"user": ["' + b'\\"' * 1_000_000 + b"\\"):
        with pytest.raises(Problem, match="columns in JSON are an object"):
            kept(body, ingest.COLUMNS)


BAD_COLUMNS = [
    b"", b"{", b"[]", b"null", b"{}", b'{"user":[1],"time":[1]}', b'{"user":[1],"time":[1],"value":"a"}',
    b'{"user":[1],"time":[1],"value":[]}', b'{"user":[1],"time":[1],"value":["a"],"more":[]}', b"\xff", b"[" * 100_000,
    b'{"user":' + b"[" * 100_000, b'{"user":[1],"time":[1],"value":["a"]} x',
]  # fmt: skip


@pytest.mark.parametrize("body", BAD_COLUMNS, ids=lambda body: repr(body[:24]))
def test_what_is_no_table_of_columns_is_refused(body):
    """As a whole, with a sentence that shows nothing of it."""
    with pytest.raises(Problem, match="columns in JSON are an object") as refused:
        kept(body, ingest.COLUMNS)
    assert refused.value.status == 422


def test_what_is_no_arrow_stream_is_refused():
    """Damage, other columns, and buffers that are packed by themselves."""
    good = arrow({"user": ["ada"] * 9, "time": [0] * 9, "value": ["a"] * 9})
    for body in (b"", b"x" * 100, good[:50], good[: len(good) // 2], arrow({"user": [1], "time": [1]})):
        with pytest.raises(Problem, match="not an Arrow IPC stream"):
            kept(body, ingest.ARROW)
    for packing in ("zstd", "lz4"):
        with pytest.raises(Problem, match="must not be packed by themselves"):
            kept(
                arrow({"user": ["ada"] * 99, "time": [0] * 99, "value": ["a"] * 99}, compression=packing), ingest.ARROW
            )
    with pytest.raises(SchemaError, match="plain values"):
        kept(arrow({"user": [[1]], "time": [0], "value": ["a"]}), ingest.ARROW)


def test_damaged_arrow_never_ends_the_process(capfd):
    """Bytes that are changed at random are read or refused."""
    good, drawn, found = (
        arrow({"user": ["ada", "bob"] * 9, "time": [0] * 18, "value": ["a", "b"] * 9}),
        random.Random(5),
        set(),
    )
    for _ in range(300):
        body = bytearray(good)
        for _ in range(drawn.choice([1, 2, 5])):
            body[drawn.randrange(len(body))] = drawn.choice([0, 127, 128, 255, drawn.randrange(256)])
        try:
            kept(bytes(body), ingest.ARROW)
            found.add("read")
        except (Problem, SchemaError) as error:
            found.add(type(error).__name__)
    assert found >= {"read", "Problem"}
    capfd.readouterr()  # what polars says of its panics


def test_times_that_are_numbers_need_their_unit():
    """A column of numbers is refused as a whole by its type; texts of numbers are unreadable rows, each by itself."""
    with pytest.raises(SchemaError, match="name their unit"):
        kept(arrow({"user": ["ada"], "time": [0], "value": ["a"]}), ingest.ARROW, unit=None)
    assert kept(b'{"user":"ada","time":0,"value":"a"}', ingest.LINES, unit=None) == []
    assert isinstance(ingest.read_batch(b"", ingest.LINES, None, LETTERS).users, pl.Series)
