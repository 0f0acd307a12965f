"""Reading batches: forms agree, each row is read by itself, no batch is refused but by its form, and limits hold.

A batch has a bounded number of rows, and takes a bounded time, whatever is in it; packed bodies are unpacked up to a
limit, in bounded time and memory.
"""

import gzip
import io
import json
import os
import random
import resource
import time
import tracemalloc
from functools import partial

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import dpi
from dpi.errors import SchemaError
from dpi.service import _batch_reader as ingest
from dpi.service._batch_reader import MOST_PARTS, unpack
from dpi.service._problems import Problem
from dpi.sources import columnar
from dpi.sources.textual import Ndjson
from service.batches import arrow, kept

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
    """However a line is decoded, it gives what the reader of files makes of it; one without an object is empty."""
    body = b"\n".join(found)
    mine = ingest.read_batch(body, ingest.LINES, None, None)
    theirs = Ndjson(ingest.NAMES).parse(body.removeprefix(b"\xef\xbb\xbf") + b"\n")
    written = sum(bool(line.strip()) for line in body.removeprefix(b"\xef\xbb\xbf").split(b"\n"))
    assert [mine.users.to_list(), mine.times.to_list(), mine.values.to_list()] == [
        theirs[name].to_list() + [None] * (written - theirs.height) for name in ingest.NAMES
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


@pytest.mark.parametrize("kind", ["plain", "dictionary", "views"])
def test_damaged_arrow_never_ends_the_process(kind, capfd):
    """Bytes that are changed at random are read or refused."""
    users = pa.array(["ada", "bob"] * 9, pa.string_view() if kind == "views" else pa.string())
    users = users.dictionary_encode() if kind == "dictionary" else users
    good, drawn, found = arrow({"user": users, "time": [0] * 18, "value": ["a", "b"] * 9}), random.Random(5), set()
    for _ in range(200):
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
    assert isinstance(ingest.read_batch(b"", ingest.LINES, None, None).users, pl.Series)


# Limits.

TOO_MANY = ingest.MOST_ROWS + 2


def batches(columns, times):
    """An Arrow IPC stream of the same record batch, many times."""
    sink, batch = io.BytesIO(), pa.record_batch(columns)
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        for _ in range(times):
            writer.write_batch(batch)
    return sink.getvalue()


def of_nothing(rows):
    """Columns that take no byte for a row, each with so many rows, or so many inside of its rows."""
    return {
        "nothing": pa.nulls(rows),
        "no bytes": pa.FixedSizeBinaryArray.from_buffers(pa.binary(0), rows, [None, pa.py_buffer(b"")]),
        "structures of no fields": pa.StructArray.from_buffers(pa.struct([]), rows, [None]),
        "structures of nothing": pa.StructArray.from_arrays([pa.nulls(rows)], ["x"]),
        "lists of no size": pa.FixedSizeListArray.from_buffers(
            pa.list_(pa.int64(), 0), rows, [None], children=[pa.array([], pa.int64())]
        ),
        "a dictionary of nothing": pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.nulls(rows)),
        "one run": pa.RunEndEncodedArray.from_arrays(pa.array([rows], pa.int32()), pa.array(["a"])),
    }


LISTS_OF_NOTHING = (
    pa.array([["x"] * TOO_MANY]),
    pa.ListArray.from_arrays(pa.array([0, TOO_MANY], pa.int32()), pa.nulls(TOO_MANY)),
    pa.FixedSizeListArray.from_arrays(pa.nulls(TOO_MANY), TOO_MANY),
)


@pytest.mark.parametrize("column", LISTS_OF_NOTHING, ids=["texts", "nothing", "one size"])
def test_lists_are_refused_by_their_type(column):
    """However much a row of them holds: they are not opened."""
    for name in ingest.NAMES:
        with pytest.raises(SchemaError, match="plain values"):
            kept(arrow({key: ["a"] for key in ingest.NAMES} | {name: column}), ingest.ARROW)


@pytest.mark.parametrize("kind", of_nothing(2))
def test_rows_that_take_no_bytes_are_counted(kind):
    """A few rows more than may be are refused, whichever column holds them and however many batches have them."""
    column = of_nothing(TOO_MANY)[kind]
    with pytest.raises(Problem, match="at most 131072 rows") as refused:
        kept(arrow(dict.fromkeys(ingest.NAMES, column)), ingest.ARROW)
    assert refused.value.status == 413
    for name in ingest.NAMES:
        columns = dict.fromkeys(ingest.NAMES, pa.nulls(len(column))) | {name: column}
        with pytest.raises(Problem, match="at most 131072 rows"):
            kept(arrow(columns), ingest.ARROW)
    part = of_nothing(ingest.MOST_ROWS // 128 + 2)[kind]
    if kind != "a dictionary of nothing":  # which is said once
        with pytest.raises(Problem, match="at most 131072 rows"):
            kept(batches(dict.fromkeys(ingest.NAMES, part), 128), ingest.ARROW)


def test_many_small_batches_have_no_more_rows_than_one():
    """102 KB of Null columns had 80 million rows, since each batch has fewer than the body has bytes."""
    body = batches(dict.fromkeys(ingest.NAMES, pa.nulls(100_000)), 800)
    assert 100_000 < len(body) < 120_000
    with pytest.raises(Problem) as refused:
        kept(body, ingest.ARROW)
    assert refused.value.status == 413
    assert kept(batches(dict.fromkeys(ingest.NAMES, pa.nulls(1 << 10)), 128), ingest.ARROW) == []


def test_an_odd_value_of_a_plain_column_refuses_nobody():
    """A date of milliseconds inside of a day, a decimal of more digits than its type has: both are one row's matter."""
    dates = pa.Array.from_buffers(pa.date64(), 2, [None, pa.py_buffer(np.array([0, 1], "<i8"))])
    wide = pa.Array.from_buffers(pa.decimal128(3, 0), 2, [None, pa.py_buffer(np.array([1, 0, 10**6, 0], "<i8"))])
    for column in (dates, wide):
        table = pa.table({"user": ["ada", "bob"], "time": ["2026-01-01", "2026-01-02"], "value": column})
        assert len(ingest.read_batch(streamed(table), ingest.ARROW, None, None).users) == 2


def streamed(*tables):
    """Tables as one Arrow stream, a batch for each."""
    file = io.BytesIO()
    with pa.ipc.new_stream(file, tables[0].schema) as writer:
        for table in tables:
            writer.write_table(table)
    return file.getvalue()


def test_a_dictionary_that_batches_share_is_read_once(monkeypatch):
    """A body of few bytes with many batches takes no more time for each of them; inner ones are counted as rows."""
    texts, columns = pa.array([f"user {number}" for number in range(1000)]), {"time": ["2026-01-01"], "value": ["a"]}
    users = [pa.DictionaryArray.from_arrays(pa.array([number]), texts) for number in range(50)]
    one = [pa.table({"user": user, **columns}) for user in users]
    read, calls = columnar._series, []
    monkeypatch.setattr(columnar, "_series", lambda *given: calls.append(given[2]) or read(*given))
    found = ingest.read_batch(streamed(*one), ingest.ARROW, None, None)
    assert list(found.users) == [f"user {number}" for number in range(50)]
    assert sum(len(array) == 1000 for array in calls) == 1
    many = pa.array([str(number) for number in range(ingest.MOST_ROWS + 1)])
    inner = pa.StructArray.from_arrays([pa.DictionaryArray.from_arrays(pa.array([0]), many)], names=["p"])
    table = pa.table({"user": ["ada"], "time": ["2026-01-01"], "value": inner})
    with pytest.raises(Problem, match="split it"):
        ingest.read_batch(streamed(table), ingest.ARROW, None, ["p"])


def test_a_column_that_nobody_reads_refuses_nothing():
    """However long its lists are: what is in a row decides about no other row."""
    columns = {"user": ["ada"], "time": [3600], "value": ["a"]}
    for long in LISTS_OF_NOTHING:
        assert kept(arrow({**columns, "more": long}), ingest.ARROW) == kept(arrow(columns), ingest.ARROW)


def test_a_negative_number_of_rows_makes_up_for_no_others():
    """A batch that says it has less than none is damage, and not subtracted."""
    body = bytearray(batches(dict.fromkeys(ingest.NAMES, pa.nulls(77_777)), 4))
    at = body.find((77_777).to_bytes(8, "little"))
    while at >= 0:
        body[at : at + 8] = (-77_777).to_bytes(8, "little", signed=True)
        with pytest.raises(Problem, match=r"not an Arrow IPC stream|rows"):
            kept(bytes(body), ingest.ARROW)
        at = body.find((77_777).to_bytes(8, "little"), at + 8)


PART = 1 if os.environ.get("DPI_SLOW") else 4
"""Of as many rows and bytes as may be, so few are read here: time grows as they do."""
MOST_BYTES, ROWS = (16 << 20) // PART, ingest.MOST_ROWS // PART
LONGEST = 30.0 / PART
"""Seconds of computing that a batch may take: 3.6 at most on a machine of 2026, where 16 MiB of `{}` once took 102."""


def many_lines(line, rows=ROWS):
    """As many lines as may be, or as fit into a body."""
    return line * min(rows, MOST_BYTES // len(line))


def many_columns(cell, user=b""):
    """Columns in JSON with as many cells as may be, of which the first user is `user`."""
    each = b",".join([cell] * ROWS)
    return (
        b'{"user":['
        + (user + each[each.find(b",") :] if user else each)
        + b'],"time":[%b],"value":[%b]}' % (each, each)
    )


def shared(column, letter, rows=ROWS, *, views=False):
    """Rows that share one text of megabytes in a column, by a dictionary or by themselves."""
    text, plain = pa.array([letter * (4 << 20)]), {"user": "ada", "time": "1970-01-01", "value": "a"}
    columns = {name: pa.array([cell] * rows) for name, cell in plain.items()}
    if views:
        texts = pl.Series(text).gather([0] * rows).to_arrow(compat_level=pl.CompatLevel.newest())
    else:
        texts = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), text)
    return arrow(columns | {column: texts})


def peak_memory():
    """Bytes that this process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


COSTLY = {
    "lines of nothing": (ingest.LINES, many_lines(b"{}\n")),
    "empty lines": (ingest.LINES, many_lines(b"\n")),
    "lines that end too soon": (ingest.LINES, many_lines(b"{\n")),
    "half a pair of surrogates": (ingest.LINES, many_lines(b'{"user":"\\ud800"}\n')),
    "objects in lines": (ingest.LINES, many_lines(b'{"user":{},"time":[],"value":{}}\n')),
    "a number and a text, in turn": (
        ingest.LINES,
        many_lines(b'{"user":1}\n{"user":"a","time":1.5}\n', ROWS // 2),
    ),
    "lists in long lines": (ingest.LINES, many_lines(b'{"x":[' + b"[]," * 5_450 + b'1],"user":1}\n')),
    "a line that is too long": (ingest.LINES, b'{"x":[' + b"[]," * (5_000_000 // PART) + b'1],"user":1}\n'),
    "lists": (ingest.COLUMNS, many_columns(b"[]")),
    "objects, and half a pair": (ingest.COLUMNS, many_columns(b"{}", b'"\\ud800"')),
    "numbers and a text": (ingest.COLUMNS, many_columns(b"1.5", b'"a"')),
    "lists in one cell": (
        ingest.COLUMNS,
        b'{"user":[[' + b"[]," * (5_000_000 // PART) + b'1]],"time":[1],"value":[1]}',
    ),
    "one deep cell": (
        ingest.COLUMNS,
        b'{"user":[' + b"[" * (MOST_BYTES // 2) + b"]" * (MOST_BYTES // 2) + b'],"time":[1],"value":[1]}',
    ),
    "a long text that all rows share, in ids": (ingest.ARROW, shared("user", "x")),
    "a long text that all rows share, in times": (ingest.ARROW, shared("time", " ")),
    "a long text that all rows share, in values": (ingest.ARROW, shared("value", "é")),
    "truth in Arrow": (ingest.ARROW, arrow(dict.fromkeys(ingest.NAMES, pa.array([True] * ROWS)))),
}


@pytest.mark.parametrize("views", [False, True])
@pytest.mark.parametrize("column", ingest.NAMES)
def test_a_text_that_rows_share_is_not_copied_for_each(column, views):
    """A few hundred rows of one text of megabytes take no more than the body; each row's text is missing."""
    body = shared(column, "x", rows=500, views=views)
    assert len(body) < 5 << 20
    before = peak_memory()
    assert [row[2] for row in kept(body, ingest.ARROW, unit=None)] == ([3] if column == "value" else [])
    assert peak_memory() - before < 64 << 20


@pytest.mark.parametrize("kind", COSTLY)
def test_the_costliest_batches_take_a_bounded_time(kind):
    """Many rows and bytes of what is slow to read; with DPI_SLOW as many as may be."""
    form, body = COSTLY[kind]
    began = time.process_time()
    kept(body, form)
    assert time.process_time() - began < LONGEST


@pytest.mark.parametrize(
    ("form", "body"),
    [
        (ingest.LINES, b"{}\n" * (5 << 20)),
        (ingest.LINES, b"\n" * TOO_MANY),
        (ingest.COLUMNS, b'{"user":[' + b"[]," * 5_000_000 + b'1],"time":[1],"value":[1]}'),
        (ingest.COLUMNS, b'{"user":["\\ud800",' + b"1," * 8_000_000 + b'1],"time":[1],"value":[1]}'),
        (ingest.COLUMNS, json.dumps(dict.fromkeys(ingest.NAMES, [1] * TOO_MANY)).encode()),
    ],
    ids=["lines of nothing", "empty lines", "lists", "numbers, and half a pair", "one row too many"],
)
def test_too_many_rows_are_refused_before_they_are_read(form, body):
    """With a sentence that says how many there may be; 16 MiB of empty lines took 102 seconds and a gigabyte."""
    began = time.process_time()
    with pytest.raises(Problem, match="a batch has at most 131072 rows: split it, and send its parts") as refused:
        kept(body, form)
    assert refused.value.status == 413
    assert time.process_time() - began < 20.0


def test_as_many_rows_as_may_be_are_read():
    """In each form."""
    rows = ingest.MOST_ROWS
    table = {"user": ["ada"] * rows, "time": [3600] * rows, "value": ["a"] * rows}
    found = kept(arrow(table), ingest.ARROW)
    assert found[0][-1] == rows
    assert kept(json.dumps(table).encode(), ingest.COLUMNS) == found
    lines = b'{"user":"ada","time":3600,"value":"a"}\n' * rows
    assert kept(lines, ingest.LINES) == found
    with pytest.raises(Problem, match="at most 131072 rows"):
        kept(lines + b"{}", ingest.LINES)


# Packing.


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
def test_packed_bodies(packing):
    """Are unpacked up to the limit and no further; what is damaged or cut off is refused."""
    pack = gzip.compress if packing == "gzip" else zstandard.ZstdCompressor().compress
    text = np.random.default_rng(3).bytes(5000) + b"a" * 5000
    assert unpack(pack(text), packing, 10_000) == text
    assert unpack(pack(text) + pack(b"more"), packing, 20_000) == text + b"more"
    with pytest.raises(Problem) as refused:
        unpack(pack(text), packing, 9_999)
    assert refused.value.status == 413
    bomb = pack(bytes(64 << 20))
    assert len(bomb) < 100_000
    with pytest.raises(Problem) as refused:
        unpack(bomb, packing, 1 << 20)
    assert refused.value.status == 413
    for damaged in (pack(text)[:-9], pack(text)[:20], b"nothing of it", pack(text) + b"x"):
        with pytest.raises(Problem) as refused:
            unpack(damaged, packing, 1 << 20)
        assert refused.value.status == 400
    with pytest.raises(Problem) as refused:
        unpack(text, "br", 1 << 20)
    assert refused.value.status == 415


EMPTY = {
    "gzip members": ("gzip", gzip.compress(b"")),
    "zstd frames": ("zstd", zstandard.ZstdCompressor().compress(b"")),
    "zstd frames that are skipped": ("zstd", b"\x50\x2a\x4d\x18" + bytes(4)),
}


@pytest.mark.parametrize("kind", EMPTY)
def test_many_empty_parts_are_refused_at_once(kind):
    """A mebibyte of them took 3 to 17 seconds; a body has so many parts at most, which are read in their order."""
    packing, part = EMPTY[kind]
    began = time.process_time()
    with pytest.raises(Problem, match="at most 1024 members or frames") as refused:
        unpack(part * ((1 << 20) // len(part)), packing, 16 << 20)
    assert time.process_time() - began < 1.5
    assert refused.value.status == 413
    assert unpack(part * MOST_PARTS, packing, 0) == b""
    with pytest.raises(Problem):
        unpack(part * (MOST_PARTS + 1), packing, 0)


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
def test_as_many_parts_as_may_be_are_joined_in_their_order(packing):
    """Whatever their sizes are: below, at and above a block."""
    pack = gzip.compress if packing == "gzip" else zstandard.ZstdCompressor().compress
    drawn = np.random.default_rng(4)
    parts = [drawn.bytes(n) for n in (*range(MOST_PARTS - 1), 1 << 20)]
    assert unpack(b"".join(map(pack, parts)), packing, 2 << 20) == b"".join(parts)


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
def test_what_is_unpacked_after_the_first_part_counts(packing):
    """The limit is on all parts together, also while they are unpacked: a second part has what the first has left."""
    limit = 16 << 20
    pack = partial(gzip.compress, compresslevel=1) if packing == "gzip" else zstandard.ZstdCompressor().compress
    assert len(unpack(pack(bytes(limit - 1)) + pack(b"a"), packing, limit)) == limit
    body = pack(bytes(limit)) + pack(bytes(3 * limit))
    tracemalloc.start()
    try:
        with pytest.raises(Problem) as refused:
            unpack(body, packing, limit)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert refused.value.status == 413
    # A block of 256 bytes becomes 8 MiB at most, and what is found is copied once: at the limit, not at three times it.
    assert most < 3 * limit + (8 << 20)


@pytest.mark.parametrize(("log", "holds"), [(20, True), (27, True), (28, False)])
def test_a_frame_that_wants_much_remembered_is_refused(log, holds):
    """A few bytes may ask for gigabytes of memory: 128 MiB are given, and no more."""
    frame = b"\x28\xb5\x2f\xfd\x00" + bytes([(log - 10) << 3]) + b"\x09\x00\x00a"
    if holds:
        assert unpack(frame, "zstd", 10) == b"a"
    else:
        with pytest.raises(Problem) as refused:
            unpack(frame, "zstd", 10)
        assert refused.value.status == 400


@pytest.mark.parametrize(("more", "users"), [(0, ["ada", "long", "bob"]), (1, ["ada", "bob", None])])
def test_a_line_that_is_too_long_is_dropped_by_itself(more, users):
    """While a line is decoded no slot is closed: the limit is on each line, and costs no other."""
    line = b'{"user": "long", "time": 0, "value": "a", "x": "%s"}'
    line %= b"x" * (ingest.LONGEST_LINE + more - len(line) + 2)
    body = b"\n".join(b'{"user": "%s", "time": 0, "value": "a"}' % name for name in (b"ada", b"bob"))
    first, last = body.split(b"\n")
    found = ingest.read_batch(b"\n".join([first, line, last]), ingest.LINES, "s", None)
    assert found.users.to_list() == users
