import uuid

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.errors import SchemaError
from dpi.events.columns import canonical, numbers
from dpi.events.slots import Slots
from strategies import user_ids

FORMS = {
    "list": lambda x: x,
    "numpy": np.array,
    "numpy objects": lambda x: np.array(x, dtype=object),
    "polars": pl.Series,
    "pandas": pd.Series,
    "pandas objects": lambda x: pd.Series(x, dtype=object),
    "arrow": pa.array,
    "arrow chunks": lambda x: pa.chunked_array([x[:1], x[1:]]),
    "generator": lambda x: (row for row in x),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("rows", [[3, 1, 2], ["a", "ß", ""], [1.0, 2.0, -7.0]], ids=str)
def test_every_library_gives_the_same_column(form, rows):
    """A column reads alike from lists, numpy, polars, pandas and Arrow."""
    expected = [str(int(r)) if isinstance(r, float) else str(r) for r in rows]
    assert canonical(form(rows), "value").cast(pl.String).to_list() == expected


@given(st.lists(user_ids, max_size=20), user_ids)
def test_one_more_row_changes_no_other_row(rows, odd):
    """Whatever a further row is, the canonical text of the others stays: one user cannot change how others are read."""
    alone = canonical(rows, "user").cast(pl.String).to_list()
    together = canonical([*rows, odd], "user").cast(pl.String).to_list()
    assert together[: len(rows)] == alone


def test_a_missing_row_does_not_change_integers():
    """Pandas turns integers with a hole into floats; they stay the same users."""
    holed = pd.Series([1, None, 3])
    assert holed.dtype == "float64"
    assert canonical(holed, "user").to_list() == [1, None, 3]


def test_wide_floats_are_the_nearest_floats():
    """A column of them is read row by row, as a list is: beyond the range of floats they are infinite."""
    wide = np.array(["1e4000", "-1e4000", "1.5", "nan", "3"], dtype=np.longdouble)
    narrow = [np.inf, -np.inf, 1.5, np.nan, 3.0]
    for form in (wide, list(wide), pd.Series(wide)):
        np.testing.assert_array_equal(numbers(form, "value"), narrow)
        assert canonical(form, "user").cast(pl.String).to_list() == [None, None, "1.5", None, "3"]


def test_large_floats_are_no_integers():
    """Beyond 2^53 two ids could have become one float: such rows are empty."""
    assert canonical([float(2**53), 2.0**53 - 1], "user").to_list() == [None, 2**53 - 1]
    narrow = np.array([2**24, 2**24 - 1], dtype=np.float32)
    assert canonical(narrow, "user").to_list() == [None, 2**24 - 1]
    assert canonical([*narrow, "x"], "user").to_list() == [None, str(2**24 - 1), "x"]
    assert canonical(np.array([2.0**53, 0.5]), "user").to_list() == [None, "0.5"]


def test_unsigned_integers_beyond_63_bits_keep_their_text():
    """2^64 - 1 is a number like any other."""
    assert canonical(np.array([1, 2**64 - 1], dtype=np.uint64), "user").to_list() == ["1", str(2**64 - 1)]


def test_objects_of_known_types_have_text():
    """UUIDs, bytes and booleans have a canonical text; other objects are empty rows."""
    one = uuid.UUID(int=1)
    assert canonical([one, b"x", b"\xff", True, object(), "\ud800"], "user").to_list() == [
        str(one), "x", None, "true", None, None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "bad", ["text", 5, None, np.zeros((2, 2)), pl.Series([[1], [2]]), pl.Series([{"a": 1}])], ids=repr
)
def test_what_is_no_column_is_refused(bad):
    """A scalar, a matrix or a nested column is an error of the schema."""
    with pytest.raises(SchemaError, match="`user` must"):
        canonical(bad, "user")


class Shouting(str):
    """A text whose own methods misbehave."""

    def __str__(self):
        raise RuntimeError("private")


def test_odd_classes_and_surrogates_are_rows_like_others():
    """Subclasses are written by their base class's methods; a lone surrogate is an empty row, also in numpy."""
    assert canonical([Shouting("a"), "b"], "user").to_list() == ["a", "b"]
    assert canonical(np.array(["a", "x\ud800"]), "user").to_list() == ["a", None]


@pytest.mark.parametrize(
    "wrap", [lambda x: x, pl.Series, lambda x: pa.chunked_array([x, x])], ids=["Arrow", "polars", "chunks"]
)
def test_text_that_is_not_utf_8_is_an_empty_row(wrap):
    """Other libraries hand over texts unchecked: such a row is empty by itself, and the others stay."""
    broken = pa.Array.from_buffers(pa.string(), 3, pa.array([b"a", b"\xff", b"1"]).buffers())
    assert canonical(wrap(broken), "user").to_list()[:3] == ["a", None, "1"]
    assert numbers(wrap(broken), "value")[2] == 1


def test_dates_are_no_ids():
    """A column of dates is refused as a whole, in one sentence."""
    with pytest.raises(SchemaError, match="must hold integers or text"):
        canonical(pl.Series([1, 2]).cast(pl.Datetime("us")), "user")


def test_numbers_row_by_row():
    """A row that is not a number is NaN, by itself."""
    assert np.array_equal(numbers(["1", "x", "2.5", None], "value"), [1, np.nan, 2.5, np.nan], equal_nan=True)
    assert np.array_equal(numbers([1, None, 3], "value"), [1, np.nan, 3], equal_nan=True)


anything = st.one_of(
    user_ids, st.booleans(), st.datetimes(), st.dates(), st.decimals(allow_nan=True), st.just(object()),
    st.floats(width=32).map(np.float32), st.integers(-5, 5).map(np.int64), st.text(max_size=6).map(np.str_),
)  # fmt: skip


@given(st.lists(anything, max_size=8), anything)
def test_one_more_row_of_any_kind_changes_no_other_row(rows, odd):
    """Ids, numbers and times of a list read alike whatever else is in it, with numpy's and Python's own types."""
    slots = Slots("1h")
    readers = {
        "canonical": lambda x: canonical(x, "user").cast(pl.String).to_list(),
        "numbers": lambda x: [str(v) for v in numbers(x, "value")],
        "seconds": lambda x: slots.numbers(x, "s").tolist(),
    }
    for reader in readers.values():
        assert reader([*rows, odd])[: len(rows)] == reader(rows)


@given(
    st.lists(st.one_of(st.datetimes(), st.dates(), st.text(max_size=12), st.none()), max_size=6), st.text(max_size=9)
)
def test_one_odd_time_changes_no_other_time(rows, odd):
    """Datetimes keep their slots when a text stands among them."""
    slots = Slots("1h", zone="Europe/Berlin")
    assert slots.numbers([*rows, odd]).tolist()[: len(rows)] == slots.numbers(rows).tolist()
