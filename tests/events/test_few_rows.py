"""Few rows take another way than many, and it ends at the same place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.domain import Categories
from dpi.events import columns
from dpi.events.columns import LONGEST
from dpi.events.identity import digests, users

TEXTS = st.sampled_from(
    ["a", "b", "7", "7.0", "7.00", "1e+1", "10", "-0", "0", "007", "x" * 40, "", "é", "\ud800", "a\n"]
)
COLUMNS = st.lists(TEXTS, max_size=40)
DOMAINS = [
    Categories(["a", "b", "7", "10"]),
    Categories(["a", "7.0", "7", "0"], other=None),
    Categories(["é", "", "1e+1"], other="rest"),
]


SHORT = st.text(st.sampled_from("ab70.+-e1\0 é\x80ā"), max_size=9)
SHORT_DOMAIN = Categories(["a", "ab", "a\0", "\0a", "7", "7.0", "00000007", "é", "a0000000", "a00000000", "-0", "ba"])


@given(st.lists(TEXTS | SHORT | st.sampled_from(SHORT_DOMAIN.values), max_size=40), st.integers(1, 9))
def test_a_short_text_has_the_same_bin_as_a_number(rows: list[str], letters: int) -> None:
    """Of numpy's texts of any width, those that end with a zero byte and those beyond ASCII included."""
    column = np.array(rows, dtype=f"U{letters}")
    for domain in (SHORT_DOMAIN, *DOMAINS):
        assert domain.encode(column).tolist() == domain.encode(column.tolist()).tolist()
        assert domain.encode(np.repeat(column, 2)[::2]).tolist() == domain.encode(column).tolist()


def test_short_texts_are_read_as_numbers_and_others_are_not() -> None:
    """The way that is compared above is the way that is taken."""
    find = SHORT_DOMAIN._find_short
    assert find(np.array(["ab", "xy", "7"])).tolist() == [1, -2, 4]
    others = [["ab"], np.array(["é"]), np.array(["ab" * 5]), np.array([["ab"]]), np.array([1]), np.array([], "U2")]
    assert all(find(column) is None for column in others)
    assert find(np.array(["ab"]).astype(np.array(["ab"]).dtype.newbyteorder())) is None


@given(COLUMNS, st.sampled_from(DOMAINS), st.booleans())
def test_a_text_has_the_same_bin_among_few_rows_as_among_many(rows: list[str], domain: Categories, typed: bool) -> None:
    """Whether a text is looked up by itself or as part of a column, it has the same code."""
    column = np.array(rows, dtype="U40") if typed else rows
    alone = [int(domain.encode(column[row : row + 1])[0]) for row in range(len(rows))]
    with pytest.MonkeyPatch.context() as many:
        many.setattr(columns, "FEW", -1)
        assert domain.encode(column).tolist() == alone
    assert domain.encode(column).tolist() == alone


def test_a_column_of_something_else_is_not_taken_for_texts() -> None:
    """A missing row, a number or a subclass of text is read as in any column."""
    text = type("Text", (str,), {})
    others = [["a", None], ["a", 1], [text("a")], np.array([["a"]]), np.array(["a", None], dtype=object), ("a",)]
    assert all(columns.few_texts(column) is None for column in others)
    assert columns.few_texts(["a"] * (columns.FEW + 1)) is None


IDS = st.sampled_from(["a", "é" * 8, "x" * 15, "x" * 16, "", None, "7", "7.0", "é" * (LONGEST // 2), "é" * LONGEST])


@given(st.lists(IDS, max_size=40))
def test_a_user_has_the_same_name_among_few_rows_as_among_many(rows: list[str | None]) -> None:
    """An id is refused or kept, and its account found, whatever the number of rows around it."""
    few_rows = users(rows)
    few_names = digests(few_rows.drop_nulls(), bytes(32))
    with pytest.MonkeyPatch.context() as many:
        many.setattr(columns, "HANDFUL", -1)
        many_rows = users(rows)
        many_names = digests(many_rows.drop_nulls(), bytes(32))
    assert few_rows.to_list() == many_rows.to_list()
    assert few_names.tolist() == many_names.tolist()
