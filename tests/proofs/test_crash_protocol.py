"""The crash protocol, searched to the end, and without each of its rules."""

import os

import pytest

from crash_model import Rules, World, search, without

thorough = pytest.mark.skipif(not os.environ.get("DPI_PROOFS"), reason="takes a minute: `make proofs` runs it")


def test_no_interleaving_breaks_the_protocol():
    """Two writers, a copy that is put back: no slot has two measurements, and no debit is forgotten."""
    states, found = search(Rules(), World(crashes=0))
    assert (states > 30_000, found) == (True, None)


@thorough
def test_no_crash_breaks_the_protocol():
    """The same with a crash at any moment."""
    states, found = search(Rules(), World(crashes=1))
    assert (states > 200_000, found) == (True, None)


@thorough
@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ("compares", "two measurements of one slot"),
        ("tells_first", "two measurements of one slot"),
        ("confirms", "two measurements of one slot"),
        ("charges", "a debit is forgotten"),
        ("debits_first", "a debit is forgotten"),
    ],
)
def test_without_a_rule_the_search_finds_what_goes_wrong(rule, found):
    """Every rule is needed."""
    assert search(without(rule), World(crashes=1))[1] == found
