import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.errors import OptionError
from dpi.identity import LONGEST, digests, users
from strategies import keys, texts

KEY = bytes(range(32))


@given(st.lists(texts.filter(bool), unique=True, max_size=30), keys)
def test_different_ids_have_different_digests(ids, key):
    """Ids of every length, integers among them, keep apart, and an id's digest does not depend on its neighbours."""
    together = digests(pl.Series(ids, dtype=pl.String), key)
    assert len({tuple(row) for row in together.tolist()}) == len(ids)
    for text, row in zip(ids, together.tolist(), strict=True):
        assert digests(pl.Series([text]), key)[0].tolist() == row


@given(st.integers(-(2**63), 2**63 - 1))
def test_an_integer_and_its_text_are_one_user(number):
    """The integer 1 and the text "1" share an account."""
    assert digests(pl.Series([number]), KEY).tolist() == digests(pl.Series([str(number)]), KEY).tolist()


@pytest.mark.parametrize("text", ["01", "+1", " 1", "1 ", "-0", "1.0", "1e3", "９"])
def test_text_that_merely_looks_like_an_integer_is_text(text):
    """Only the canonical form of an integer is that integer."""
    number = digests(pl.Series([1, 0, 9, 1000]), KEY).tolist()
    assert digests(pl.Series([text]), KEY).tolist()[0] not in number


def test_lengths_around_a_block_keep_apart():
    """Ids that agree but for trailing zero bytes or a block's border differ."""
    ids = [("x" * n) + ("\0" * z) for n in range(13, 36) for z in range(3)]
    assert len({tuple(row) for row in digests(pl.Series(ids), KEY).tolist()}) == len(ids)


def test_another_key_gives_other_digests():
    """A digest says nothing without the key."""
    assert digests(pl.Series(["ada"]), KEY).tolist() != digests(pl.Series(["ada"]), bytes(32)).tolist()


def test_ids_that_are_empty_or_endless_are_bad_rows():
    """They are dropped by themselves, and no memory is spent on one user's long id."""
    assert users(["a", "", "x" * (LONGEST + 1), None, "b"]).to_list() == ["a", None, None, None, "b"]


@pytest.mark.parametrize("key", [b"", b"short", "x" * 32, None])
def test_a_key_must_be_32_bytes(key):
    """A wrong key is refused and not shown."""
    with pytest.raises(OptionError, match="32 random bytes"):
        digests(pl.Series(["a"]), key)
