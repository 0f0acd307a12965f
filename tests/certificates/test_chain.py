import hashlib
import json
from itertools import pairwise

import pytest

from dpi.certificates.chain import Head, Link, canonical, extend, link_of, most_spent, options_digest, text_digest
from dpi.errors import StateError


class Stamp:
    """A signer whose signature can be read."""

    def sign(self, digest):
        """The digest, stamped."""
        return f"signed {digest[:4]}"


def test_a_chain_begins_with_entry_0_after_64_zeros():
    """The first entry follows nothing: number 0, and a digest of zeros before it."""
    first = extend(Head(), {"kind": "options"})
    assert first.entry == {"kind": "options", "format": 1, "sequence": 0, "previous": "0" * 64}
    assert first.head == Head(0, first.digest)


def test_every_entry_states_the_digest_and_number_of_the_one_before():
    """Entries follow each other: number + 1, and the digest of the text before."""
    links = [extend(Head(), {"n": 0})]
    for n in range(1, 4):
        links.append(extend(links[-1].head, {"n": n}))
    assert [link.entry["sequence"] for link in links] == [0, 1, 2, 3]
    for before, after in pairwise(links):
        assert after.entry["previous"] == before.digest == text_digest(before.text)


def test_facts_never_overrule_the_place_in_the_chain():
    """A fact that is named like the place is the place."""
    entry = extend(Head(4, "x"), {"sequence": 99, "previous": "y"}).entry
    assert entry == {"format": 1, "sequence": 5, "previous": "x"}


def test_one_text_for_the_same_facts():
    """Keys are sorted, nothing is padded, other alphabets stay as they are, and what is no number is refused."""
    assert canonical({"b": [1, 2], "a": "Zürich"}) == '{"a":"Zürich","b":[1,2]}'
    assert canonical({"a": 1, "b": 2}) == canonical({"b": 2, "a": 1})
    with pytest.raises(ValueError, match="Out of range"):
        canonical({"x": float("nan")})


def test_digests_are_those_that_are_written_down():
    """A digest is BLAKE2b with 32 bytes and a purpose of its own, so that whoever has the text can check it."""
    for text in ("{}", '{"a":"Zürich"}'):
        for digest, person in ((text_digest, b"dpi chain"), (options_digest, b"dpi options")):
            assert digest(text) == hashlib.blake2b(text.encode(), digest_size=32, person=person).hexdigest()
    assert text_digest("{}").startswith("6f99c15f8b75fe71")
    assert options_digest("{}").startswith("feaed6d8a3bfe949")
    assert len(text_digest("\udcff")) == 64  # half of a pair, as a name from the file system may have


@pytest.mark.parametrize("signer", [None, Stamp()], ids=["unsigned", "signed"])
def test_a_link_is_found_again_in_its_certificate(signer):
    """A release carries entry, digest and signature; the link that is made of them is the stored one."""
    link = extend(Head(3, "ab"), {"kind": "release", "slot": 7}, signer)
    assert set(link.certificate) - set(link.entry) == {"digest"} | ({"signature"} if signer else set())
    assert link.signature == (None if signer is None else f"signed {link.digest[:4]}")
    assert link_of(link.certificate) == link


def test_an_entry_that_is_none_is_refused():
    """Text that is no JSON object is damage; a number that is none is before the first."""
    for text in ("", "[1]", '"x"', "{"):
        with pytest.raises(StateError, match="damaged"):
            _ = Link(text, "d").entry
    assert Link(json.dumps({"sequence": "3"}), "d").head == Head(-1, "d")


@pytest.mark.parametrize(
    ("period", "first", "last", "units", "spent"),
    [
        (None, 0, 9, 100, 10),
        (None, 0, 9, 7, 7),
        (2, 0, 1, 100, 10),
        (2, 0, 2, 100, 20),
        (2, 3, 4, 100, 20),
        (2, 4, 5, 100, 10),
        (1, 4, 5, 100, 20),
        (2, 0, 9, 33, 33),
        (0, 0, 9, 100, 10),
    ],
)
def test_the_most_that_is_spent_is_one_account_for_each_epoch_entered(period, first, last, units, spent):
    """ε once, or once for each epoch that a slot lies in; never more than the budgets sum to."""
    assert most_spent(10, period, first, last, units) == spent
