from __future__ import annotations

import json

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpi
from dpi.events.columns import canonical
from dpi.sources.ndjson import Ndjson

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=True), st.text(), st.lists(st.integers(), max_size=2)
)

BROKEN = {
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
    return Ndjson("user", ["user"]).parse(lines)["user"].to_list()


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_line_costs_itself_only(line: bytes) -> None:
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
    frame = Ndjson("user", ["user", "value"]).parse(b'{"user": 1e300, "value": 1e300}\n')
    assert frame.rows() == [(None, "1e+300")]
    assert dpi.Bins([0, 10]).encode(frame["value"]).tolist() == [2]
