"""A batch has a bounded number of rows, and takes a bounded time, whatever is in it."""

import io
import json
import time

import pyarrow as pa
import pytest

from dpi.errors import SchemaError
from dpi.service import _batch_reader as ingest
from dpi.service._problems import Problem
from service.batches import arrow, kept

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


MOST_BYTES = 16 << 20
LONGEST = 10.0
"""Seconds of computing that a batch may take: 3.6 at most on a machine of 2026, where 16 MiB of `{}` once took 102."""


def lines(line, rows=ingest.MOST_ROWS):
    """As many lines as may be, or as fit into a body."""
    return line * min(rows, MOST_BYTES // len(line))


def columns(cell, user=b""):
    """Columns in JSON with as many cells as may be, of which the first user is `user`."""
    each = b",".join([cell] * ingest.MOST_ROWS)
    return (
        b'{"user":['
        + (user + each[each.find(b",") :] if user else each)
        + b'],"time":[%b],"value":[%b]}' % (each, each)
    )


COSTLY = {
    "lines of nothing": (ingest.LINES, lines(b"{}\n")),
    "empty lines": (ingest.LINES, lines(b"\n")),
    "lines that end too soon": (ingest.LINES, lines(b"{\n")),
    "half a pair of surrogates": (ingest.LINES, lines(b'{"user":"\\ud800"}\n')),
    "objects in lines": (ingest.LINES, lines(b'{"user":{},"time":[],"value":{}}\n')),
    "a number and a text, in turn": (
        ingest.LINES,
        lines(b'{"user":1}\n{"user":"a","time":1.5}\n', ingest.MOST_ROWS // 2),
    ),
    "lists in long lines": (ingest.LINES, lines(b'{"x":[' + b"[]," * 5_450 + b'1],"user":1}\n')),
    "a line that is too long": (ingest.LINES, b'{"x":[' + b"[]," * 5_000_000 + b'1],"user":1}\n'),
    "lists": (ingest.COLUMNS, columns(b"[]")),
    "objects, and half a pair": (ingest.COLUMNS, columns(b"{}", b'"\\ud800"')),
    "numbers and a text": (ingest.COLUMNS, columns(b"1.5", b'"a"')),
    "lists in one cell": (ingest.COLUMNS, b'{"user":[[' + b"[]," * 5_000_000 + b'1]],"time":[1],"value":[1]}'),
    "one deep cell": (
        ingest.COLUMNS,
        b'{"user":[' + b"[" * (8 << 20) + b"]" * (8 << 20) + b'],"time":[1],"value":[1]}',
    ),
    "truth in Arrow": (ingest.ARROW, arrow(dict.fromkeys(ingest.NAMES, pa.array([True] * ingest.MOST_ROWS)))),
}


@pytest.mark.parametrize("kind", COSTLY)
def test_the_costliest_batches_take_a_bounded_time(kind):
    """As many rows and bytes as may be, of what is slow to read."""
    form, body = COSTLY[kind]
    began = time.process_time()
    kept(body, form)
    assert time.process_time() - began < LONGEST


@pytest.mark.parametrize(
    ("form", "body"),
    [
        (ingest.LINES, b"{}\n" * (MOST_BYTES // 3)),
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
    assert time.process_time() - began < LONGEST / 2


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
