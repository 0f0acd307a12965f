"""The universe of texts: numbered without gaps, valid UTF-8, and told by itself."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.domain import Texts
from dpi.domain.file import describe, from_description
from dpi.errors import OptionError

UNIVERSES = [Texts(6), Texts(32), Texts(40, "ascii"), Texts(9, "digits"), Texts(12, characters="-^]\\äb€😀")]


@pytest.mark.parametrize("universe", [Texts(3, "digits"), Texts(4, characters="b€ä😀"), Texts(2, "ascii")], ids=repr)
def test_every_text_has_one_number(universe):
    """Numbers and texts are one to one: all different, of the alphabet and the length, shorter ones first."""
    texts = [universe.text(rank) for rank in range(universe.count)]
    assert len(set(texts)) == universe.count
    assert [universe.rank(text) for text in texts] == list(range(universe.count))
    sizes = [len(text.encode()) for text in texts]
    assert sizes == sorted(sizes)
    assert 1 <= sizes[0] <= sizes[-1] <= universe.length
    for length, ranks in universe.lengths.items():
        assert [rank for rank, size in enumerate(sizes) if size == length] == list(ranks)


@pytest.mark.parametrize("universe", UNIVERSES, ids=repr)
def test_a_universe_that_cannot_be_listed_is_numbered_as_well(universe):
    """From a number to its text and back, at random and at both ends."""
    rng = random.Random(1)
    for rank in [0, universe.count - 1, *(rng.randrange(universe.count) for _ in range(200))]:
        text = universe.text(rank)
        assert text in universe
        assert universe.rank(text) == rank


@given(st.text(max_size=8))
def test_a_text_is_told_by_itself(text):
    """It is of the universe if it has 1 to 6 bytes and no control character; and a number if, and only if, it is."""
    universe = UNIVERSES[0]
    try:
        inside = 1 <= len(text.encode()) <= 6 and not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in text)
    except UnicodeError:
        inside = False
    assert (text in universe) == inside == (universe.rank(text) is not None)


@pytest.mark.parametrize("universe", UNIVERSES, ids=repr)
def test_it_is_described_as_any_domain(universe):
    """The chain has the description, and what is made of it is equal; the order of characters does not matter."""
    assert from_description(json.loads(json.dumps(describe(universe)))) == universe
    assert Texts(5, characters="ab") == Texts(5, characters="bab") != Texts(5, characters="abc")


def test_digests_are_stable():
    """They are part of certificates."""
    assert Texts(32).digest.startswith("32d7917e")
    assert Texts(10, "ascii").digest.startswith("458a10f6")


@pytest.mark.parametrize(
    "options",
    [
        {"length": 0},
        {"length": 129},
        {"length": 2.5},
        {"alphabet": "klingon"},
        {"characters": ""},
        {"characters": "a\n"},
        {"characters": "\ud800"},
        {"characters": "ab", "alphabet": "digits"},
        {"characters": "€", "length": 2},
    ],
    ids=str,
)
def test_an_alphabet_that_holds_no_value_is_refused(options):
    """A length that is none, characters that are none or would be printed as something else, or too long for it."""
    with pytest.raises(OptionError, match=r"`(length|alphabet|characters)`"):
        Texts(**options)


def test_no_stream_counts_in_it():
    """It is one bin for discovery alone."""
    assert (len(Texts(3)), Texts(3).label(0)) == (1, "texts of up to 3 bytes, of characters of any kind")
    with pytest.raises(OptionError, match="discovery"):
        Texts(3).encode(["a"])
