import numpy as np
import polars as pl
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from dpi.errors import OptionError
from dpi.events.identity import LONGEST, by_first_half, digests, rename, users
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


@pytest.mark.parametrize("size", range(1, 16))
def test_a_text_that_spells_an_integers_block_is_another_user(size):
    """No text of up to 15 bytes shares the block of an integer, though its bytes after the first be the same."""
    tail = bytes(range(1, size - 6)) if size > 7 else b""
    text = (b"\0" * min(size, 7) + tail).decode()
    number = int.from_bytes(tail[:8].ljust(8, b"\0"), "little", signed=True)
    assert digests(pl.Series([text]), KEY).tolist() != digests(pl.Series([number]), KEY).tolist()


def aes(block):
    """AES-256 of one block under the test's key."""
    return Cipher(algorithms.AES(KEY), modes.ECB()).encryptor().update(block)  # noqa: S305


@pytest.mark.parametrize(
    ("user", "blocks"),
    [
        (5, [bytes([128, *[0] * 7, 5, *[0] * 7])]),
        (-1, [bytes([128, *[0] * 7, *[255] * 8])]),
        ("5", [bytes([128, *[0] * 7, 5, *[0] * 7])]),
        ("ada", [b"\x03ada" + bytes(12)]),
        ("x" * 15, [b"\x0f" + b"x" * 15]),
        ("x" * 16, [b"\xff" + bytes(7) + b"\x10" + bytes(7), b"x" * 16]),
        ("x" * 17, [b"\xff" + bytes(7) + b"\x11" + bytes(7), b"x" * 16, b"x" + bytes(15)]),
    ],
    ids=repr,
)
def test_a_digest_is_the_one_that_is_written_down(user, blocks):
    """An account's name is CBC-MAC over the encoding in the docstring: a store finds its accounts for ever."""
    state = bytes(16)
    for block in blocks:
        state = aes(bytes(a ^ b for a, b in zip(state, block, strict=True)))
    assert digests(pl.Series([user]), KEY).tobytes() == state


def test_more_ids_than_are_handled_at_a_time():
    """Ids in the second slice, text and integers mixed, have the digests that they have alone."""
    ids = [str(i) if i % 2 else f"u{i}" for i in range((1 << 16) + 3)]
    together = digests(pl.Series(ids), KEY)
    for i in (0, 1, (1 << 16) - 1, 1 << 16, (1 << 16) + 2):
        assert together[i].tolist() == digests(pl.Series([ids[i]]), KEY)[0].tolist()


def test_another_key_gives_other_digests():
    """A digest says nothing without the key."""
    assert digests(pl.Series(["ada"]), KEY).tolist() != digests(pl.Series(["ada"]), bytes(32)).tolist()


def test_ids_that_are_empty_or_endless_are_bad_rows():
    """They are dropped by themselves, and no memory is spent on one user's long id."""
    assert users(["a", "", "x" * (LONGEST + 1), None, "b"]).to_list() == ["a", None, None, None, "b"]
    assert users(["x" * 1024, "x" * 1025, "é" * 512, "é" * 513]).is_null().to_list() == [False, True, False, True]


@pytest.mark.parametrize("key", [b"", b"short", bytes(40), "x" * 32, None])
def test_a_key_must_be_32_bytes(key):
    """A wrong key is refused and not shown."""
    with pytest.raises(OptionError, match="32 random bytes"):
        digests(pl.Series(["a"]), key)


def test_further_keys_permute_names_one_after_the_other():
    """A chain of keys names as many users, and each step is AES of the names before it; no beginning is the whole."""
    ids, first, second, third = pl.Series(["1", "ada", "x" * 40]), KEY, bytes(32), bytes([7]) * 32
    named = digests(ids, first + second + third)
    assert named.tolist() == rename(digests(ids, first), second + third).tolist()
    one = Cipher(algorithms.AES(second), modes.ECB()).encryptor().update(digests(ids, first).tobytes())  # noqa: S305
    assert one == digests(ids, first + second).tobytes()
    chains = (first, first + second, second + first)
    assert len({tuple(row) for chain in chains for row in digests(ids, chain).tolist()}) == 9


def test_an_order_by_first_halves_is_that_of_a_stable_sort():
    """Also where names agree in the bits that are sorted, or in all of the first half."""
    rng = np.random.default_rng(1)
    near = rng.integers(0, 40, 500).astype(np.uint64)
    for first in (near, near << np.uint64(58), rng.integers(0, 1 << 63, 500).astype(np.uint64), near[:1], near[:0]):
        names = np.stack([first, np.zeros_like(first)], axis=1)
        assert by_first_half(names).tolist() == np.argsort(first, kind="stable").tolist()
