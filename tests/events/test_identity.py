import unicodedata

import numpy as np
import polars as pl
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from dpi.errors import OptionError
from dpi.events.columns import LONGEST
from dpi.events.identity import (
    EXACT,
    NFC_STRIP,
    by_first_half,
    digests,
    extend,
    name_users,
    normalise,
    rename,
    users,
)
from dpi.histogram.compression import truncation_key
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


def test_choices_are_made_with_the_last_key_of_a_chain():
    """Who had a key that was replaced cannot tell which events or texts of a user were chosen since."""
    names, content = digests(pl.Series(["ada", "bob"]), KEY), digests(pl.Series(["x", "y"]), bytes(32))
    first, last = KEY, bytes([7]) * 32
    chosen = Cipher(algorithms.AES(last), modes.ECB()).encryptor().update((names ^ content).tobytes())  # noqa: S305
    assert extend(names, content, first + last).tobytes() == chosen == extend(names, content, last).tobytes()
    assert extend(names, content, first + last).tolist() != extend(names, content, first).tolist()
    assert truncation_key(first + last) == truncation_key(last) != truncation_key(first)


def test_an_order_by_first_halves_is_that_of_a_stable_sort():
    """Also where names agree in the bits that are sorted, or in all of the first half."""
    rng = np.random.default_rng(1)
    near = rng.integers(0, 40, 500).astype(np.uint64)
    for first in (near, near << np.uint64(58), rng.integers(0, 1 << 63, 500).astype(np.uint64), near[:1], near[:0]):
        names = np.stack([first, np.zeros_like(first)], axis=1)
        assert by_first_half(names).tolist() == np.argsort(first, kind="stable").tolist()


SPELLINGS = ["Zoë", "Zoe\u0308", "Zoë ", " Zoë", "\tZoe\u0308\r\n", "\u3000Zoë\xa0", "Zoë\u2009\x85"]
OTHERS = ["zoë", "Zoe", "Zo ë", "Zo\u0308e", "ﬁ", "fi", "Zoë\u200b", "한글", "x" * 40]


def test_spellings_of_one_name_are_one_user():
    """NFC and NFD, and white space at the ends, name one account; case, letters and inner white space keep apart."""
    names, known = name_users(SPELLINGS + OTHERS, KEY, NFC_STRIP)
    assert known is None
    assert len({tuple(row) for row in names[: len(SPELLINGS)].tolist()}) == 1
    assert len({tuple(row) for row in names.tolist()}) == 1 + len(OTHERS)
    exact, _ = name_users(SPELLINGS + OTHERS, KEY, EXACT)
    assert len({tuple(row) for row in exact.tolist()}) == len(SPELLINGS) + len(OTHERS)
    assert names[0].tolist() == exact[0].tolist()  # a text that is as it should be has the name that it always had


ASCII_ODD = [["ada ", "ada"], ["ada", "\tada"], ["1.0 ", "1.0"], ["7", " 7"], ["ada", " "]]
"""Where one row alone, the first or the last, is another text when it is normalised."""


@pytest.mark.parametrize(
    "odd", [[*SPELLINGS, *OTHERS, "\u3000", "\u0378"], ["Zoë", "Zoe\u0308"], *ASCII_ODD], ids=ascii
)
@pytest.mark.parametrize("size", [0, 3, 600, (1 << 16) + 5])
def test_what_a_spelling_is_depends_on_no_other_row(size, odd):
    """Among few rows and among many, of ASCII alone or not, in the second slice, beside numbers and bad rows."""
    crowd = [f"user {n}" if n % 2 else str(n) for n in range(size)]
    column = [*crowd, *odd, *crowd[:3]]
    names, known = name_users(pl.Series(column), KEY, NFC_STRIP)
    alone = [name_users([text], KEY, NFC_STRIP) for text in odd]
    here = slice(size, size + len(odd))
    there = [found is None or bool(found[0]) for _, found in alone]
    assert (known is None and all(there)) or known[here].tolist() == there
    assert names[here].tolist() == [row[0].tolist() for row, _ in alone]
    plain, _ = name_users(pl.Series(crowd, dtype=pl.String), KEY, EXACT)
    assert names[:size].tolist() == plain.tolist()


def test_ids_of_white_space_or_of_unknown_characters_are_bad_rows():
    """They are dropped by themselves: nobody is there, or nobody can tell who.

    U+0378 is no character yet. Should it become one, its normal form may be another than itself.
    """
    column = ["\u0378", "a\u0378", " ", "\u3000", "", "\ue000", "\u200d", "\x07", "👩", 7, 1.0]
    assert users(column, NFC_STRIP).is_null().to_list() == [True] * 5 + [False] * 6
    assert users(["\u0378", " "], EXACT).is_null().to_list() == [False, False]


def test_an_id_is_as_long_as_it_came_and_as_it_is_named():
    """No row costs more than the longest id: one of many white spaces, or whose normal form is longer, is dropped."""
    longer = "\ufb2c" * 300  # 900 bytes, of which three characters each are made
    assert len(unicodedata.normalize("NFC", longer).encode()) > LONGEST
    column = ["ada" + " " * LONGEST, longer, " " * (LONGEST - 3) + "ada"]
    assert users(column, NFC_STRIP).to_list() == [None, None, "ada"]


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=12), max_size=20))
def test_a_normal_form_is_its_own(column):
    """What is normal stays so, has no white space at its ends, and is what Unicode says of each text by itself."""
    found = normalise(pl.Series(column, dtype=pl.String))
    assert normalise(found).to_list() == found.to_list()
    for text, normal in zip(column, found.to_list(), strict=True):
        if any(unicodedata.category(each) == "Cn" for each in text):
            assert normal is None
        else:
            assert normal is not None
            assert unicodedata.normalize("NFC", text).find(normal) >= 0
            assert unicodedata.is_normalized("NFC", normal)
            assert not (normal[:1].isspace() and normal[0] not in "\x1c\x1d\x1e\x1f")


def test_integers_are_the_same_by_every_rule():
    """A typed id has one form."""
    column = np.array([1, -7, 2**62])
    assert name_users(column, KEY, NFC_STRIP)[0].tolist() == name_users(column, KEY, EXACT)[0].tolist()
    mixed = [1, "1", "1 ", 1.0, "1.0"]
    assert len({tuple(row) for row in name_users(mixed, KEY, NFC_STRIP)[0].tolist()}) == 1
